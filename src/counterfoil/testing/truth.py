"""What must hold of the effects in any ledger, whatever crashed: intentions first, nothing sent again, rows as told."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from counterfoil.client.features import FEATURES
from counterfoil.effects.rows import EFFECTS, FEATURE
from counterfoil.effects.state import FINAL, Effect, evolve
from counterfoil.evidence.verify import verify
from counterfoil.flow.event import Event

if TYPE_CHECKING:
    from counterfoil.client.ledger import Ledger

_ABOUT_EFFECTS = FEATURE.event_types - {"review.assigned"}


def check_truth(ledger: Ledger) -> dict[str, Effect]:
    """Fold every effect of the ledger and compare with its row; returns the folded effects by id.

    Asserts that nothing was intended after its outcome was final, that no observation stands without its intention,
    that attempts count up, that rows say what the events say, and that the ledger verifies (DESIGN 2).
    """
    _check_verifies(ledger)
    folded: dict[str, Effect] = {}
    for conversation in ledger.conversations(limit=10_000):
        for effect_id, events in _by_effect(ledger, conversation.stream_id).items():
            folded[effect_id] = _fold(effect_id, events)
    for effect_id, effect in folded.items():
        row = ledger.store.get(EFFECTS.name, (effect_id,))
        assert row is not None, f"effect {effect_id} has no row"
        told = (effect.state, effect.attempt, effect.lookups, effect.outcome)
        said = (row["state"], row["attempt"], row["lookups"], row["outcome"])
        assert told == said, f"effect {effect_id}: its events tell {told}, its row says {said}"
    return folded


def _check_verifies(ledger: Ledger) -> None:
    """Every byte is as it was written, and every derived row is what its events give."""
    vault = ledger.ports.vault
    report = verify(
        ledger.store,
        ledger.keyring,
        FEATURES,
        registry=ledger.registry,
        artifacts=vault.store if vault.usable else None,
    )
    assert not report.findings, f"verify found {report.findings}"
    mismatched = [table for table in report.derived if table.state == "mismatched"]
    assert not mismatched, f"rows differ from their events: {mismatched}"


def _by_effect(ledger: Ledger, stream_id: str) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = defaultdict(list)
    for event in ledger.events(stream_id, types=_ABOUT_EFFECTS):
        if "effect_id" in event.data:
            # A provider's call that is tried again is about no effect.
            found[event.data["effect_id"]].append(event)
    return found


def _fold(effect_id: str, events: list[Event]) -> Effect:
    effect: Effect | None = None
    for event in events:
        if effect is None:
            assert event.type == "effect.intended", f"effect {effect_id} begins with {event.type}"
        elif event.type == "effect.intended":
            assert effect.state not in FINAL, (
                f"effect {effect_id} was intended again after it was {effect.state}"
            )
            assert event.header.attempt == effect.attempt + 1, f"effect {effect_id}: attempts do not count up"
        effect = evolve(effect, event.type, event.data, event.header.attempt)
    assert effect is not None
    return effect
