"""Beside peers: the same work done by other libraries in the same run, each with its own defaults, all durable."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from counterfoil.adapters.sqlite import open_sqlite
from counterfoil.bench.append import CALLERS, check
from counterfoil.bench.effect import effects_in
from counterfoil.bench.figures import Budget, Figure
from counterfoil.bench.means import Means, Peers
from counterfoil.bench.postgres import SCHEMA, OnServer, as_unit
from counterfoil.bench.rounds import Contender, Scale, Taken, side_by_side
from counterfoil.bench.sample import Described, Sample
from counterfoil.client.features import TABLES
from counterfoil.client.ids import UlidIds
from counterfoil.store.aio import AsyncAppender

EVENTSOURCING: Final = "with_eventsourcing"
DBOS: Final = "with_dbos"
LANGGRAPH: Final = "with_langgraph"


class Ratio(Struct, frozen=True):
    """How fast ours is in terms of theirs: the figure's name after the benchmark's, in words, and its budget."""

    name: str
    what: str
    ours: str
    theirs: str
    at_least: float | None = None


def told(benchmark: str, taken: Taken, ratios: Sequence[Ratio]) -> list[Figure]:
    """The ratios, then the rate of each contender."""
    figures = [
        Figure(
            f"{benchmark}.{ratio.name}",
            ratio.what,
            taken.speed(ratio.ours, ratio.theirs),
            "×",
            None if ratio.at_least is None else Budget(at_least=ratio.at_least),
        )
        for ratio in ratios
    ]
    return figures + [
        Figure(f"{benchmark}.rate.{name}", name, taken.rate(name), "a second") for name in taken.seconds
    ]


class Events:
    """Events without rows in a ledger's SQLite store: what a library for events does, and no more."""

    def __init__(self, directory: Path) -> None:
        self.store = open_sqlite(directory, tables=TABLES, create=True, ledger_id=UlidIds().new("ldg"))
        self.sample = Sample(self.store.ledger_id)
        check(self.store.append([self.sample.creation()]).result())
        self._described: list[Described] = []

    def lone(self) -> Contender:
        """One caller who waits for each append."""

        def work(_count: int) -> None:
            for one in self._described:
                check(self.store.append([as_unit(self.sample, one, rows=False)]).result())

        return Contender(work, self._describe)

    def tasks(self) -> Contender:
        """64 tasks of one event loop."""
        appender = AsyncAppender(self.store)

        async def caller(described: Sequence[Described]) -> None:
            for one in described:
                check(await appender.append([as_unit(self.sample, one, rows=False)]))

        async def all_callers() -> None:
            await asyncio.gather(*(caller(self._described[number::CALLERS]) for number in range(CALLERS)))

        def work(_count: int) -> None:
            asyncio.run(all_callers())

        return Contender(work, self._describe)

    def close(self) -> None:
        """Release the store."""
        self.store.close()

    def _describe(self, count: int) -> None:
        self._described = self.sample.described(count)


@contextmanager
def events(directory: Path) -> Iterator[Events]:
    """A store in a directory that is made for it."""
    directory.mkdir()
    made = Events(directory)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def on_server(means: Means, name: str) -> Iterator[OnServer]:
    """A store in a database of its own."""
    made = OnServer(means.database(name, schema=SCHEMA))
    try:
        yield made
    finally:
        made.close()


def _peers(means: Means) -> Peers:
    assert means.peers is not None
    return means.peers


def _place(directory: Path, name: str) -> Path:
    place = directory / name
    place.mkdir()
    return place


# ---- eventsourcing ---------------------------------------------------------------------------------------------------


def eventsourcing(scale: Scale, directory: Path, means: Means) -> list[Figure]:
    """Events of 1 KB, one at a time and by many callers."""
    peers = _peers(means)
    with (
        events(directory / "ours") as ours,
        peers.start(EVENTSOURCING, _place(directory, "theirs")) as theirs,
    ):
        many = {"64 tasks": ours.tasks(), "64 tasks of eventsourcing": theirs.does("tasks")}
        taken = side_by_side(many, rounds=scale.rounds(9), items=CALLERS * scale.items(8))
        alone = {"one caller": ours.lone(), "one caller of eventsourcing": theirs.does("lone")}
        taken.seconds |= side_by_side(alone, rounds=scale.rounds(9), items=scale.items(200)).seconds
    figures = told("eventsourcing", taken, (
        Ratio("tasks", "64 asyncio callers on SQLite", "64 tasks", "64 tasks of eventsourcing", 5),
        Ratio("lone", "one caller on SQLite", "one caller", "one caller of eventsourcing"),
    ))  # fmt: skip
    return figures + (_eventsourcing_server(scale, means, peers) if means.has("server") else [])


