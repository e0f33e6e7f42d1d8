"""Any list, tail or page of a ledger of 1,000,000 events: the 95th percentile of each, and the memory of whoever asks."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from itertools import count, islice
from pathlib import Path
from typing import Any, Final

import counterfoil
from counterfoil.bench.effect import refund
from counterfoil.bench.figures import Budget, Figure, peak_kib, percentile
from counterfoil.bench.resume import compiled, leave, run_child
from counterfoil.bench.rounds import Scale
from counterfoil.bench.sample import Sample
from counterfoil.flow.requests import Entry, UnitDraft

EVENTS: Final = 1_000_000
CONVERSATIONS: Final = 200
EVENTS_AT_ONCE: Final = 500
RUNS: Final = 5
EFFECTS: Final = 4
"""Runs of each conversation, and effects of each of them, that have rows; more events follow without any."""
TIMES: Final = 60
"""How often each is asked for, at places chosen by chance."""
PAGE: Final = 50
MS_MAX: Final = 50
MEMORY_MB_MAX: Final = 300

_lines = count(1)

_CHILD: Final = "from counterfoil.bench.pages import child; child()"


def pages(scale: Scale, directory: Path) -> list[Figure]:
    """One process fills the ledger, another one asks."""
    place = directory / "ledger"
    events = _fill(place, scale.items(EVENTS), max(2, scale.items(CONVERSATIONS)))
    told = run_child(_CHILD, compiled(directory), str(place))
    figures = [
        Figure(f"pages.{what}", f"{words}, 95th percentile", told[what], "ms", Budget(at_most=MS_MAX))
        for what, words in WORDS.items()
    ]
    memory = Figure("pages.memory", "peak memory", told["peak_mb"], "MB", Budget(at_most=MEMORY_MB_MAX))
    return [Figure("pages.events", "events in the ledger", events, ""), *figures, memory]


def _fill(place: Path, events: int, conversations: int) -> int:
    with counterfoil.open(place) as ledger:
        ports = ledger.ports
        each = max(1, events // conversations)
        for number in range(conversations):
            for _ in range(RUNS):
                with ledger.run("bench-agent", conversation=f"bench-{number}", message="refund"):
                    for order in range(EFFECTS):
                        refund(f"O-{number}-{order}", next(_lines), Decimal("40.00"))
            stream_id = ledger.stream_of(f"bench-{number}")
            sample = Sample(genesis=ports.genesis(stream_id), material=ports.material(stream_id))
            for start in range(0, each, EVENTS_AT_ONCE):
                drafts = tuple([sample.draft() for _ in range(min(EVENTS_AT_ONCE, each - start))])
                ports.append(UnitDraft((Entry(stream_id, drafts),)))
    return each * conversations


def child() -> None:
    """In a process of its own: ask for each page so many times, and tell the 95th percentile of each in ms."""
    told: dict[str, Any] = {}
    chance = random.Random(8472)  # noqa: S311 - not for keys
    with counterfoil.open(sys.argv[1], read_only=True) as ledger:
        asks = _asks(ledger, chance)
        for what, ask in asks.items():
            taken = []
            for _ in range(TIMES):
                began = time.perf_counter()
                ask()
                taken.append((time.perf_counter() - began) * 1000)
            told[what] = percentile(taken, 0.95)
    leave(told | {"peak_mb": peak_kib() / 1024})


def _asks(ledger: counterfoil.Ledger, chance: random.Random) -> dict[str, Callable[[], object]]:
    names = [info.stream_id for info in ledger.conversations(limit=CONVERSATIONS)]

    def somewhere() -> tuple[str, int]:
        stream_id = chance.choice(names)
        head = ledger.store.head(stream_id)
        return stream_id, chance.randrange(head.sequence if head else 1)

    def page() -> object:
        stream_id, after = somewhere()
        return [event.content_or_none() for event in ledger.events(stream_id, after, limit=PAGE)]

    def of_type() -> object:
        stream_id, after = somewhere()
        return list(ledger.events(stream_id, after, types=["effect.observed"], limit=PAGE))

    def tail() -> object:
        stream_id, _ = somewhere()
        head = ledger.store.head(stream_id)
        after = max(0, (head.sequence if head else 0) - PAGE)
        return list(islice(ledger.tail(stream_id, after, follow=False), PAGE))

    return {
        "conversations": lambda: ledger.conversations(chance.choice(names), limit=20),
        "runs": lambda: ledger.runs(limit=PAGE),
        "runs_of": lambda: ledger.runs(somewhere()[0], limit=PAGE),
        "effects": lambda: ledger.effects(limit=PAGE),
        "effects_of": lambda: ledger.effects(stream=somewhere()[0], limit=PAGE),
        "events": page,
        "of_type": of_type,
        "tail": tail,
        "recent": lambda: ledger.store.recent(PAGE),
    }


WORDS: Final = {
    "conversations": "a page of 20 conversations",
    "runs": "a page of runs",
    "runs_of": "the runs of one conversation",
    "effects": "a page of effects",
    "effects_of": "the effects of one conversation",
    "events": "50 events with their content, anywhere",
    "of_type": "50 events of one type, from anywhere on",
    "tail": "the last 50 events of a conversation",
    "recent": "the last 50 events of the ledger",
}
