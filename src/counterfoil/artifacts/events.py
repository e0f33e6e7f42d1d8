"""Typed constructors of the events about artifacts: public fields and content named (FORMAT 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from counterfoil.core.artifact import Reference, size_class
from counterfoil.core.event import Draft, Part
from counterfoil.core.forms import time_text
from counterfoil.core.keyed import KeyMaterial

STORED: Final = "artifact.stored"
SPILLED: Final = "artifact.spilled"
REDACTED: Final = "artifact.redacted"


class Facts(Struct, frozen=True):
    """What is known of stored bytes beside their reference; all but ``permission`` is content."""

    size: int
    name: str | None = None
    media_type: str | None = None
    permission: str | None = None

    @property
    def data(self) -> dict[str, Any]:
        """The public fields."""
        found: dict[str, Any] = {"size_class": size_class(self.size)}
        return found if self.permission is None else found | {"permission": self.permission}

    @property
    def content(self) -> dict[str, Any]:
        """File name, media type and exact size."""
        members = {"name": self.name, "media_type": self.media_type, "bytes": self.size}
        return {name: value for name, value in members.items() if value is not None}


def stored(
    event_id: str,
    now_ms: int,
    actor: Mapping[str, str],
    reference: Reference,
    facts: Facts,
    stream_key: str,
    *,
    key: KeyMaterial | None = None,
    run_id: str | None = None,
) -> Draft:
    """Bytes were stored as an artifact. ``key`` is that of the person whom they are about, if it is another's."""
    return Draft(
        event_id=event_id,
        event_type=STORED,
        occurred_at=time_text(now_ms),
        actor=actor,
        data=facts.data,
        parts=(Part(facts.content, key),),
        run_id=run_id,
        artifact_refs=(reference.member(stream_key),),
    )


class Authority(Struct, frozen=True):
    """What the operation was permitted by, which made a value that spills: a label, and the person it acted for."""

    permission: str | None = None
    principal: str | None = None

    @property
    def data(self) -> dict[str, Any]:
        """The public fields."""
        members = {"permission": self.permission, "principal": self.principal}
        return {name: value for name, value in members.items() if value is not None}


def spilled(
    event_id: str,
    cause: Draft,
    reference: Reference,
    size: int,
    form: str,
    stream_key: str,
    part: Part,
    authority: Authority,
) -> Draft:
    """A value moved out of the event ``cause``, in whose append this stands before it.

    Whoever reads it back is asked for what the operation had that made it (seed 003).
    """
    data: dict[str, Any] = {"size_class": size_class(size), **authority.data}
    data |= {name: cause.data[name] for name in ("effect_id", "call_id") if name in cause.data}
    return Draft(
        event_id=event_id,
        event_type=SPILLED,
        occurred_at=cause.occurred_at,
        actor=cause.actor,
        data=data,
        parts=(Part({"form": form, "bytes": size}, part.key),),
        run_id=cause.run_id,
        step_id=cause.step_id,
        attempt=cause.attempt,
        artifact_refs=(reference.member(stream_key),),
    )
