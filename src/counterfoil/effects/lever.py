"""The stop lever: what is held in a tenant, and the gate that every new intention passes (DESIGN 7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from msgspec import Struct

from counterfoil.core.event import Draft
from counterfoil.flow.context import RunScope
from counterfoil.flow.drafting import Writes
from counterfoil.flow.requests import Flow, Read, RowOf, Rows
from counterfoil.store.rows import (
    Absent,
    Column,
    Fact,
    Feature,
    Guard,
    Index,
    Put,
    Row,
    RowChange,
    RowIs,
    TableSpec,
)

LeverScope = Literal["tool", "tenant", "all"]
"""What a lever stops: one tool, the whole tenant, or the tenant as part of the whole ledger."""

HELD: Final = "held"
RELEASED: Final = "released"

HELD_MAX: Final = 10_000
"""Most levers of one tenant that are looked at: one a tool."""

LEVERS: Final = TableSpec(
    name="levers",
    columns=(
        Column("tenant"),
        Column("scope"),
        # Empty where it is not one tool that is held.
        Column("tool"),
        Column("state"),
        Column("stream_id"),
        Column("event_id"),
        Column("sequence", "integer"),
        Column("changed_at_ms", "integer"),
    ),
    key=("tenant", "scope", "tool"),
    indexes={"by_state": ("tenant", "state")},
)

LEVER_GATES: Final = TableSpec(
    name="lever_gates",
    # The state is the event that moved a lever last. There is no row before the first one, and none is written then.
    columns=(Column("tenant"), Column("state"), Column("stream_id")),
    key=("tenant",),
    watched=True,
)


def rows(fact: Fact, index: Index) -> Iterator[RowChange]:  # noqa: ARG001 - a feature's signature
    """What pulling or releasing a lever changes."""
    yield Put(
        LEVERS.name,
        {
            "tenant": fact.tenant,
            "scope": fact.data["scope"],
            "tool": fact.data.get("tool", ""),
            "state": HELD if fact.event_type == "lever.held" else RELEASED,
            "stream_id": fact.stream_id,
            "event_id": fact.event_id,
            "sequence": fact.sequence,
            "changed_at_ms": fact.recorded_at_ms,
        },
    )
    yield Put(LEVER_GATES.name, {"tenant": fact.tenant, "state": fact.event_id, "stream_id": fact.stream_id})


FEATURE: Final = Feature("lever", (LEVERS, LEVER_GATES), frozenset({"lever.held", "lever.released"}), rows)


def moved(by: Writes, to: Literal["held", "released"], scope: LeverScope, tool: str, reason: str) -> Draft:
    """A named person pulls a lever, or releases it."""
    data = {"scope": scope, "tool": tool} if tool else {"scope": scope}
    return by.draft(f"lever.{to}", data, {"reason": reason, "by": {"$part": 1}})


class Held(Struct, frozen=True):
    """A lever that stands in the way: what it stops, the event that pulled it, and when (ms)."""

    scope: str
    tool: str
    event_id: str
    since_ms: int

    @classmethod
    def of(cls, row: Row) -> Held:
        """The typed view of a row."""
        return cls(str(row["scope"]), str(row["tool"]), str(row["event_id"]), int(row["changed_at_ms"] or 0))


class Lever:
    """One scope's view of the levers (``scope.part(Lever)``).

    It believes that no lever was ever pulled until the guard of an intention says otherwise: a tenant without levers
    reads nothing, and in any other a run looks once, and again whenever a lever has moved since.
    """

    def __init__(self, scope: RunScope) -> None:
        self._tenant = scope.ports.tenant
        self._seen: str | None = None
        self._held: dict[tuple[str, str], Held] = {}

    @property
    def guard(self) -> Guard:
        """Guard: no lever of the tenant has moved since it was looked at."""
        key = (self._tenant,)
        if self._seen is None:
            return Absent(LEVER_GATES.name, key)
        return RowIs(LEVER_GATES.name, key, frozenset({self._seen}))

    def look(self) -> Flow[None]:
        """See how the levers stand. The gate is read first: a lever that moves in between fails the guard."""
        gate: Row | None = yield Read(RowOf(LEVER_GATES.name, (self._tenant,)))
        held: list[Row] = yield Read(Rows(LEVERS.name, "by_state", (self._tenant, HELD), HELD_MAX))
        self._seen = None if gate is None else str(gate["state"])
        self._held = {(str(row["scope"]), str(row["tool"])): Held.of(row) for row in held}

    def holding(self, tool: str) -> Held | None:
        """What stops this tool as far as was looked at; the widest lever first."""
        held = self._held
        if not held:
            return None
        return held.get(("all", "")) or held.get(("tenant", "")) or held.get(("tool", tool))
