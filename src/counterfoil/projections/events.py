"""The events of checkpoints: one that was made, one that was found and not used."""

from __future__ import annotations

from typing import Literal

from counterfoil.core.canonical import JSON
from counterfoil.core.event import Draft, Part
from counterfoil.core.forms import time_text

Cause = Literal["damaged", "unsupported", "ahead", "migration"]
"""Why a checkpoint was not used: its bytes; its form; it claims more than there is; it is of an older version."""

ACTOR = {"type": "system", "id": "counterfoil"}


def created(
    event_id: str,
    now_ms: int,
    projection: str,
    version: int,
    up_to_sequence: int,
    digest: str,
    state: JSON,
    run_id: str | None,
) -> Draft:
    """``checkpoint.created``: the state is content, and moves to an artifact by itself where it is large."""
    data = {"projection": projection, "version": version, "up_to_sequence": up_to_sequence, "state": digest}
    parts = (Part({"state": state}),)
    return Draft(event_id, "checkpoint.created", time_text(now_ms), ACTOR, data, parts, run_id=run_id)


def rejected(
    event_id: str,
    now_ms: int,
    projection: str,
    version: int,
    up_to_sequence: int,
    cause: Cause,
    detail: str,
) -> Draft:
    """``checkpoint.rejected``: what was found, and that the state was folded anew."""
    data: dict[str, JSON] = {
        "projection": projection,
        "version": version,
        "up_to_sequence": max(0, up_to_sequence),
        "cause": cause,
    }
    return Draft(event_id, "checkpoint.rejected", time_text(now_ms), ACTOR, data, (Part({"detail": detail}),))
