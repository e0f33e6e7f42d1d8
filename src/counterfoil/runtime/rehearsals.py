"""Rehearsals as rows: which runs are one, so that nobody ever goes on with one as if its effects were to be real (DESIGN 6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterfoil.errors import RehearsalOnly
from counterfoil.flow.requests import Flow, Read, RowOf
from counterfoil.store.rows import Column, Fact, Feature, Index, Put, Row, RowChange, TableSpec

REHEARSALS: Final = TableSpec(
    name="rehearsals",
    columns=(Column("run_id"), Column("tenant"), Column("stream_id"), Column("rehearsal_of")),
    key=("run_id",),
    indexes={"by_original": ("tenant", "rehearsal_of", "run_id")},
)


def rows(fact: Fact, index: Index) -> Iterator[RowChange]:  # noqa: ARG001 - a feature's signature
    """A row for each run that began as a rehearsal; any other has none."""
    original = fact.data.get("rehearsal_of")
    if original is not None and fact.run_id is not None:
        yield Put(
            REHEARSALS.name,
            {
                "run_id": fact.run_id,
                "tenant": fact.tenant,
                "stream_id": fact.stream_id,
                "rehearsal_of": original,
            },
        )


FEATURE: Final = Feature("rehearsals", (REHEARSALS,), frozenset({"run.started"}), rows)


def rehearsed_by(run_id: str) -> Flow[str | None]:
    """The run that this one rehearses; None for one that is no rehearsal."""
    row: Row | None = yield Read(RowOf(REHEARSALS.name, (run_id,)))
    return None if row is None else str(row["rehearsal_of"])


def refuse_rehearsal(run_id: str, what: str = "gone on with") -> Flow[None]:
    """Raise ``RehearsalOnly`` if the run is one: its effects are those of another record, or would now be made."""
    original = yield from rehearsed_by(run_id)
    if original is not None:
        raise RehearsalOnly(
            f"run {run_id} is a rehearsal of run {original} and is not {what}",
            run_id=run_id,
            rehearsal_of=original,
        )
