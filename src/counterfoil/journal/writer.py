"""The way from a turn to its journal: a bounded queue and one thread, so that no turn waits for a disk (DESIGN 8).

A full queue drops the event and a journal that fails loses it; the next event of the same turn says how many are
missing before it. What is queued is written before the process ends, as long as that takes no longer than a few seconds.
"""

from __future__ import annotations

import atexit
import contextvars
import logging
import os
import threading
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from typing import Final

from msgspec.structs import replace

from counterfoil.journal.contract import TurnJournal
from counterfoil.journal.event import TurnNote
from counterfoil.journal.summary import with_gap

CAPACITY: Final = 4096
"""Events that wait at most."""

BATCH_MAX: Final = 256
FLUSH_S: Final = 5.0
"""How long the end of a process waits for what is queued."""

LINGER_S: Final = 0.01
"""How long a queued event waits for others: a thread that wakes for each would take the processor from the turns."""

IDLE_S: Final = 1.0
"""How long the thread waits for more before it ends."""

SYNCHRONOUS_S: Final = 0.25
"""How long a synchronous event waits at most to be written. It stays queued, and the turn goes on."""

log: logging.Logger = logging.getLogger("counterfoil.journal")


def report(what: str, error: BaseException) -> None:
    """Log that something was not journaled, by the error's class: its text and trace could hold what was said."""
    with suppress(Exception):
        log.error("%s: %s", what, type(error).__name__)


class TurnLane:
    """What the events of one turn share on their way: the context they are written in, and how many were lost.

    The context is the one in which the turn began (tenant, and whatever else a journal looks at), whichever thread
    writes.
    """

    __slots__ = ("_dropped", "_failed", "_lock", "context")

    def __init__(self) -> None:
        self.context: contextvars.Context = contextvars.copy_context()
        # Entered again when the collector, in the middle of it, ends a stream that somebody let go of.
        self._lock = threading.RLock()
        self._dropped = 0
        self._failed = 0

    def drop(self) -> None:
        """An event was not handed over: the next one that is comes after a gap."""
        with self._lock:
            self._dropped += 1

    def take_dropped(self) -> int:
        """How many were dropped since this was last asked."""
        with self._lock:
            dropped, self._dropped = self._dropped, 0
        return dropped

    def fail(self, events: int) -> None:
        """Events were handed over and could not be written: the next one that is written comes after a gap."""
        with self._lock:
            self._failed += events

    def take_failed(self) -> int:
        """How many could not be written since this was last asked."""
        with self._lock:
            failed, self._failed = self._failed, 0
        return failed


REPORT_S: Final = 60.0
"""How long a writer keeps quiet about more losses of the same kind; the next report counts them."""

TROUBLED_MAX: Final = 1024
"""Turns of which it is remembered that events are missing after the last one that is written."""

_Queued = tuple[TurnLane, TurnNote, int]


