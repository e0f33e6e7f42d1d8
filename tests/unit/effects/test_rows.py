"""Rows follow from events alone and say what the fold says, whatever the order of events (DESIGN 2.7)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from counterfoil.adapters.memory.tables import Table, apply
from counterfoil.core.forms import time_text
from counterfoil.core.keyed import index_value
from counterfoil.effects.identity import business_identity, recorded_identity, run_identity
from counterfoil.effects.rows import EFFECT_KEYS, EFFECTS, FEATURE, REVIEWS, rows
from counterfoil.effects.state import IN_REVIEW, evolve
from counterfoil.store.rows import Fact

EFFECT = "eff_01J9ZC3Y3V7W2R5T8QK4M6N0PF"
REVIEW = "rev_01J9ZC3Y3V7W2R5T8QK4M6N0PF"
RUN = "run_01J9ZC3Y3V7W2R5T8QK4M6N0PR"
STREAM = "str_01J9ZC3Y3V7W2R5T8QK4M6N0PS"
INTENTION = {"arguments": {"order": "o-1"}, "idempotency_key": "pay:o-1"}


def index(purpose, text):
    return index_value(bytes(32), purpose, "default", text)


def fact(number, event_type, data, content=None, attempt=None):
    return Fact(
        tenant="default",
        stream_id=STREAM,
        event_id=f"evt_{number:026d}",
        event_type=event_type,
        data={"effect_id": EFFECT} | data,
        content=content,
        sequence=number,
        recorded_at_ms=number * 1000,
        occurred_at=time_text(number * 1000),
        actor={"type": "agent", "id": "a"},
        run_id=RUN,
        attempt=attempt,
    )


def intended(number, attempt=1, content=INTENTION):
    data = {"tool": "pay", "tool_version": "1", "doubt": "key", "deadline": "2026-09-01T14:31:08.412Z"}
    return fact(number, "effect.intended", data, content, attempt)


def fold_rows(facts):
    tables = {spec.name: Table(spec) for spec in FEATURE.tables}
    for each in facts:
        apply(tables, rows(each, index), lambda cell: cell)
    return {name: list(table.rows.values()) for name, table in tables.items()}


OUTCOMES = st.sampled_from(["succeeded", "rejected", "failed", "unknown"])
KINDS = st.one_of(
    st.tuples(st.just("effect.observed"), OUTCOMES.map(lambda o: {"outcome": o, "source": "call"})),
    st.tuples(st.just("effect.late_observed"), OUTCOMES.map(lambda o: {"outcome": o, "source": "call"})),
    st.just(("effect.intended", None)),
    st.tuples(
        st.just("effect.looked_up"), st.integers(1, 9).map(lambda n: {"answer": "absent", "lookup": n})
    ),
    st.just(("effect.review_requested", {"review_id": REVIEW, "cause": "absent"})),
    st.just(("effect.settled", {"review_id": REVIEW, "outcome": "failed"})),
    st.just(("effect.contradicted", {"review_id": REVIEW, "recorded": "failed", "found": "succeeded"})),
    st.just(("effect.repeated", {"first": "evt_00000000000000000000000001"})),
)


@given(st.lists(KINDS, max_size=12))
def test_the_row_of_an_effect_is_its_fold_in_any_order_of_events(story):
    facts = [intended(1)]
    for number, (event_type, data) in enumerate(story, 2):
        facts.append(intended(number, number) if data is None else fact(number, event_type, data))
    folded = None
    for each in facts:
        folded = evolve(folded, each.event_type, each.data, each.attempt)
    (row,) = fold_rows(facts)[EFFECTS.name]
    assert folded is not None
    assert (row["state"], row["attempt"], row["lookups"]) == (folded.state, folded.attempt, folded.lookups)
    assert (row["outcome"], row["tool"], row["doubt"]) == (folded.outcome, folded.tool, folded.doubt)


def test_an_intention_binds_its_key_and_names_its_arguments():
    found = fold_rows([intended(1)])
    expected = business_identity(index, "pay:o-1", {"order": "o-1"})
    (key,) = found[EFFECT_KEYS.name]
    (row,) = found[EFFECTS.name]
    assert (key["key_index"], key["arguments_index"]) == (expected.key_index, expected.arguments_index)
    assert (key["state"], key["effect_id"], key["stream_id"]) == ("bound", EFFECT, STREAM)
    assert (row["key_index"], row["arguments_index"]) == (expected.key_index, expected.arguments_index)


def test_no_text_from_outside_stands_in_a_row():
    found = fold_rows([intended(1)])
    shown = str(found)
    assert "o-1" not in shown
    assert "order" not in shown


def test_an_intention_without_content_still_makes_its_row():
    found = fold_rows([intended(1, content=None)])
    (row,) = found[EFFECTS.name]
    assert (row["state"], row["key_index"]) == ("intended", None)
    assert found[EFFECT_KEYS.name] == []


def test_a_second_attempt_keeps_where_the_effect_began():
    facts = [intended(1), fact(2, "effect.observed", {"outcome": "failed", "source": "call"}), intended(3, 2)]
    (row,) = fold_rows(facts)[EFFECTS.name]
    assert (row["first_sequence"], row["intended_sequence"], row["attempt"]) == (1, 3, 2)
    assert row["first_event_id"] != row["intended_event_id"]


def test_a_late_answer_closes_the_review_that_was_asked_for_it():
    asked = [intended(1), fact(2, "effect.review_requested", {"review_id": REVIEW, "cause": "absent"})]
    (open_review,) = fold_rows(asked)[REVIEWS.name]
    assert open_review["state"] == "open"
    answered = [*asked, fact(3, "effect.late_observed", {"outcome": "succeeded", "source": "call"})]
    (review,) = fold_rows(answered)[REVIEWS.name]
    assert (review["state"], review["outcome"], review["settled_sequence"]) == ("settled", "succeeded", 3)


def test_a_contradiction_opens_the_review_again():
    facts = [
        intended(1),
        fact(2, "effect.review_requested", {"review_id": REVIEW, "cause": "absent"}),
        fact(3, "effect.settled", {"review_id": REVIEW, "outcome": "failed"}),
        fact(4, "effect.late_observed", {"outcome": "succeeded", "source": "call"}),
        fact(5, "effect.contradicted", {"review_id": REVIEW, "recorded": "settled", "found": "succeeded"}),
        fact(6, "effect.review_requested", {"review_id": REVIEW, "cause": "contradicted"}),
    ]
    found = fold_rows(facts)
    assert found[EFFECTS.name][0]["state"] in IN_REVIEW
    assert [(row["state"], row["cause"]) for row in found[REVIEWS.name]] == [("open", "contradicted")]


def test_a_review_can_be_given_to_somebody():
    key = "dk_01J9ZC3Y3V7W2R5T8QK4M6N0PK"
    facts = [
        intended(1),
        fact(2, "effect.review_requested", {"review_id": REVIEW, "cause": "by_review"}),
        fact(3, "review.assigned", {"review_id": REVIEW, "assignee": key}),
    ]
    assert fold_rows(facts)[REVIEWS.name][0]["assignee"] == key


def test_a_business_key_is_another_effect_than_a_call_without_one():
    with_key = recorded_identity(index, EFFECT, RUN, "pay", INTENTION)
    without = recorded_identity(index, EFFECT, RUN, "pay", INTENTION | {"idempotency_key": EFFECT})
    assert with_key.key_index != without.key_index
    assert with_key.arguments_index == without.arguments_index
    assert without == run_identity(index, RUN, "pay", {"order": "o-1"})


def test_a_recorded_occurrence_is_found_again():
    content = INTENTION | {"idempotency_key": EFFECT, "occurrence": {"path": "plan#1", "number": 2}}
    assert recorded_identity(index, EFFECT, RUN, "pay", content) == run_identity(
        index, RUN, "pay", {"order": "o-1"}, ("plan#1", 2)
    )


def test_what_the_maker_has_worked_out_changes_no_row():
    plain = intended(1)
    identity = recorded_identity(index, EFFECT, RUN, "pay", INTENTION)
    assert list(rows(replace(plain, hint=identity), index)) == list(rows(plain, index))
