"""Search over many events: how long an answer takes, for texts that are common, rare, short, absent and in many scripts."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from counterfoil.bench.figures import Budget, Figure
from counterfoil.bench.rounds import Scale
from counterfoil.search.file import SearchFile
from counterfoil.search.find import find
from counterfoil.search.index import Batch, Index, PartText, Taken
from counterfoil.search.query import plain
from counterfoil.search.text import searchable

EVENTS: Final = 1_000_000
STREAM_EVENTS: Final = 250
BATCH: Final = 2_000
ASKED: Final = 20
LEDGER: Final = "ldg_01J9ZC3Y3V7W2R5T8QK4M6N0PG"

_SCRIPTS: Final = (0x3B1, 0x430, 0x627, 0x905, 0xE01, 0x3042, 0x4E00, 0xAC00)
"""Where the letters of eight scripts begin."""

LETTERS: Final = "eeeeeetttttaaaaooooiiinnnnssshhhrrrdddlluucmmwfgypbvk"
"""As often as a text has them."""


def answers(scale: Scale, directory: Path) -> list[Figure]:
    """The 95th percentile of one page of an answer, over all conversations and in one of them.

    The events are made up and put straight into the index, folded as any text is: what is measured is the index and the
    search, not the ledger in front of it.
    """
    count = scale.items(EVENTS)
    index = Index(SearchFile(directory / "search.db", LEDGER), "default")
    began = time.process_time()
    cursor = b""
    for events in _batches(count):
        after = str(events[-1].event_id).encode()
        index.take(Batch(cursor, after, True, events))
        cursor = after
    for _ in index.merge():
        pass
    each_us = (time.process_time() - began) / count * 1e6
    for text in _texts(count, random.Random(8)):  # noqa: S311 - texts to warm up with
        _took(index, text, None)
    words = random.Random(7)  # noqa: S311 - texts to measure with
    asked = list(_texts(count, words))
    streams = [f"str_{words.randrange(max(1, count // STREAM_EVENTS))}" for _ in asked]
    across = _percentile([_took(index, text, None) for text in asked])
    inside = _percentile([_took(index, text, stream) for text, stream in zip(asked, streams, strict=True)])
    size = index.file.bytes_on_disk() / count
    index.file.close()
    return [
        Figure(
            "search.across.p95",
            f"a page over {count:,} events, 95th percentile",
            across,
            "ms",
            Budget(at_most=50),
        ),
        Figure(
            "search.inside.p95", "a page of one conversation among them", inside, "ms", Budget(at_most=50)
        ),
        Figure("search.take", "taking one event in", each_us, "µs"),
        Figure("search.size", "index, a stored event", size, "bytes"),
    ]


def _percentile(taken_ms: list[float]) -> float:
    return sorted(taken_ms)[int(len(taken_ms) * 0.95)]


def _took(index: Index, text: str, stream_id: str | None) -> float:
    began = time.perf_counter()
    find(index, plain(text), stream_id, ASKED, None)
    return (time.perf_counter() - began) * 1e3


def _batches(count: int) -> Iterator[list[Taken]]:
    made = random.Random(1)  # noqa: S311 - texts to measure with
    vocabulary = _vocabulary()
    for start in range(0, count, BATCH):
        yield [_event(number, made, vocabulary) for number in range(start, min(start + BATCH, count))]


def _vocabulary() -> list[str]:
    """Words, the first of them common as words are (Zipf)."""
    made = random.Random(2)  # noqa: S311 - texts to measure with
    return ["".join(made.choices(LETTERS, k=made.randint(2, 9))) for _ in range(20_000)]


def _event(number: int, made: random.Random, vocabulary: list[str]) -> Taken:
    size = len(vocabulary)
    words = [vocabulary[int(size ** made.random()) - 1] for _ in range(40)]
    script = _SCRIPTS[made.randrange(len(_SCRIPTS))]
    foreign = "".join(chr(script + int(60 * made.random())) for _ in range(8))
    values = (
        " ".join(words),
        f"order O-{number}",
        _uuid(number),
        f"ann.{number % 5000}@shop.example",
        foreign,
    )
    text, _ = searchable(values)
    stream, sequence = divmod(number, STREAM_EVENTS)
    return Taken(f"str_{stream}", sequence + 1, f"evt_{number}", 0, (PartText(0, None, text),))


def _uuid(number: int) -> str:
    return f"{random.Random(number).getrandbits(128):032x}"  # noqa: S311 - texts to measure with


def _texts(count: int, made: random.Random) -> Iterator[str]:
    """What is asked for: 25 rounds of eight kinds."""
    vocabulary = _vocabulary()
    for _ in range(25):
        number = made.randrange(count)
        script = _SCRIPTS[made.randrange(len(_SCRIPTS))]
        yield f"order O-{number}"
        yield _uuid(number)
        yield f"ann.{number % 5000}@shop.example"
        yield vocabulary[int(len(vocabulary) ** made.random()) - 1]
        yield f"{vocabulary[made.randrange(200)]} {vocabulary[made.randrange(200)]}"
        yield "".join(chr(script + int(60 * made.random())) for _ in range(2))
        yield chr(script + int(60 * made.random()))
        yield f"nowhere to be found {number}"