class JournalWriter:
    """Writes notes into a journal from a thread of its own, which begins with the first one. Thread-safe.

    No method but :meth:`flush` and :meth:`close` waits, and none raises what the journal raised: that is logged.
    """

    def __init__(
        self,
        journal: TurnJournal,
        *,
        capacity: int = CAPACITY,
        synchronous: bool = False,
        synchronous_s: float = SYNCHRONOUS_S,
    ) -> None:
        self.journal: TurnJournal = journal
        self.lost: int = 0
        self._untold = 0
        self._quiet: dict[str, float] = {}
        self._troubled: OrderedDict[str, TurnLane] = OrderedDict()
        self._capacity = capacity
        self._patience_s = synchronous_s if synchronous else 0.0
        self._begin()
        _WRITERS.add(self)

    def _begin(self) -> None:
        self._queue: deque[_Queued] = deque()
        # Entered again as a lane's is: a stream's end comes wherever the collector happens to run.
        lock = threading.RLock()
        self._more = threading.Condition(lock)
        self._done = threading.Condition(lock)
        self._working = False
        self._waiting = False
        self._hurried = 0
        self._behind = False
        self._worker = 0
        self._closed = False
        self._taken = 0
        self._given = 0

    def put(self, lane: TurnLane, note: TurnNote) -> bool:
        """Hand an event over; False when the queue is full and it is lost."""
        with self._more:
            if not self._closed and len(self._queue) < self._capacity:
                self._queue.append((lane, note, lane.take_dropped()))
                self._given += 1
                self._wake()
                if self._patience_s and not self._behind and threading.get_ident() != self._worker:
                    mine = self._given
                    # Once is enough: while the journal does not answer, no event waits for it again.
                    self._behind = not self._done.wait_for(lambda: self._taken >= mine, self._patience_s)
                return True
            self.lost += 1
            self._remember(note.turn_id, lane)
        lane.drop()
        return False

    def take_missing(self, turn_id: str) -> int:
        """How many events of a turn are missing after the last one written, as far as is known here; told once."""
        with self._more:
            lane = self._troubled.pop(turn_id, None)
        return 0 if lane is None else lane.take_dropped() + lane.take_failed()

    def _remember(self, turn_id: str, lane: TurnLane) -> None:
        self._troubled[turn_id] = lane
        while len(self._troubled) > TROUBLED_MAX:
            self._troubled.popitem(last=False)

    def flush(self, timeout_s: float = FLUSH_S) -> bool:
        """Wait until everything handed over so far was written or given up; False when the time was over first."""
        with self._done:
            wanted = self._given
            self._hurried += 1
            self._more.notify()
            try:
                return self._done.wait_for(lambda: self._taken >= wanted, timeout_s)
            finally:
                self._hurried -= 1

    def close(self, timeout_s: float = FLUSH_S) -> bool:
        """Take nothing more, write what waits and close the journal; False when the time was over first. Idempotent."""
        with self._more:
            self._closed = True
            self._more.notify()
        done = self.flush(timeout_s)
        if done:
            try:
                self.journal.close()
            except Exception as error:  # noqa: BLE001 - whatever a journal raises, the process ends as it would
                report("the turn journal could not be closed", error)
        return done

    # ---- the thread ----

    def _wake(self) -> None:
        if self._working:
            if self._waiting:
                self._more.notify()
            return
        threading.Thread(target=self._work, name="counterfoil-journal", daemon=True).start()
        self._working = True

    def _work(self) -> None:
        """Write until nothing has come for a while; the next event begins a new thread."""
        self._worker = threading.get_ident()
        while True:
            with self._more:
                self._await_events()
                if not self._queue:
                    self._working = False
                    return
                batch = [self._queue.popleft() for _ in range(min(BATCH_MAX, len(self._queue)))]
            self.write(batch)

    def _await_events(self) -> None:
        """Wait for a first event, and a little for others, unless somebody waits for it to be written."""
        if not self._queue and not self._closed:
            self._waiting = True
            self._more.wait(IDLE_S)
            self._waiting = False
        if self._queue and len(self._queue) < BATCH_MAX and not self._pressed():
            self._more.wait_for(self._pressed, LINGER_S)

    def _pressed(self) -> bool:
        return bool(self._closed or self._hurried or self._patience_s)

    def write(self, batch: Sequence[_Queued]) -> None:
        """Write a batch: at once where the journal allows it, else turn by turn.

        What one turn's journal refuses does not hold up another's.
        """
        turns = [list(group) for _, group in groupby(sorted(batch, key=_turn_of), key=_turn_of)]
        if len(turns) == 1 or getattr(self.journal, "reads_context", True) or not self._written_whole(turns):
            for queued in turns:
                self._write_turn(queued)
        with self._done:
            self._taken += len(batch)
            self._done.notify_all()

    def _written_whole(self, turns: Sequence[Sequence[_Queued]]) -> bool:
        """Several turns in one transaction; False when it was refused and nothing of it is recorded."""
        failed = [queued[0][0].take_failed() for queued in turns]
        notes = [
            note for queued, before in zip(turns, failed, strict=True) for note in _notes(queued, before)
        ]
        try:
            self.journal.append(notes)
        except BaseException:  # noqa: BLE001 - each turn is tried by itself, and what it raises then is reported
            for queued, before in zip(turns, failed, strict=True):
                queued[0][0].fail(before)
            return False
        self._behind = False
        return True

    def _write_turn(self, queued: Sequence[_Queued]) -> None:
        lane = queued[0][0]
        failed = lane.take_failed()
        try:
            lane.context.copy().run(self.journal.append, _notes(queued, failed))
        except BaseException as error:  # noqa: BLE001 - whatever a journal raises, this thread writes on and no turn feels it
            lane.fail(failed + sum(1 + gap for _, _, gap in queued))
            with self._done:
                self._remember(queued[0][1].turn_id, lane)
            self._lose(len(queued), error)
        else:
            self._behind = False

    def miss(self, error: BaseException) -> None:
        """Count an event that could not even be made, and report it as any other that is lost."""
        self._lose(1, error)

    def _lose(self, events: int, error: BaseException) -> None:
        now_s = time.monotonic()
        kind = type(error).__name__
        with self._done:
            self.lost += events
            self._untold += events
            if now_s < self._quiet.get(kind, now_s):
                return
            told, self._untold = self._untold, 0
            self._quiet[kind] = now_s + REPORT_S
        report(f"{told} events of turns could not be journaled", error)

    def inherited(self) -> None:
        """In the child of a fork: the thread, and what was queued, are the parent's."""
        self._begin()


def _notes(queued: Sequence[_Queued], failed: int) -> list[TurnNote]:
    """What is to be written of one turn; ``failed`` events of it are missing before the first."""
    gaps = [gap for _, _, gap in queued]
    gaps[0] += failed
    return [
        replace(note, summary=with_gap(note.summary, gap)) if gap else note
        for (_, note, _), gap in zip(queued, gaps, strict=True)
    ]


def _turn_of(queued: _Queued) -> int:
    return id(queued[0])


_WRITERS: Final[weakref.WeakSet[JournalWriter]] = weakref.WeakSet()


def _in_child() -> None:
    for writer in list(_WRITERS):
        writer.inherited()


@atexit.register
def _at_exit() -> None:
    until_s = time.monotonic() + FLUSH_S
    for writer in list(_WRITERS):
        writer.close(max(0.0, until_s - time.monotonic()))


os.register_at_fork(after_in_child=_in_child)
