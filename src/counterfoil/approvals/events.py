"""Typed constructors of the events about approvals: one function an event type, public fields named (FORMAT 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.abc.policy import ApprovalScope
from counterfoil.core.event import Draft, Part
from counterfoil.core.forms import time_text
from counterfoil.core.values import to_json
from counterfoil.flow.drafting import Person, Writes

Answer = Literal["granted", "denied", "revoked"]


class Request(Struct, frozen=True):
    """What people are asked. ``arguments`` are as recorded and as shown; times are on the store's clock."""

    approval_id: str
    effect_id: str
    binding: str
    tool: str
    tool_version: str
    arguments: Mapping[str, Any]
    question: str
    rules: tuple[str, ...]
    scope: ApprovalScope = "once"
    needed: int = 1
    expires_at_ms: int | None = None
    due_at_ms: int | None = None
    assignees: tuple[Person, ...] = ()


def requested(by: Writes, ask: Request) -> Draft:
    """People are asked. Each assignee's name stands in a part of its own, under their own key (FORMAT 6)."""
    data: dict[str, Any] = {
        "approval_id": ask.approval_id,
        "effect_id": ask.effect_id,
        "binding": ask.binding,
        "scope": ask.scope,
        "needed": ask.needed,
    }
    if ask.expires_at_ms is not None:
        data["expires_at"] = time_text(ask.expires_at_ms)
    content: dict[str, Any] = {
        "tool": ask.tool,
        "tool_version": ask.tool_version,
        "arguments": ask.arguments,
        "rules": list(ask.rules),
    }
    if ask.question:
        content["question"] = to_json(ask.question, "question")
    if ask.due_at_ms is not None:
        content["due_at"] = time_text(ask.due_at_ms)
    if ask.assignees:
        content["assignees"] = [{"$part": number} for number in range(1, len(ask.assignees) + 1)]
    draft = by.draft("approval.requested", data, content)
    return replace(draft, parts=(*draft.parts, *map(_named, ask.assignees)))


def answered(
    by: Writes, answer: Answer, approval_id: str, effect_id: str, binding: str, comment: str, person: Person
) -> Draft:
    """A named person's answer, about exactly what the binding says."""
    content: dict[str, Any] = {"by": {"$part": 1}}
    if comment:
        content["comment"] = to_json(comment, "comment")
    data = {"approval_id": approval_id, "effect_id": effect_id, "binding": binding}
    draft = by.draft(f"approval.{answer}", data, content)
    return replace(draft, parts=(*draft.parts, _named(person)))


def _named(person: Person) -> Part:
    return Part({"name": to_json(person.name, "by")}, key=person.key)


def expired(by: Writes, approval_id: str, effect_id: str) -> Draft:
    """Its time was over before it was used."""
    return by.draft("approval.expired", {"approval_id": approval_id, "effect_id": effect_id})


def consumed(by: Writes, approval_id: str, effect_id: str) -> Draft:
    """The effect that it was given for is intended, in the same append."""
    return by.draft("approval.consumed", {"approval_id": approval_id, "effect_id": effect_id})


def mismatched(
    by: Writes, approval_id: str, effect_id: str, approved: str, found: str, changed: Mapping[str, Any]
) -> Draft:
    """The call that came is not the one people were asked about (case S13)."""
    return by.draft(
        "approval.mismatched",
        {"approval_id": approval_id, "effect_id": effect_id, "approved": approved, "found": found},
        changed,
    )
