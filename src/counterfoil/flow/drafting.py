"""Making drafts for a feature's events: what a run and a person outside of it have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from counterfoil.core.event import Draft, Part
from counterfoil.core.forms import time_text
from counterfoil.core.keyed import KeyMaterial


class Writes(Protocol):
    """Makes drafts with actor, run and time filled in; a :class:`counterfoil.flow.context.RunScope` does."""

    def draft(
        self,
        event_type: str,
        data: Mapping[str, Any] | None = None,
        content: Mapping[str, Any] | None = None,
        *,
        attempt: int | None = None,
        causation_event_id: str | None = None,
    ) -> Draft:
        """An event draft."""
        ...


class Person(Struct, frozen=True):
    """A named human: the key that stands for them in this stream, and the name that goes under it (FORMAT 3)."""

    key: KeyMaterial
    name: str


class Outsider(Struct, frozen=True):
    """Makes a draft in the name of somebody who is no worker of the run; ``person`` None is Counterfoil itself."""

    event_id: str
    now_ms: int
    run_id: str | None
    person: Person | None = None

    def draft(
        self,
        event_type: str,
        data: Mapping[str, Any] | None = None,
        content: Mapping[str, Any] | None = None,
        *,
        attempt: int | None = None,
        causation_event_id: str | None = None,
    ) -> Draft:
        """See :class:`Writes`."""
        person = self.person
        return Draft(
            event_id=self.event_id,
            event_type=event_type,
            occurred_at=time_text(self.now_ms),
            actor={"type": "system", "id": "counterfoil"}
            if person is None
            else {"type": "human", "id": person.key.key_id},
            data=data or {},
            parts=(Part(content),) if content else (),
            run_id=self.run_id,
            attempt=attempt,
            causation_event_id=causation_event_id,
        )
