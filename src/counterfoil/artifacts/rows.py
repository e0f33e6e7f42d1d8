"""Rows of artifacts: which object a conversation holds, of which class, and where its bytes are found again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from counterfoil.artifacts.events import REDACTED, SPILLED, STORED
from counterfoil.core.artifact import PUBLIC, size_class
from counterfoil.store.rows import Column, Fact, Feature, Index, Patch, Put, RowChange, TableSpec

BASELINE: Final = "runtime.baseline"
"""Names the artifact of its state itself, since it is the one event of its conversation (seed 003, amendments)."""

ARTIFACTS: Final = TableSpec(
    name="artifacts",
    columns=(
        Column("stream_id"),
        Column("sha256"),
        Column("tenant"),
        Column("state"),
        Column("kind"),
        Column("class"),
        Column("address", required=False),
        # The key it lies under: its id, or the stream whose own key it is. Public bytes have none.
        Column("owner", required=False),
        Column("size_class", "integer"),
        Column("run_id", required=False),
        Column("sequence", "integer"),
        Column("stored_at_ms", "integer"),
    ),
    key=("stream_id", "sha256"),
    indexes={
        "by_stream": ("stream_id", "sequence"),
        "by_tenant": ("tenant", "stored_at_ms", "sequence"),
        "by_run": ("run_id", "sequence"),
        "by_address": ("owner", "address"),
        "by_object": ("tenant", "sha256"),
    },
)


def rows(fact: Fact, _index: Index) -> Iterator[RowChange]:
    """What one event changes; the newest event of an object is the one that its row names."""
    if fact.event_type == REDACTED:
        yield Patch(ARTIFACTS.name, (fact.stream_id, fact.data["sha256"]), {"state": "redacted"})
        return
    for reference in fact.artifact_refs:
        public = reference["class"] == PUBLIC
        yield Put(
            ARTIFACTS.name,
            {
                "stream_id": fact.stream_id,
                "sha256": reference["sha256"],
                "tenant": fact.tenant,
                "state": "stored",
                "kind": reference["kind"],
                "class": reference["class"],
                "address": reference.get("address"),
                "owner": None if public else reference.get("key", fact.stream_id),
                "size_class": _size_class(fact, reference["sha256"]),
                "run_id": fact.run_id,
                "sequence": fact.sequence,
                "stored_at_ms": fact.recorded_at_ms,
            },
        )


def _size_class(fact: Fact, sha256: str) -> int:
    if fact.event_type != BASELINE:
        return int(fact.data["size_class"])
    for value in (fact.content or {}).values():
        there = value.get("$spilled") if isinstance(value, Mapping) else None
        if isinstance(there, Mapping) and there.get("sha256") == sha256:
            return size_class(int(there["bytes"]))
    return 0


FEATURE: Final = Feature(
    name="artifacts",
    tables=(ARTIFACTS,),
    event_types=frozenset({STORED, SPILLED, REDACTED, BASELINE}),
    rows=rows,
)
