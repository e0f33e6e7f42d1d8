"""A ledger of full events, to be verified and folded."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import counterfoil
from counterfoil.bench.sample import Sample
from counterfoil.flow.requests import Entry, UnitDraft

EVENTS_AT_ONCE: Final = 500


def fill(directory: Path, events: int) -> tuple[counterfoil.Ledger, str]:
    """A ledger at ``directory`` with a run and so many observations in one conversation; its stream id."""
    ledger = counterfoil.open(directory)
    with ledger.run("bench-agent", conversation="bench", message="refund"):
        pass
    stream_id = ledger.stream_of("bench")
    ports = ledger.ports
    sample = Sample(genesis=ports.genesis(stream_id), material=ports.material(stream_id))
    for start in range(0, events, EVENTS_AT_ONCE):
        drafts = tuple(sample.draft() for _ in range(min(EVENTS_AT_ONCE, events - start)))
        ports.append(UnitDraft((Entry(stream_id, drafts),)))
    return ledger, stream_id
