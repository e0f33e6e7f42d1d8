"""Folding events into the state of a conversation, its runs and its effects, as recovery and viewers do."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from counterfoil.bench.figures import Budget, Figure
from counterfoil.bench.raw import RECORDED_AT
from counterfoil.bench.rounds import PROCESSOR, Contender, Scale, side_by_side
from counterfoil.bench.sample import TOOL, Sample
from counterfoil.core.canonical import encode_header
from counterfoil.core.event import splice
from counterfoil.core.header import peek_header
from counterfoil.effects import state as effects
from counterfoil.runtime import state as runtime

EVENTS: Final = 10_000
PAGE_EVENTS: Final = 500

Members = dict[str, Any]


def fold_events(scale: Scale, _directory: Path) -> list[Figure]:
    """Events a second of the fold itself, and with the parsing of each stored header before it."""
    stored = [encode_header(members) for members in _headers(scale.items(EVENTS))]
    parsed = [peek_header(header) for header in stored]
    contenders = {
        "fold": Contender(lambda _: _fold(parsed)),
        "stored": Contender(lambda _: _fold_stored(stored)),
    }
    taken = side_by_side(contenders, rounds=scale.rounds(15), items=len(stored), clock=PROCESSOR)
    return [
        Figure(
            "fold.rate",
            "fold into runs and effects",
            taken.rate("fold"),
            "events/s",
            Budget(at_least=300_000),
        ),
        Figure("fold.stored.rate", "the same from stored headers", taken.rate("stored"), "events/s"),
    ]


def _headers(count: int) -> Iterable[Members]:
    """Pairs of intention and observation of one run, each pair an effect of its own."""
    sample = Sample()
    for number in range(1, count + 1):
        members = peek_header(splice(sample.prepared(sample.draft()), number, RECORDED_AT, "0" * 64))
        if number == 1:
            yield members | {"event_type": "run.started", "data": {"fencing_token": 1}}
        elif number % 2:
            known = {"effect_id": members["data"]["effect_id"], "tool": TOOL, "tool_version": "2026-08-01"}
            yield members | {"event_type": "effect.intended", "data": known | {"doubt": "lookup"}}
        else:
            yield members


def _fold_stored(stored: list[bytes]) -> None:
    """Page by page, so that a page of parsed headers is alive at a time, as in a read."""
    for start in range(0, len(stored), PAGE_EVENTS):
        _fold([peek_header(header) for header in stored[start : start + PAGE_EVENTS]])


def _fold(headers: list[Members]) -> None:
    conversation = runtime.Conversation()
    found: dict[str, effects.Effect | None] = {}
    for members in headers:
        event_type, data = members["event_type"], members["data"]
        if event_type.startswith("effect."):
            effect_id = data["effect_id"]
            found[effect_id] = effects.evolve(found.get(effect_id), event_type, data, members.get("attempt"))
        else:
            conversation = runtime.evolve(conversation, event_type, data, members.get("run_id"))
