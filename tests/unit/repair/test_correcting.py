"""Correcting a fact: the right value stands beside what was recorded, which nobody edits."""

from __future__ import annotations

import pytest

from counterfoil.errors import ContentUnavailable, InputError, InvalidForm, NotFoundError
from tests.repairing import CASE


@pytest.fixture
def observed(bank, refunded):
    """The event that is to be corrected."""
    (event,) = bank.ledger.events(CASE, types=["effect.observed"])
    return event


RIGHT = {"result": {"id": "re_1", "amount": 4}}


def test_a_correction_points_at_the_event_and_says_who_why_and_what_is_right(bank, observed):
    made = bank.ledger.correct(observed.event_id, RIGHT, by="Dana", reason="misread", evidence=["book", 7])
    (event,) = bank.ledger.events(CASE, types=["fact.corrected"])
    assert (event.event_id, event.data) == (made.event_id, {"corrects": observed.event_id})
    said = {name: event.content[name] for name in ("by", "reason", "evidence", "value")}
    assert said == {"by": {"name": "Dana"}, "reason": "misread", "evidence": ["book", 7], "value": RIGHT}
    assert event.header.actor["type"] == "human"
    assert event.header.causation_event_id == observed.event_id


def test_the_event_stays_as_it_was_recorded_byte_for_byte(bank, observed):
    before = bank.ledger.store.find(observed.stream_id, [observed.event_id])
    bank.ledger.correct(observed.event_id, RIGHT, by="Dana", reason="misread")
    assert bank.ledger.store.find(observed.stream_id, [observed.event_id]) == before


def test_reading_a_fact_shows_both(bank, observed):
    bank.ledger.correct(observed.event_id, RIGHT, by="Dana", reason="misread")
    fact = bank.ledger.fact(observed.event_id)
    assert fact.event.content == observed.content
    assert [event.content["value"] for event in fact.corrections] == [RIGHT]
    assert fact.value == RIGHT


def test_a_fact_that_nobody_corrected_has_the_value_that_was_recorded(bank, observed):
    fact = bank.ledger.fact(observed.event_id, stream=CASE)
    assert (fact.corrections, fact.value) == ((), dict(observed.content))


def test_the_last_correction_is_in_force_and_the_earlier_ones_stay(bank, observed):
    for value in (1, 2):
        bank.ledger.correct(observed.event_id, value, by="Dana", reason="misread")
    fact = bank.ledger.fact(observed.event_id)
    assert ([event.content["value"] for event in fact.corrections], fact.value) == ([1, 2], 2)


def test_the_same_correction_again_changes_nothing(bank, observed):
    first = bank.ledger.correct(observed.event_id, RIGHT, by="Dana", reason="misread")
    again = bank.ledger.correct(observed.event_id, RIGHT, by="Dana", reason="misread")
    assert (again.event_id, again.repeated) == (first.event_id, True)


@pytest.mark.parametrize("other", [{"by": "Omar"}, {"reason": "checked"}])
def test_the_same_value_from_another_person_or_for_another_reason_is_another_fact(bank, observed, other):
    bank.ledger.correct(observed.event_id, RIGHT, by="Dana", reason="misread")
    bank.ledger.correct(observed.event_id, RIGHT, **{"by": "Dana", "reason": "misread", **other})
    assert len(bank.ledger.fact(observed.event_id).corrections) == 2


def test_a_correction_can_be_corrected(bank, observed):
    wrong = bank.ledger.correct(observed.event_id, 1, by="Dana", reason="misread")
    bank.ledger.correct(wrong.event_id, 2, by="Dana", reason="misread again")
    assert bank.ledger.fact(wrong.event_id).value == 2


def test_a_correction_is_shown_with_the_run_whose_fact_it_corrects(bank, observed):
    bank.ledger.correct(observed.event_id, RIGHT, by="Dana", reason="misread")
    run_id = observed.header.run_id
    assert [e.type for e in bank.ledger.events(CASE, run_id=run_id)][-1] == "fact.corrected"


def test_an_effect_that_was_corrected_is_not_sent_again(bank, observed):
    bank.ledger.correct(observed.event_id, RIGHT, by="Dana", reason="misread")
    bank.serve()
    assert bank.sent("refunded") == 1


@pytest.mark.parametrize(
    "event_id,error",
    [("evt_01ARZ3NDEKTSV4RRFFQ69G5FAV", NotFoundError), ("eff_x", InvalidForm), ("7", InvalidForm)],
)
def test_what_is_no_event_here_cannot_be_corrected(bank, refunded, event_id, error):
    with pytest.raises(error):
        bank.ledger.correct(event_id, 1, by="Dana", reason="misread")


def test_an_event_of_another_conversation_than_the_one_named_is_not_found(bank, observed):
    with bank.ledger.run("agent", conversation="other"):
        pass
    with pytest.raises(NotFoundError):
        bank.ledger.correct(observed.event_id, 1, by="Dana", reason="misread", stream="other")


@pytest.mark.parametrize("said", [{"by": ""}, {"reason": ""}, {"reason": None}])
def test_who_and_why_must_say_something(bank, observed, said):
    with pytest.raises(InvalidForm):
        bank.ledger.correct(observed.event_id, 1, **{"by": "Dana", "reason": "misread", **said})


def test_a_value_without_a_recordable_form_is_refused_by_path(bank, observed):
    with pytest.raises(InputError, match="value"):
        bank.ledger.correct(observed.event_id, {"a": object()}, by="Dana", reason="misread")
    assert bank.types("fact") == []


def test_a_fact_whose_content_is_gone_says_so_instead_of_being_empty(bank, observed, monkeypatch):
    from counterfoil.flow.event import Event

    def gone(event):
        raise ContentUnavailable("erased", state="erased")

    monkeypatch.setattr(Event, "content", property(gone))
    with pytest.raises(ContentUnavailable):
        _ = bank.ledger.fact(observed.event_id).value


def test_whoever_folds_a_conversation_gets_the_right_value_of_each_corrected_event(bank, observed):
    for value in (1, RIGHT):
        bank.ledger.correct(observed.event_id, value, by="Dana", reason="misread")
    assert bank.ledger.corrections(CASE) == {observed.event_id: RIGHT}
    with pytest.raises(NotFoundError):
        bank.ledger.corrections("other")
