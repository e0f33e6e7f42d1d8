"""The turn journal on the turn's own thread: switched off, queued and synchronous, with 32 turns at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from counterfoil.bench.figures import Budget, Figure, percentile
from counterfoil.bench.rounds import Contender, Scale, side_by_side
from counterfoil.journal import JournalSettings, TurnJournals, open_journal

TURNS_AT_ONCE: Final = 32
CALLS_A_TURN: Final = 10
ANSWER_S: Final = 0.005
QUEUE: Final = 1_000_000
"""Events that may wait here: what is measured is handing them over, not losing them."""

Mode = Literal["off", "queued", "synchronous"]
MODES: Final[tuple[Mode, ...]] = ("off", "queued", "synchronous")


def look_up(order: str) -> dict[str, str]:
    """A tool that answers at once: what is measured is what the journal adds."""
    return {"order": order, "state": "on its way"}


def ask_around(order: str) -> dict[str, str]:
    """A tool that waits for somebody outside, as tools do: turns that only compute would only wait for each other."""
    threading.Event().wait(ANSWER_S)
    return {"order": order, "state": "on its way"}


@contextmanager
def journals(mode: Mode, directory: Path) -> Iterator[TurnJournals]:
    """A journal in a file, in one of the three modes."""
    made = TurnJournals(
        open_journal(directory / f"{mode}.db"),
        JournalSettings(enabled=mode != "off"),
        mode="synchronous" if mode == "synchronous" else "queued",
        capacity=QUEUE,
    )
    try:
        yield made
    finally:
        made.close(60)


def turn_journal(scale: Scale, directory: Path) -> list[Figure]:
    """Processor time of an event on the turn's thread, and the latency of a turn when 32 run at once."""
    with (
        journals("off", directory) as off,
        journals("queued", directory) as queued,
        journals("synchronous", directory) as synchronous,
    ):
        made: dict[Mode, TurnJournals] = {"off": off, "queued": queued, "synchronous": synchronous}
        events = _events(scale, made)
        latencies: dict[Mode, list[float]] = {mode: _latencies(scale, made[mode]) for mode in MODES}
        wrapped = int(off.begin("bench").tool(look_up) is not look_up)
        lost = queued.lost
    return [
        *events,
        Figure("journal.off", "tools wrapped while it is off", wrapped, "", Budget(at_most=0)),
        *_turns(latencies, lost),
    ]


def _events(scale: Scale, made: dict[Mode, TurnJournals]) -> list[Figure]:
    def calls(mode: Mode) -> Contender:
        tools: list[Callable[[str], dict[str, str]]] = []

        def ready(_: int) -> None:
            made[mode].flush(60)
            tools[:] = [made[mode].begin("bench", message="m").tool(look_up)]

        def work(count: int) -> None:
            tool = tools[0]
            for _ in range(count):
                tool("O-1042")

        return Contender(work, ready)

    contenders = {"bare": Contender(_bare), "off": calls("off"), "queued": calls("queued")}
    # The thread's own processor time: what the writer does meanwhile is not the turn's.
    taken = side_by_side(contenders, rounds=scale.rounds(15), items=scale.items(1000), clock=time.thread_time)
    added = {name: max(0.0, taken.median(name) - taken.median("bare")) * 1e6 for name in ("off", "queued")}
    return [
        Figure(
            "journal.queued",
            "an event queued, on the turn's thread",
            added["queued"],
            "µs",
            Budget(at_most=50),
        ),
        Figure("journal.off.time", "a tool call while it is off, beyond the bare call", added["off"], "µs"),
    ]


def _bare(count: int) -> None:
    for _ in range(count):
        look_up("O-1042")


def _latencies(scale: Scale, made: TurnJournals) -> list[float]:
    """Seconds of each turn, 32 at once."""
    turns = scale.items(20)
    found: list[list[float]] = [[] for _ in range(TURNS_AT_ONCE)]
    gate = threading.Barrier(TURNS_AT_ONCE)

    def work(mine: list[float]) -> None:
        gate.wait()
        for _ in range(turns):
            began = time.perf_counter()
            with made.begin("bench", session="s", message="Where is my order?") as turn:
                tool = turn.tool(ask_around)
                for _ in range(CALLS_A_TURN):
                    tool("O-1042")
                turn.answer("On its way.")
            mine.append(time.perf_counter() - began)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [seconds for mine in found for seconds in mine]


def _turns(latencies: dict[Mode, list[float]], lost: int) -> list[Figure]:
    p99 = {mode: percentile(latencies[mode], 0.99) * 1e3 for mode in MODES}
    return [
        *(
            Figure(
                f"journal.p99.{mode}",
                f"p99 of a turn of {CALLS_A_TURN} calls, {TURNS_AT_ONCE} at once, {mode}",
                p99[mode],
                "ms",
            )
            for mode in MODES
        ),
        *(
            Figure(
                f"journal.added.{mode}",
                f"p99 that {mode} adds to a turn",
                max(0.0, p99[mode] - p99["off"]),
                "ms",
            )
            for mode in ("queued", "synchronous")
        ),
        Figure("journal.lost", "events lost while queued", lost, "", Budget(at_most=0)),
    ]
