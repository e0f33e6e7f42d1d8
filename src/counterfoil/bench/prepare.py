"""Preparing one event of 1 KB: encoding, sealing and the header on the caller; splice and hash in the writer."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from counterfoil.bench.figures import Budget, Figure
from counterfoil.bench.raw import RECORDED_AT
from counterfoil.bench.rounds import PROCESSOR, Contender, Scale, side_by_side
from counterfoil.bench.sample import Sample
from counterfoil.core.event import Draft, Prepared, event_hash, splice

CONTENT_BYTES: Final = 1024


def prepare_event(scale: Scale, _directory: Path) -> list[Figure]:
    """Microseconds of processor time an event, in many short rounds, so that other work on the machine shows less."""
    sample = Sample(content_bytes=CONTENT_BYTES)
    drafts: list[Draft] = []
    prepared: list[Prepared] = [sample.prepared(sample.draft())]

    def make_drafts(count: int) -> None:
        drafts[:] = [sample.draft() for _ in range(count)]

    def caller(count: int) -> None:
        for number in range(count):
            prepared[0] = sample.prepared(drafts[number])

    def writer(count: int) -> None:
        event, digest = prepared[0], bytes(32)
        for number in range(count):
            digest = event_hash(splice(event, number + 1, RECORDED_AT, digest.hex()))

    contenders = {"caller": Contender(caller, make_drafts), "writer": Contender(writer)}
    taken = side_by_side(contenders, rounds=scale.rounds(150), items=50, clock=PROCESSOR)
    return [
        Figure(
            "prepare.caller",
            "on the caller: encode, seal, header",
            taken.median("caller") * 1e6,
            "µs",
            Budget(at_most=20),
        ),
        Figure(
            "prepare.writer",
            "in the writer: splice and hash",
            taken.median("writer") * 1e6,
            "µs",
            Budget(at_most=3),
        ),
    ]
