"""Writers that are killed with SIGKILL at any moment, and the check that nothing they were promised is lost.

Each writer is a forked child that appends through the real adapter in one of several ways and says on a file of
its own what it is about to send and what was acknowledged. The next child sends again whatever its predecessor
got no answer for, with the same ids.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from msgspec import Struct, field

from counterfoil.adapters.sqlite import open_sqlite
from counterfoil.store.aio import AsyncAppender
from counterfoil.store.contract import Store
from counterfoil.store.unit import Outcome, Receipt, Unit
from counterfoil.testing.aftermath import SAMPLE_TABLE, Aftermath, sample_stream, sample_unit
from counterfoil.testing.events import SAMPLE_LEDGER, SampleStream
from counterfoil.testing.manual import SequentialIds

STREAMS = 3
WRITERS = 2
LIFE_S = (0.005, 0.25)
"""A writer lives this long at least and at most."""
LOOK_EVERY_S = 2.0
THREADS = 4
TASKS = 8

Try = tuple[tuple[int, str], ...]
"""One unit: the stream's number and the event id, for each of its streams."""


class Tally(Struct):
    """What has happened so far."""

    kills: int = 0
    acknowledged: set[str] = field(default_factory=set)
    sent_again: int = 0
    looks: int = 0
    problems: list[str] = field(default_factory=list)


class _Writer(Struct):
    pid: int
    journal: Path
    dies_at: float


def run_kills(
    directory: Path, seconds: float, seed: int, tell: Callable[[Tally], None]
) -> tuple[Tally, list[str]]:
    """Kill writers for this long; what happened, and what is wrong with the ledger afterwards."""
    chance = random.Random(seed)  # noqa: S311 - which moment kills is chance, not a secret
    ledger, tally, aftermath = directory / "ledger", Tally(), Aftermath(directory / "ledger")
    _make(ledger)
    unanswered: list[Try] = []
    writers: list[_Writer] = []
    ends, looked = time.monotonic() + seconds, time.monotonic()
    while writers or time.monotonic() < ends:
        while len(writers) < WRITERS and time.monotonic() < ends:
            tally.sent_again += len(unanswered)
            writers.append(_start(ledger, directory, chance, unanswered))
            unanswered = []
        victim = min(writers, key=lambda writer: writer.dies_at)
        time.sleep(max(0.0, victim.dies_at - time.monotonic()))
        writers.remove(victim)
        unanswered += _kill(victim, tally)
        if time.monotonic() - looked > LOOK_EVERY_S:
            _look(aftermath, tally)
            looked = time.monotonic()
        tell(tally)
    _look(aftermath, tally)
    _send_again(ledger, unanswered, tally)
    _look(aftermath, tally)
    return tally, [*tally.problems, *aftermath.problems]


def _make(ledger: Path) -> None:
    store = open_sqlite(ledger, tables=(SAMPLE_TABLE,), create=True, ledger_id=SAMPLE_LEDGER)
    streams = [sample_stream(number) for number in range(STREAMS)]
    outcomes = store.append(
        [sample_unit([stream], [stream.ids.new("evt")], create=True) for stream in streams]
    )
    assert all(isinstance(outcome, Receipt) for outcome in outcomes.result())
    store.close()


def _look(aftermath: Aftermath, tally: Tally) -> None:
    tally.looks += 1
    aftermath.look()
    aftermath.expect(acknowledged=tally.acknowledged)


def _start(ledger: Path, directory: Path, chance: random.Random, unanswered: Sequence[Try]) -> _Writer:
    seed = chance.getrandbits(40)
    journal = directory / f"writer-{seed:010x}"
    life = chance.uniform(*LIFE_S)
    pid = os.fork()
    if pid == 0:
        # Nothing of the parent may run in the child, whatever happens.
        try:
            _write_until_killed(ledger, journal, seed, unanswered)
        except BaseException as error:  # noqa: BLE001 - said on the journal, where the parent looks
            _note(journal, f"fault {type(error).__name__}: {error}".replace("\n", " "))
        finally:
            os._exit(1)
    return _Writer(pid, journal, time.monotonic() + life)


