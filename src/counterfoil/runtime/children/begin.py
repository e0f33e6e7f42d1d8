"""What a child's run begins with: what its parent gave it, read from the child's own conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from counterfoil.flow.event import Event
from counterfoil.flow.requests import Events, Flow, Read
from counterfoil.runtime.budgets.limits import merged
from counterfoil.runtime.budgets.state import limit_of
from counterfoil.runtime.events import about
from counterfoil.runtime.spec import RunSpec

SPAWNED = "spawned"
"""The member of the content of ``conversation.opened`` that says how the run is to begin."""


def spawned_spec(spec: RunSpec, stream_id: str, run_id: str) -> Flow[RunSpec]:
    """The request for a child's first run as its parent made it; one for any later run stays as it is.

    Whoever enters it may say more, and says it again: an agent's version, a policy.
    """
    opening: list[Event] = yield Read(Events(stream_id, limit=2))
    given: Mapping[str, Any] = opening[0].content.get(SPAWNED, {}) if opening else {}
    if given.get("run_id") != run_id or len(opening) < 2:
        return spec
    limits = tuple(limit_of(data) for data in given.get("budget", ()))
    return replace(
        spec,
        message=about(opening[1].content).get("message"),
        classification=str(given.get("classification", spec.classification)),
        configuration={**given.get("configuration", {}), **spec.configuration},
        principal=spec.principal or (opening[0].content.get("principal") or {}).get("name"),
        budget=merged(limits, spec.budget),
    )
