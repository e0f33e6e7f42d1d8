"""A worker: ends doubt, makes due retries, lets approvals expire, and enters registered agents whose run can go on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final, Literal

from msgspec import Struct

from counterfoil.abc import ChildHost, Timer
from counterfoil.approvals.expire import expire_approval, lapsed_rows
from counterfoil.errors import AccessError, InputError, IntegrityError
from counterfoil.flow.drive import drive
from counterfoil.flow.ports import Ports
from counterfoil.journal.rows import TURNS
from counterfoil.runtime.agents import Agent, find_agent
from counterfoil.runtime.children.recover import RECOVERY, ChildReport, recover_child, unsettled_rows
from counterfoil.runtime.children.stop import Stopper
from counterfoil.runtime.ready import ReadyRun, ready_runs
from counterfoil.runtime.ready_inputs import ReadyInput, ready_inputs
from counterfoil.runtime.recover import (
    EffectReport,
    FindTool,
    doubt_due,
    end_doubt,
    given_up,
    make_retry,
    retry_rows,
)
from counterfoil.runtime.schedules.fire import Fired, fire
from counterfoil.runtime.schedules.timer import arm_all
from counterfoil.runtime.turn import TurnKept, abandon_turn, due_turns, keep_turn
from counterfoil.store.rows import Key, Row

STEP_S: Final = 0.5
"""Longest sleep in one piece: how long a worker that was told to stop takes to notice, at most."""

REST: Final = 4
"""How much longer than a look that found nothing a worker rests: it looks for a fifth of its time at most."""

PAUSE_MS: Final = 5_000
PAUSE_MS_MAX: Final = 300_000
"""Pause before something that came to nothing is tried again: the first one, and the longest after doubling."""

REMEMBERED_MAX: Final = 10_000
"""Things that came to nothing whose pauses are remembered; the longest untouched are forgotten first."""


KEPT_MAX: Final = 200
"""Turns whose head is due that one pass looks at; the next pass goes on behind them."""

ABANDONED_AFTER_S: Final = 86_400.0
"""How long nothing came to a turn whose worker is gone, before a worker that keeps heads gives it up."""

GIVE_UP_EVERY_MS: Final = 60_000
"""How often a worker looks for such turns: it goes through all open runs."""


class Entry(Struct, frozen=True):
    """What became of a run that was entered again.

    ``ended`` (``terminal`` says how), ``waits`` (again, for something else), ``busy`` (another worker was first),
    ``left`` (it could not go on here, ``why`` says why). ``error_class`` is what left its block, if anything did.
    """

    run: ReadyRun
    done: Literal["ended", "waits", "busy", "left"]
    terminal: str | None = None
    error_class: str | None = None
    why: str = ""


class Lapsed(Struct, frozen=True):
    """An approval whose time was over: ``expired`` on record, or ``left`` where that could not be (``why`` says why)."""

    approval_id: str
    effect_id: str
    run_id: str
    stream_id: str
    tool: str
    done: Literal["expired", "left"] = "expired"
    why: str = ""


class Started(Struct, frozen=True):
    """What became of an input whose run was started: as for an :class:`Entry`. ``run_id`` None: it got none."""

    input: ReadyInput
    done: Literal["ended", "waits", "busy", "left"]
    run_id: str | None = None
    terminal: str | None = None
    error_class: str | None = None
    why: str = ""


Happening = EffectReport | Lapsed | Entry | Started | Fired | TurnKept | ChildReport
Enter = Callable[[ReadyRun, Agent], Entry]
Start = Callable[[ReadyInput, Agent], Started]


class Worker:
    """One worker over the ledger of one tenant; any number may work at the same time, and be stopped at any point.

    Everything it does is claimed first, so what another worker does is left to it. It holds a page of rows in memory
    and the pauses of what came to nothing. ``tell`` hears of everything that happened. Use it from one thread;
    :meth:`stop` may be called from any, and from a signal handler.
    """

    def __init__(
        self,
        ports: Ports,
        owner: str,
        find_tool: FindTool,
        *,
        enter: Enter | None = None,
        start: Start | None = None,
        timer: Timer | None = None,
        every_s: float = 1.0,
        turns: bool = False,
        children: ChildHost | None = None,
        tell: Callable[[Happening], None] = lambda _: None,
    ) -> None:
        self._ports = ports
        self._owner = owner
        self._find_tool = find_tool
        self._enter = enter
        self._start = start
        self._timer = timer
        self._armed = False
        self._every_s = every_s
        self._turns = turns
        self._children = None if children is None else Stopper(children, ports, owner, RECOVERY)
        self._turns_after: Key | None = None
        self._give_up_at_ms = 0
        self._tell = tell
        self._pauses = Pauses()
        self._stopping = False

    @property
    def stopping(self) -> bool:
        """Whether it was told to stop."""
        return self._stopping

    def stop(self) -> None:
        """Begin nothing new. What it is at is brought to its end first."""
        self._stopping = True

    def work(self) -> None:
        """Look, do what is due, sleep, until told to stop. A pass that did something is followed by another at once.

        Where looking takes long because much waits, the sleep is longer in proportion.
        """
        while not self._stopping:
            began_ms = self._ports.now_ms()
            if not self.look():
                took_s = (self._ports.now_ms() - began_ms) / 1000
                self._sleep(max(self._every_s, took_s * REST))

    def look(self) -> bool:
        """One pass over what is due; whether anything came of it."""
        did = False
        for happened in self._due():
            self._tell(happened)
            did = did or not _came_to_nothing(happened)
        return did

    def _due(self) -> Iterator[Happening]:
        yield from self._effects(doubt_due(self._ports), end_doubt)
        yield from self._effects(self._retries(), make_retry)
        yield from self._approvals()
        if self._children is not None:
            yield from self._kin(self._children)
        if self._timer is not None:
            yield from self._schedules(self._timer)
        if self._enter is not None:
            yield from self._runs(self._enter)
        if self._start is not None:
            yield from self._inputs(self._start)
        if self._turns:
            yield from self._heads()
            yield from self._given_up()

    def _retries(self) -> Iterator[Row]:
        now_ms = self._ports.now_ms()
        return (row for row in retry_rows(self._ports) if int(row["due_at_ms"] or 0) <= now_ms)

    def _effects(
        self,
        found: Iterator[Row],
        bring: Callable[..., EffectReport],
    ) -> Iterator[EffectReport]:
        for row in found:
            if self._stopping:
                return
            effect_id = str(row["effect_id"])
            if self._pauses.rests(effect_id, self._ports.now_ms()):
                continue
            report = bring(self._ports, self._owner, self._find_tool, row)
            if _came_to_nothing(report):
                # Whoever is at it now may be gone the next moment; asking costs a look.
                self._pauses.begin(effect_id, self._ports.now_ms(), grows=report.done != "live")
            else:
                self._pauses.end(effect_id)
            yield report

    def _kin(self, by: Stopper) -> Iterator[ChildReport]:
        """Stops of children that broke off, and ends of children that were not told."""
        for row in unsettled_rows(self._ports):
            if self._stopping:
                return
            run_id = str(row["child_run_id"])
            if self._pauses.rests(run_id, self._ports.now_ms()):
                continue
            report = recover_child(row, by)
            if report is None:
                continue
            if _came_to_nothing(report):
                self._pauses.begin(run_id, self._ports.now_ms())
            else:
                self._pauses.end(run_id)
            yield report

    def _approvals(self) -> Iterator[Lapsed]:
        for row in lapsed_rows(self._ports):
            if self._stopping:
                return
            approval_id = str(row["approval_id"])
            if self._pauses.rests(approval_id, self._ports.now_ms()):
                continue
            try:
                if drive(expire_approval(approval_id), self._ports):
                    yield _lapsed(row)
            except (AccessError, InputError, IntegrityError) as error:
                # Of this conversation alone: its key is gone, or its record cannot be read.
                self._pauses.begin(approval_id, self._ports.now_ms())
                yield _lapsed(row, "left", error.message)

    def _runs(self, enter: Enter) -> Iterator[Entry]:
        for run in ready_runs(self._ports):
            if self._stopping:
                return
            agent = find_agent(run.agent)
            if agent is None or self._pauses.rests(run.run_id, self._ports.now_ms()):
                continue
            entry = enter(run, agent)
            if entry.done == "ended":
                self._pauses.end(run.run_id)
            else:
                # Also one that waits again: what it waits for may be over the next moment, and bring it nowhere.
                self._pauses.begin(run.run_id, self._ports.now_ms(), grows=_came_to_nothing(entry))
            yield entry

    def _schedules(self, timer: Timer) -> Iterator[Fired]:
        if not self._armed:
            arm_all(self._ports, timer)
            self._armed = True
        for schedule_id in timer.due(self._ports.now_ms()):
            if self._stopping:
                return
            if self._pauses.rests(schedule_id, self._ports.now_ms()):
                continue
            fired = fire(self._ports, self._owner, schedule_id)
            if fired is None:
                continue
            if fired.done == "left":
                self._pauses.begin(schedule_id, self._ports.now_ms())
            elif fired.next_due_ms is not None:
                timer.arm(schedule_id, fired.next_due_ms)
            yield fired

    def _inputs(self, start: Start) -> Iterator[Started]:
        for waiting in ready_inputs(self._ports):
            if self._stopping:
                return
            agent = find_agent(waiting.agent)
            name = waiting.admission_id
            if agent is None or self._pauses.rests(name, self._ports.now_ms()):
                continue
            started = start(waiting, agent)
            if started.run_id is None:
                # Another worker was first, or it cannot be started: its run, if it has one, is a run like any other.
                self._pauses.begin(name, self._ports.now_ms(), grows=started.done == "left")
            else:
                self._pauses.end(name)
            yield started

    def _heads(self) -> Iterator[TurnKept]:
        """Heads of turns that ended by another's hand, a bounded number in each pass."""
        looked = 0
        for row in due_turns(self._ports, self._turns_after):
            if self._stopping or looked == KEPT_MAX:
                return
            looked += 1
            self._turns_after = TURNS.place_in("by_state", row)
            name = f"turn {row['run_id']!s}"
            if self._pauses.rests(name, self._ports.now_ms()):
                continue
            kept = keep_turn(self._ports, row)
            if kept is not None:
                if kept.done == "left":
                    self._pauses.begin(name, self._ports.now_ms())
                yield kept
        self._turns_after = None

    def _given_up(self) -> Iterator[TurnKept]:
        """Turns that nobody is at any more. What a pass does not come to is found again by the next."""
        now_ms = self._ports.now_ms()
        if now_ms < self._give_up_at_ms:
            return
        self._give_up_at_ms = now_ms + GIVE_UP_EVERY_MS
        for row in given_up(self._ports, ABANDONED_AFTER_S):
            if self._stopping:
                return
            abandoned = abandon_turn(self._ports, row)
            if abandoned is not None:
                yield abandoned

    def _sleep(self, seconds: float) -> None:
        left_s = seconds
        while left_s > 0 and not self._stopping:
            step_s = min(left_s, STEP_S)
            self._ports.sleep(step_s)
            left_s -= step_s


