"""The tables of repairs, compensations and corrections, and the rows that follow from each event (FORMAT 11)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterfoil.repair.state import move_of
from counterfoil.store.rows import Column, Fact, Feature, Index, Patch, Put, RowChange, TableSpec

REPAIRS: Final = TableSpec(
    name="repairs",
    columns=(
        Column("repair_id"),
        Column("tenant"),
        Column("stream_id"),
        # What is repaired: the effect, else the event.
        Column("subject"),
        Column("supersedes"),
        Column("effect_id", required=False),
        Column("state"),
        Column("compensations", "integer"),
        Column("opened_event_id"),
        Column("opened_sequence", "integer"),
        Column("opened_at_ms", "integer"),
        Column("closed_sequence", "integer", required=False),
        Column("closed_at_ms", "integer", required=False),
    ),
    key=("repair_id",),
    indexes={
        "by_state": ("tenant", "state", "opened_at_ms"),
        "by_subject": ("subject", "opened_sequence"),
        "by_stream": ("stream_id", "opened_sequence"),
    },
)

REPAIR_SUBJECTS: Final = TableSpec(
    name="repair_subjects",
    # The last repair of each effect or event: by it two people cannot open one at the same time.
    columns=(Column("subject"), Column("tenant"), Column("stream_id"), Column("repair_id")),
    key=("subject",),
)

COMPENSATIONS: Final = TableSpec(
    name="compensations",
    columns=(
        Column("effect_id"),
        Column("compensates"),
        Column("tenant"),
        Column("stream_id"),
        Column("run_id", required=False),
        Column("tool"),
        Column("sequence", "integer"),
    ),
    key=("effect_id",),
    indexes={"by_compensated": ("compensates", "sequence")},
)

CORRECTIONS: Final = TableSpec(
    name="corrections",
    columns=(
        Column("event_id"),
        Column("corrects"),
        Column("tenant"),
        Column("stream_id"),
        Column("sequence", "integer"),
        Column("recorded_at_ms", "integer"),
    ),
    key=("event_id",),
    indexes={"by_corrected": ("corrects", "sequence"), "by_stream": ("stream_id", "sequence")},
)


def rows(fact: Fact, index: Index) -> Iterator[RowChange]:  # noqa: ARG001 - the signature of every feature's rows
    """What one event changes; from public fields alone."""
    match fact.event_type:
        case "effect.intended":
            if "compensates" in fact.data and (fact.attempt or 1) == 1:
                yield _compensation(fact)
        case "repair.opened":
            yield from _opened(fact)
        case "repair.closed":
            yield from _closed(fact)
        case "fact.corrected":
            yield _correction(fact)


def subject_of(supersedes: str, effect_id: str | None) -> str:
    """What a repair is about: an effect, whichever of its events is superseded, else the event."""
    return effect_id or supersedes


def _opened(fact: Fact) -> Iterator[RowChange]:
    data = fact.data
    effect_id = data.get("effect_id")
    subject = subject_of(data["supersedes"], effect_id)
    place = {"tenant": fact.tenant, "stream_id": fact.stream_id, "repair_id": data["repair_id"]}
    yield Put(
        REPAIRS.name,
        {
            **place,
            "subject": subject,
            "supersedes": data["supersedes"],
            "effect_id": effect_id,
            "state": "open",
            "compensations": 0,
            "opened_event_id": fact.event_id,
            "opened_sequence": fact.sequence,
            "opened_at_ms": fact.recorded_at_ms,
        },
    )
    yield Put(REPAIR_SUBJECTS.name, {**place, "subject": subject})


def _closed(fact: Fact) -> Iterator[RowChange]:
    data = fact.data
    move = move_of(fact.event_type, data)
    if move is not None:
        yield Patch(
            REPAIRS.name,
            (data["repair_id"],),
            {
                "state": move.to,
                "compensations": len(data["compensations"]),
                "closed_sequence": fact.sequence,
                "closed_at_ms": fact.recorded_at_ms,
            },
            move.out_of,
        )


def _compensation(fact: Fact) -> Put:
    return Put(
        COMPENSATIONS.name,
        {
            "effect_id": fact.data["effect_id"],
            "compensates": fact.data["compensates"],
            "tenant": fact.tenant,
            "stream_id": fact.stream_id,
            "run_id": fact.run_id,
            "tool": fact.data["tool"],
            "sequence": fact.sequence,
        },
    )


def _correction(fact: Fact) -> Put:
    return Put(
        CORRECTIONS.name,
        {
            "event_id": fact.event_id,
            "corrects": fact.data["corrects"],
            "tenant": fact.tenant,
            "stream_id": fact.stream_id,
            "sequence": fact.sequence,
            "recorded_at_ms": fact.recorded_at_ms,
        },
    )


FEATURE: Final = Feature(
    name="repair",
    tables=(REPAIRS, REPAIR_SUBJECTS, COMPENSATIONS, CORRECTIONS),
    event_types=frozenset({"effect.intended", "repair.opened", "repair.closed", "fact.corrected"}),
    rows=rows,
)
