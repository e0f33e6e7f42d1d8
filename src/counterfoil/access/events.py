"""Typed constructors of the events about access: public fields and content named (FORMAT 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from counterfoil.abc.authorizer import AccessDecision, AccessRequest
from counterfoil.core.event import Draft, Part
from counterfoil.core.forms import time_text
from counterfoil.core.keyed import KeyMaterial
from counterfoil.core.values import to_json

DECIDED: Final = "access.decided"
GLASS_OPENED: Final = "access.glass_opened"

PEOPLE: Final = frozenset({"human", "user"})
"""Types of actors that a header names by the id of their data key only (FORMAT 3)."""


def decided(
    event_id: str,
    now_ms: int,
    request: AccessRequest,
    decision: AccessDecision,
    key: KeyMaterial,
    detail: Mapping[str, Any],
) -> Draft:
    """Somebody asked to see something, and whether they may. ``detail`` is content beside the purpose."""
    optional = {"stream_id": request.stream_id, "event_id": request.event_id, "class": request.klass}
    data: dict[str, Any] = {"action": request.action, "allowed": decision.allowed, "rule": decision.rule}
    data |= {name: value for name, value in optional.items() if value is not None}
    content = {"purpose": request.purpose, **detail}
    return _draft(event_id, now_ms, DECIDED, request, data, content, key)


def glass_opened(
    event_id: str, now_ms: int, request: AccessRequest, rule: str, until_ms: int, key: KeyMaterial
) -> Draft:
    """Somebody may read for a while what their roles do not give; the purpose is the reason."""
    data = {"until": time_text(until_ms), "rule": rule}
    return _draft(event_id, now_ms, GLASS_OPENED, request, data, {"reason": request.purpose}, key)


def _draft(
    event_id: str,
    now_ms: int,
    event_type: str,
    request: AccessRequest,
    data: Mapping[str, Any],
    content: Mapping[str, Any],
    key: KeyMaterial,
) -> Draft:
    """A person's name stands in a part of its own, under their own key; a program's label in the header."""
    actor, content_json = request.actor, to_json({**content}, "content")
    who = to_json({"name": actor.name}, "actor")
    person = actor.type in PEOPLE
    content_json["by"] = {"$part": 1} if person else {**who, "type": actor.type}
    return Draft(
        event_id=event_id,
        event_type=event_type,
        occurred_at=time_text(now_ms),
        actor={"type": actor.type, "id": key.key_id if person else actor.name},
        data=data,
        parts=(Part(content_json), Part(who, key=key)) if person else (Part(content_json),),
    )