def _kill(writer: _Writer, tally: Tally) -> list[Try]:
    """Kill a writer, count what it was promised, and return what it got no answer for."""
    os.kill(writer.pid, signal.SIGKILL)
    os.waitpid(writer.pid, 0)
    tally.kills += 1
    if not writer.journal.exists():
        return []
    tried: dict[Try, None] = {}
    for line in writer.journal.read_text("ascii").splitlines():
        what, _, rest = line.partition(" ")
        if what == "fault":
            tally.problems.append(f"a writer failed by itself: {rest}")
            continue
        unit = tuple(
            (int(number), event_id) for number, event_id in (word.split(":") for word in rest.split())
        )
        if what == "try":
            tried[unit] = None
        else:
            tried.pop(unit, None)
            tally.acknowledged |= {event_id for _, event_id in unit}
    writer.journal.unlink()
    return list(tried)


def _send_again(ledger: Path, unanswered: Sequence[Try], tally: Tally) -> None:
    store = open_sqlite(ledger, tables=(SAMPLE_TABLE,))
    streams = [sample_stream(number) for number in range(STREAMS)]
    for unit in unanswered:
        outcome = store.append([_unit(streams, unit)]).result()[0]
        assert isinstance(outcome, Receipt), outcome
        tally.sent_again += 1
        tally.acknowledged |= {event_id for _, event_id in unit}
    store.close()


# ---- in the child ------------------------------------------------------------------------------------------------


class _Child:
    """One writer's life."""

    def __init__(self, store: Store, journal: Path, seed: int) -> None:
        self.store = store
        self.streams = [sample_stream(number) for number in range(STREAMS)]
        self._chance = random.Random(seed)  # noqa: S311 - invented work
        self._ids = SequentialIds(f"writer {seed}")
        # Written without a buffer, so that what the child said survives its death.
        self._journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def next(self) -> Try:
        """An event for one stream, or for two."""
        numbers = self._chance.sample(range(STREAMS), self._chance.choice((1, 1, 1, 2)))
        return tuple((number, self._ids.new("evt")) for number in numbers)

    def say(self, what: str, unit: Try) -> None:
        """One line of the journal, whole or not at all."""
        words = " ".join(f"{number}:{event_id}" for number, event_id in unit)
        os.write(self._journal, f"{what} {words}\n".encode())

    def check(self, unit: Try, outcome: Outcome) -> None:
        """Note an acknowledgement; nothing here may be refused."""
        if not isinstance(outcome, Receipt):
            raise outcome.error
        self.say("ack", unit)

    def send(self, unit: Try) -> None:
        """Say it, append it, note the answer."""
        self.say("try", unit)
        self.check(unit, self.store.append([_unit(self.streams, unit)]).result()[0])

    def forever(self) -> None:
        """One append after another."""
        while True:
            self.send(self.next())

    async def tasks(self) -> None:
        """Many tasks on one event loop."""
        appender = AsyncAppender(self.store)

        async def forever() -> None:
            while True:
                unit = self.next()
                self.say("try", unit)
                self.check(unit, (await appender.append([_unit(self.streams, unit)]))[0])

        await asyncio.gather(*(forever() for _ in range(TASKS)))


def _write_until_killed(ledger: Path, journal: Path, seed: int, unanswered: Sequence[Try]) -> None:
    child = _Child(open_sqlite(ledger, tables=(SAMPLE_TABLE,)), journal, seed)
    for unit in unanswered:
        child.send(unit)
    way = seed % 3
    if way == 0:
        child.forever()
    elif way == 1:
        with ThreadPoolExecutor(THREADS) as pool:
            for done in as_completed([pool.submit(child.forever) for _ in range(THREADS)]):
                done.result()
    else:
        asyncio.run(child.tasks())


def _note(journal: Path, line: str) -> None:
    handle = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(handle, f"{line}\n".encode("ascii", "replace"))
    os.close(handle)


def _unit(streams: Sequence[SampleStream], unit: Try) -> Unit:
    return sample_unit([streams[number] for number, _ in unit], [event_id for _, event_id in unit])
