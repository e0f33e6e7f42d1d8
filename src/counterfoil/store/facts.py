"""Facts: an event as ``rows`` functions and folds see it, with the parts of its content put together (FORMAT 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from counterfoil.core.event import Header
from counterfoil.core.forms import time_ms
from counterfoil.store.rows import Fact


def recorded_fact(tenant: str, header: Header, content: Mapping[str, Any] | None) -> Fact:
    """The fact of a recorded event; ``content`` is part 0 opened and resolved, or None where it cannot be had."""
    return Fact(
        tenant=tenant,
        stream_id=header.stream_id,
        event_id=header.event_id,
        event_type=header.event_type,
        data=header.data,
        content=content,
        sequence=header.stream_sequence,
        recorded_at_ms=time_ms(header.recorded_at),
        occurred_at=header.occurred_at,
        actor=header.actor,
        run_id=header.run_id,
        step_id=header.step_id,
        attempt=header.attempt,
        causation_event_id=header.causation_event_id,
        artifact_refs=header.artifact_refs,
    )


def resolved(parts: Sequence[Mapping[str, Any] | None]) -> Mapping[str, Any] | None:
    """Part 0 with each ``{"$part": n}`` replaced by part n; an unreadable part stays a reference (FORMAT 6)."""
    if not parts or parts[0] is None:
        return None
    return parts[0] if len(parts) == 1 else {name: _resolve(value, parts) for name, value in parts[0].items()}


def _resolve(value: Any, parts: Sequence[Mapping[str, Any] | None]) -> Any:
    if isinstance(value, Mapping):
        number = value.get("$part")
        if len(value) == 1 and isinstance(number, int) and 0 < number < len(parts):
            found = parts[number]
            return value if found is None else found
        return {name: _resolve(inner, parts) for name, inner in value.items()}
    if isinstance(value, list):
        return [_resolve(inner, parts) for inner in value]
    return value
