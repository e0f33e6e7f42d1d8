"""The tables of effects, their keys and their reviews, and the rows that follow from each event (FORMAT 8 and 11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from counterfoil.approvals.rows import person_index
from counterfoil.core.forms import time_ms
from counterfoil.effects.identity import Identity, recorded_identity, successor_index
from counterfoil.effects.state import OPEN, move_of, review_of
from counterfoil.store.rows import (
    ROW_INDEX,
    CellSource,
    Column,
    Fact,
    Feature,
    Index,
    Patch,
    Put,
    Remove,
    RowChange,
    TableSpec,
)

OPEN_STATES: Final = OPEN
"""States of a row of ``effects`` in which its run cannot end with success (DESIGN 2.15)."""

EFFECTS: Final = TableSpec(
    name="effects",
    columns=(
        Column("effect_id"),
        Column("tenant"),
        Column("stream_id"),
        Column("run_id"),
        Column("tool"),
        Column("tool_version"),
        Column("schema", required=False),
        Column("doubt"),
        Column("state"),
        Column("outcome", required=False),
        Column("attempt", "integer"),
        Column("lookups", "integer"),
        Column("deadline_ms", "integer", required=False),
        # Digests of the key and the arguments; empty when the content is gone that they are made of.
        Column("key_index", required=False),
        Column("arguments_index", required=False),
        # The first intention, which effect.repeated names, and the last; and the event that decided the outcome.
        Column("first_event_id"),
        Column("first_sequence", "integer"),
        Column("intended_event_id"),
        Column("intended_sequence", "integer"),
        Column("outcome_sequence", "integer", required=False),
        Column("review_id", required=False),
        Column("intended_at_ms", "integer"),
        Column("changed_at_ms", "integer"),
    ),
    key=("effect_id",),
    indexes={
        # A run is asked for with its stream, so that one index, and not two, is written with every effect.
        "by_run": ("stream_id", "run_id", "first_sequence"),
        "by_state": ("tenant", "state", "deadline_ms"),
    },
    version=2,
)

EFFECT_KEYS: Final = TableSpec(
    name="effect_keys",
    columns=(
        Column("tenant"),
        # Of the key; or of the effect that had it and was confirmed not done, when this one took it over.
        Column("key_index"),
        # `bound`: the effect's own row says how it stands. `settled`: erased, never to be sent again (FORMAT 8).
        Column("state"),
        Column("tool", required=False),
        Column("arguments_index", required=False),
        Column("effect_id", required=False),
        Column("stream_id", required=False),
    ),
    # No other index: every effect pays for each, and the rows of a stream are found through its effects.
    key=("tenant", "key_index"),
)

REVIEWS: Final = TableSpec(
    name="reviews",
    columns=(
        Column("review_id"),
        Column("tenant"),
        Column("stream_id"),
        Column("run_id", required=False),
        Column("effect_id"),
        Column("state"),
        Column("cause"),
        Column("outcome", required=False),
        Column("assignee", required=False),
        # From content: whose it is by name, and by when it should be settled.
        Column("assignee_index", required=False),
        Column("due_at_ms", "integer", required=False),
        Column("opened_sequence", "integer"),
        Column("opened_at_ms", "integer"),
        Column("settled_sequence", "integer", required=False),
        Column("settled_at_ms", "integer", required=False),
    ),
    key=("review_id",),
    indexes={
        "by_state": ("tenant", "state", "opened_at_ms"),
        "by_run": ("run_id",),
        "by_stream": ("stream_id", "opened_sequence"),
    },
    version=2,
)

RETRIES: Final = TableSpec(
    name="retries",
    columns=(
        Column("effect_id"),
        Column("tenant"),
        Column("stream_id"),
        Column("run_id", required=False),
        # The attempt that came to nothing, and its pause: the next one is due that long after this was recorded.
        Column("attempt", "integer"),
        Column("error_class"),
        Column("decided_at_ms", "integer"),
        Column("delay_ms", "integer"),
    ),
    # A row stands from the decision to the next attempt, so there are never more than wait.
    key=("effect_id",),
    indexes={"by_decided": ("tenant", "decided_at_ms")},
)

_OPENED: Final = frozenset({"open"})


def rows(fact: Fact, index: Index) -> Iterator[RowChange]:
    """What one event changes. Content is looked at for the key that enforces "once", and for whose a review is."""
    match fact.event_type:
        case "effect.intended":
            yield from _intended(fact, index)
        case "effect.looked_up":
            yield _patch(fact, {"lookups": fact.data["lookup"]})
        case "effect.observed" | "effect.late_observed":
            yield from _observed(fact)
        case "effect.review_requested":
            yield from _review_opened(fact)
        case "effect.settled":
            yield from _settled(fact)
        case "effect.contradicted":
            yield from _moved(fact, {"review_id": fact.data["review_id"]})
        case "retry.decided" if "effect_id" in fact.data:
            yield from _retried(fact)
        case "review.assigned":
            yield _assigned(fact, index)


def _intended(fact: Fact, index: Index) -> Iterator[RowChange]:
    data = fact.data
    known: dict[str, CellSource] = {
        "tool_version": data["tool_version"],
        "schema": data.get("schema"),
        "doubt": data["doubt"],
        "attempt": fact.attempt or 1,
        "deadline_ms": time_ms(data["deadline"]) if "deadline" in data else None,
        "intended_event_id": fact.event_id,
        "intended_sequence": fact.sequence,
        "outcome": None,
    }
    if (fact.attempt or 1) > 1:
        yield from _moved(fact, known)
        yield _no_retry(fact)
        return
    assert fact.run_id is not None, "an intention is made inside a run"
    if fact.content is not None:
        identity = _identity(fact, index)
        known |= {"key_index": identity.key_index, "arguments_index": identity.arguments_index}
        before = fact.content.get("takes_over")
        yield Put(
            EFFECT_KEYS.name,
            {
                "tenant": fact.tenant,
                "key_index": identity.key_index if before is None else successor_index(index, before),
                "state": "bound",
                "tool": data["tool"],
                "arguments_index": identity.arguments_index,
                "effect_id": data["effect_id"],
                "stream_id": fact.stream_id,
            },
        )
    yield Put(
        EFFECTS.name,
        {
            "effect_id": data["effect_id"],
            "tenant": fact.tenant,
            "stream_id": fact.stream_id,
            "run_id": fact.run_id,
            "tool": data["tool"],
            "state": "intended",
            "lookups": 0,
            "first_event_id": fact.event_id,
            "first_sequence": fact.sequence,
            "intended_at_ms": fact.recorded_at_ms,
            "changed_at_ms": fact.recorded_at_ms,
            **known,
        },
    )


def _identity(fact: Fact, index: Index) -> Identity:
    """Worked out when the event was made, left in it where the arguments moved out, or made again from them."""
    if isinstance(fact.hint, Identity):
        return fact.hint
    content, data = fact.content or {}, fact.data
    left = content.get(ROW_INDEX)
    if isinstance(left, Mapping):
        return Identity(str(left["key_index"]), str(left["arguments_index"]))
    return recorded_identity(index, data["effect_id"], str(fact.run_id), data["tool"], content)


def stands_in(fact: Fact, index: Index) -> Mapping[str, str]:
    """What rows need of an intention whose arguments move to artifacts."""
    if fact.event_type != "effect.intended" or fact.content is None:
        return {}
    identity = _identity(fact, index)
    return {"key_index": identity.key_index, "arguments_index": identity.arguments_index}


def _observed(fact: Fact) -> Iterator[RowChange]:
    outcome = fact.data["outcome"]
    yield from _moved(fact, {"outcome": outcome, "outcome_sequence": fact.sequence})
    if fact.event_type == "effect.late_observed" and outcome != "unknown":
        # Now it is known; nobody need be asked. A contradiction follows in the same append and opens it again.
        yield _review_closed(fact, review_of(fact.data["effect_id"]))
    if fact.data["source"] != "call" or fact.event_type == "effect.late_observed":
        # An attempt that was decided on is not needed. One that was made has no row any more.
        yield _no_retry(fact)


def _review_opened(fact: Fact) -> Iterator[RowChange]:
    data = fact.data
    yield from _moved(fact, {"review_id": data["review_id"]})
    yield _no_retry(fact)
    yield Put(
        REVIEWS.name,
        {
            "review_id": data["review_id"],
            "tenant": fact.tenant,
            "stream_id": fact.stream_id,
            "run_id": fact.run_id,
            "effect_id": data["effect_id"],
            "state": "open",
            "cause": data["cause"],
            "opened_sequence": fact.sequence,
            "opened_at_ms": fact.recorded_at_ms,
        },
    )


def _retried(fact: Fact) -> Iterator[RowChange]:
    data = fact.data
    if "effect_id" not in data:
        return
    if not data["retry"]:
        yield _no_retry(fact)
        return
    row: dict[str, CellSource] = {
        "effect_id": data["effect_id"],
        "tenant": fact.tenant,
        "stream_id": fact.stream_id,
        "run_id": fact.run_id,
        "attempt": fact.attempt or 1,
        "error_class": data["error_class"],
        "decided_at_ms": fact.recorded_at_ms,
        "delay_ms": data["delay_ms"],
    }
    yield Put(RETRIES.name, row)


def _no_retry(fact: Fact) -> Remove:
    return Remove(RETRIES.name, (fact.data["effect_id"],))


def _settled(fact: Fact) -> Iterator[RowChange]:
    yield from _moved(fact, {"outcome": fact.data["outcome"], "outcome_sequence": fact.sequence})
    yield _review_closed(fact, fact.data["review_id"])


def _assigned(fact: Fact, index: Index) -> Patch:
    content = fact.content or {}
    name = (content.get("assignee") or {}).get("name")
    values: dict[str, CellSource] = {
        "assignee": fact.data["assignee"],
        "assignee_index": None if name is None else person_index(index, name),
        "due_at_ms": time_ms(content["due_at"]) if "due_at" in content else None,
    }
    return Patch(REVIEWS.name, (fact.data["review_id"],), values, _OPENED)


def _review_closed(fact: Fact, review_id: str) -> Patch:
    closed: dict[str, CellSource] = {
        "state": "settled",
        "outcome": fact.data["outcome"],
        "settled_sequence": fact.sequence,
        "settled_at_ms": fact.recorded_at_ms,
    }
    return Patch(REVIEWS.name, (review_id,), closed, _OPENED)


def _moved(fact: Fact, values: dict[str, CellSource]) -> Iterator[Patch]:
    """The patch that the table of moves allows; in any other state the row stays as it is."""
    move = move_of(fact.event_type, fact.data)
    if move is not None:
        yield _patch(fact, {"state": move.to, **values}, move.out_of)


def _patch(fact: Fact, values: dict[str, Any], out_of: frozenset[str] = frozenset()) -> Patch:
    return Patch(
        EFFECTS.name, (fact.data["effect_id"],), values | {"changed_at_ms": fact.recorded_at_ms}, out_of
    )


FEATURE: Final = Feature(
    name="effects",
    tables=(EFFECTS, EFFECT_KEYS, REVIEWS, RETRIES),
    event_types=frozenset(
        {
            "effect.intended",
            "effect.observed",
            "effect.late_observed",
            "effect.looked_up",
            "effect.review_requested",
            "effect.settled",
            "effect.contradicted",
            "retry.decided",
            "review.assigned",
        }
    ),
    rows=rows,
    stands_in=stands_in,
)
