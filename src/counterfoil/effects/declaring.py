"""Tools put on record: which schema a digest stands for, so that a change can be shown when it is found (DESIGN 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from counterfoil.core.event import Draft
from counterfoil.core.values import to_json
from counterfoil.errors import GuardFailed
from counterfoil.flow.drafting import Outsider
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Append, Entry, Events, Flow, NewId, Now, Read, RowOf, Rows, UnitDraft
from counterfoil.store.rows import Absent, Column, Fact, Feature, Index, Key, Put, Row, RowChange, TableSpec

if TYPE_CHECKING:
    from counterfoil.effects.tool import Tool

DECLARED_MAX: Final = 100
"""Schemas of one tool's version that are looked at."""

DECLARED_TOOLS: Final = TableSpec(
    name="declared_tools",
    columns=(
        Column("tenant"),
        Column("tool"),
        Column("tool_version"),
        Column("schema"),
        Column("doubt"),
        Column("stream_id"),
        Column("event_id"),
        Column("sequence", "integer"),
        Column("declared_at_ms", "integer"),
    ),
    key=("tenant", "tool", "tool_version", "schema", "doubt"),
)


def rows(fact: Fact, index: Index) -> Iterator[RowChange]:  # noqa: ARG001 - a feature's signature
    """One row for each tool, version, schema and rule that was put on record."""
    data = fact.data
    named = {name: data[name] for name in ("tool", "tool_version", "schema", "doubt")}
    yield Put(
        DECLARED_TOOLS.name,
        {
            "tenant": fact.tenant,
            **named,
            "stream_id": fact.stream_id,
            "event_id": fact.event_id,
            "sequence": fact.sequence,
            "declared_at_ms": fact.recorded_at_ms,
        },
    )


FEATURE: Final = Feature("declared tools", (DECLARED_TOOLS,), frozenset({"tool.declared"}), rows)


def record_tools(tools: Iterable[Tool[..., Any]], tenant: str, stream_id: str) -> Flow[list[Tool[..., Any]]]:
    """Put those of these tools on record that are not yet as they are now; which they were.

    ``stream_id`` is the tenant's stream of settings. Recorded once, however many processes do this at the same time.
    """
    new = []
    for tool in tools:
        key: Key = (tenant, tool.name, tool.version, tool.parameters.schema, tool.doubt.kind)
        if (yield Read(RowOf(DECLARED_TOOLS.name, key))) is not None:
            continue
        event_id: str = yield NewId("evt")
        now: int = yield Now()
        draft = _declared(Outsider(event_id, now, None), tool)
        try:
            yield Append(UnitDraft((Entry(stream_id, (draft,)),), (Absent(DECLARED_TOOLS.name, key),)))
        except GuardFailed:
            continue
        new.append(tool)
    return new


def recorded_schema(tenant: str, tool: str, version: str, schema: str) -> Flow[Mapping[str, Any] | None]:
    """The JSON schema that a digest stands for, if it was put on record and can be opened."""
    found: list[Row] = yield Read(
        Rows(DECLARED_TOOLS.name, prefix=(tenant, tool, version, schema), limit=DECLARED_MAX)
    )
    for row in found:
        after = int(row["sequence"] or 1) - 1
        events: list[Event] = yield Read(Events(str(row["stream_id"]), after=after, limit=1))
        content = events[0].content_or_none() if events else None
        if content is not None and "schema" in content:
            schema_text: Mapping[str, Any] = content["schema"]
            return schema_text
    return None


def _declared(by: Outsider, tool: Tool[..., Any]) -> Draft:
    content: dict[str, Any] = {"schema": to_json(dict(tool.parameters.described), "schema")}
    if tool.description:
        content["description"] = to_json(tool.description, "description")
    data = {
        "tool": tool.name,
        "tool_version": tool.version,
        "schema": tool.parameters.schema,
        "doubt": tool.doubt.kind,
    }
    return by.draft("tool.declared", data, content)