def _eventsourcing_server(scale: Scale, means: Means, peers: Peers) -> list[Figure]:
    with ExitStack() as stack:
        ours = stack.enter_context(on_server(means, "es_ours"))
        theirs = stack.enter_context(peers.start(EVENTSOURCING, means.database("es")))
        functions = stack.enter_context(
            peers.start(EVENTSOURCING, means.database("es_functions"), "--functions")
        )
        alone = {
            "one caller": ours.lone(),
            "one caller of eventsourcing": theirs.does("lone"),
            "one caller of its function": functions.does("lone"),
        }
        taken = side_by_side(alone, rounds=scale.rounds(11), items=scale.items(150))
        many = {
            "8 writers": ours.writers(),
            "8 writers of eventsourcing": theirs.does("writers"),
            "8 writers of its function": functions.does("writers"),
        }
        taken.seconds |= side_by_side(many, rounds=scale.rounds(11), items=8 * scale.items(40)).seconds
    return told("eventsourcing.postgres", taken, (
        Ratio("lone", "one caller on PostgreSQL", "one caller", "one caller of eventsourcing", 2.5),
        Ratio("writers", "8 writers on PostgreSQL", "8 writers", "8 writers of eventsourcing", 3),
        Ratio("lone.function", "one caller, its function enabled", "one caller", "one caller of its function"),
        Ratio("writers.function", "8 writers, its function enabled", "8 writers", "8 writers of its function"),
    ))  # fmt: skip


# ---- DBOS ------------------------------------------------------------------------------------------------------------

_STEP: Final = "one step of DBOS"
_WORKFLOW: Final = "a workflow of one step"
_EFFECT: Final = "an effect"


def dbos(scale: Scale, directory: Path, means: Means) -> list[Figure]:
    """An effect, whose intention is durable before the call and its result after it, beside steps and workflows."""
    peers = _peers(means)
    with ExitStack() as stack:
        ours = stack.enter_context(effects_in(directory / "ours"))
        theirs = stack.enter_context(peers.start(DBOS, _place(directory, "theirs")))
        in_wal = stack.enter_context(peers.start(DBOS, _place(directory, "wal"), "--wal"))
        contenders = {
            _EFFECT: Contender(ours),
            _STEP: theirs.does("steps"),
            _WORKFLOW: theirs.does("workflows"),
            "one step, its file in WAL mode": in_wal.does("steps"),
        }
        taken = side_by_side(contenders, rounds=scale.rounds(9), items=scale.items(50))
    figures = told("dbos", taken, (
        *_dbos_ratios("SQLite", 3.5),
        Ratio("wal", "an effect, one step in WAL mode", _EFFECT, "one step, its file in WAL mode"),
    ))  # fmt: skip
    return figures + (_dbos_server(scale, directory, means, peers) if means.has("server") else [])


def _dbos_server(scale: Scale, directory: Path, means: Means, peers: Peers) -> list[Figure]:
    with ExitStack() as stack:
        place = means.database("dbos_ours", schema=SCHEMA, kek=str(directory / "kek"))
        ours = stack.enter_context(effects_in(place))
        theirs = stack.enter_context(peers.start(DBOS, means.database("dbos")))
        contenders = {
            _EFFECT: Contender(ours),
            _STEP: theirs.does("steps"),
            _WORKFLOW: theirs.does("workflows"),
        }
        taken = side_by_side(contenders, rounds=scale.rounds(11), items=scale.items(50))
    return told("dbos.postgres", taken, _dbos_ratios("PostgreSQL", 2.5))


def _dbos_ratios(engine: str, at_least: float) -> tuple[Ratio, ...]:
    return (
        Ratio("step", f"an effect, one step of DBOS on {engine}", _EFFECT, _STEP, at_least),
        Ratio("workflow", f"an effect, a workflow of one step on {engine}", _EFFECT, _WORKFLOW),
    )


# ---- LangGraph -------------------------------------------------------------------------------------------------------

_SAVER: Final[Mapping[str, str]] = {"put": "one checkpoint put", "steps": "a task's writes and a checkpoint"}


def langgraph(scale: Scale, directory: Path, means: Means) -> list[Figure]:
    """An event beside a checkpoint, and an effect beside a step: a task's writes, then the checkpoint after it."""
    peers = _peers(means)
    with ExitStack() as stack:
        ours = stack.enter_context(events(directory / "ours"))
        effects = stack.enter_context(effects_in(directory / "effects"))
        theirs = stack.enter_context(peers.start(LANGGRAPH, _place(directory, "theirs")))
        contenders = {"one event": ours.lone(), _EFFECT: Contender(effects)}
        contenders |= {words: theirs.does(work) for work, words in _SAVER.items()}
        taken = side_by_side(contenders, rounds=scale.rounds(9), items=scale.items(100))
    figures = told("langgraph", taken, _saver_ratios("SqliteSaver"))
    return figures + (_langgraph_server(scale, directory, means, peers) if means.has("server") else [])


def _langgraph_server(scale: Scale, directory: Path, means: Means, peers: Peers) -> list[Figure]:
    with ExitStack() as stack:
        ours = stack.enter_context(on_server(means, "lg_ours"))
        place = means.database("lg_effects", schema=SCHEMA, kek=str(directory / "kek"))
        effects = stack.enter_context(effects_in(place))
        theirs = stack.enter_context(peers.start(LANGGRAPH, means.database("lg")))
        contenders = {"one event": ours.lone(), _EFFECT: Contender(effects)}
        contenders |= {words: theirs.does(work) for work, words in _SAVER.items()}
        taken = side_by_side(contenders, rounds=scale.rounds(9), items=scale.items(60))
    return told("langgraph.postgres", taken, _saver_ratios("PostgresSaver"))


def _saver_ratios(saver: str) -> tuple[Ratio, ...]:
    return (
        Ratio("put", f"an event, one put of {saver}", "one event", _SAVER["put"]),
        Ratio("steps", f"an effect, put_writes and put of {saver}", _EFFECT, _SAVER["steps"]),
    )
