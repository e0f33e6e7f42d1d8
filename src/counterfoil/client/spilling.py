"""Moving what is too large for an event to artifacts, with what permitted the operation behind it on record (seed 003)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from counterfoil.artifacts.spill import spill
from counterfoil.client.gating import authority_of
from counterfoil.core.event import Draft
from counterfoil.core.genesis import Genesis
from counterfoil.core.keyed import KeyMaterial

if TYPE_CHECKING:
    from counterfoil.client.ports import LedgerPorts


def spilled(
    ports: LedgerPorts,
    genesis: Genesis,
    material: KeyMaterial,
    given: Sequence[Draft],
    objects: list[bytes],
) -> tuple[Draft, ...]:
    """The drafts with what moves to artifacts moved, each behind the events that say so; ``objects`` gets the bytes."""
    drafts: list[Draft] = []
    for draft in given:
        outcome = spill(
            draft,
            material,
            usable=ports.vault.usable,
            authority=partial(authority_of, ports, genesis.stream_id, draft, given),
            stands_in=partial(ports.stands_in, genesis.stream_id, draft),
        )
        drafts += outcome.drafts
        objects += outcome.objects
    return tuple(drafts)