class Pauses:
    """Until when something that came to nothing is left alone, with pauses that double; bounded."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def rests(self, name: str, now_ms: int) -> bool:
        """Whether its pause lasts on."""
        return name in self._of and now_ms < self._of[name][0]

    def begin(self, name: str, now_ms: int, *, grows: bool = True) -> None:
        """It came to nothing: leave it alone, longer each time; or, unless the pause ``grows``, for a short while."""
        pause_ms = min(self._of[name][1] * 2, PAUSE_MS_MAX) if grows and name in self._of else PAUSE_MS
        self._of[name] = (now_ms + pause_ms, pause_ms)
        self._of.move_to_end(name)
        if len(self._of) > REMEMBERED_MAX:
            self._of.popitem(last=False)

    def end(self, name: str) -> None:
        """Something came of it."""
        self._of.pop(name, None)


def _lapsed(row: Row, done: Literal["expired", "left"] = "expired", why: str = "") -> Lapsed:
    return Lapsed(
        str(row["approval_id"]),
        effect_id=str(row["effect_id"]),
        run_id=str(row["run_id"] or ""),
        stream_id=str(row["stream_id"]),
        tool=str(row["tool"] or ""),
        done=done,
        why=why,
    )


def _came_to_nothing(happened: Happening) -> bool:
    if isinstance(happened, Entry | Started):
        return happened.done in ("busy", "left")
    if isinstance(happened, ChildReport):
        return happened.done in ("asked", "failed")
    if isinstance(happened, Fired):
        return happened.done == "left"
    return happened.done in ("left", "live", "nothing")
