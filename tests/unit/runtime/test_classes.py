"""What an input is classified as: its content is, and so is the run that it gets, whoever starts it."""

from __future__ import annotations

import pytest

from counterfoil.errors import InvalidForm, ScheduleConflict
from tests.running import facts


def classes(ledger, event_type, conversation="c"):
    """The class of each part of the events of a type; None is the type's default."""
    return [
        [part.klass for part in event.header.content]
        for event in ledger.events(conversation, types=[event_type])
    ]


@pytest.mark.parametrize(
    "klass, shown", [("confidential", None), ("personal", "personal"), ("public", "public")]
)
def test_the_message_of_a_run_is_of_the_class_that_the_run_is(ledger, klass, shown):
    with ledger.run("a", conversation="c", message="hello", classification=klass) as run:
        assert run.message == "hello"
    assert classes(ledger, "admission.accepted") == [[shown]]
    assert facts(ledger, "c", "run.started")[0]["class"] == klass


def test_what_is_about_a_person_is_classified_under_their_key(ledger):
    with ledger.run("a", conversation="c", message="hello", subject="ann", classification="secret"):
        pass
    assert classes(ledger, "admission.accepted") == [["secret", "secret"]]


def test_an_input_that_waits_gives_its_class_to_the_run_that_somebody_else_starts(ledger):
    kept = ledger.admit("a", conversation="c", message="hello", classification="personal")
    with ledger.run("a", admission=kept.admission_id) as run:
        assert run.message == "hello"
    assert classes(ledger, "admission.accepted") == [["personal"]]
    assert facts(ledger, "c", "run.started")[0]["class"] == "personal"


def test_who_starts_it_may_classify_it_higher_and_not_lower(ledger):
    for klass, expected in (("secret", "secret"), ("public", "personal")):
        kept = ledger.admit("a", conversation=klass, message="hello", classification="personal")
        with ledger.run("a", admission=kept.admission_id, classification=klass):
            pass
        assert facts(ledger, klass, "run.started")[0]["class"] == expected


def test_a_schedule_gives_its_class_to_what_it_brings(ledger):
    made = ledger.schedule(
        "a", conversation="c", every_s=60, message="hello", key="k", classification="personal"
    )
    assert classes(ledger, "schedule.created") == [["personal"]]
    with pytest.raises(ScheduleConflict, match="class"):
        ledger.schedule("a", conversation="c", every_s=60, message="hello", key="k")
    again = ledger.schedule(
        "a", conversation="c", every_s=60, message="hello", key="k", classification="personal"
    )
    assert (again.schedule_id, again.repeated) == (made.schedule_id, True)
    ledger.ports.clock.advance(61_000)
    assert [fired.done for fired in ledger.fire_due()] == ["fired"]
    (ready,) = ledger.ready_inputs()
    with ledger.run(ready.agent, admission=ready.admission_id):
        pass
    assert classes(ledger, "admission.accepted") == [["personal"]]
    assert facts(ledger, "c", "run.started")[0]["class"] == "personal"


def test_a_reading_shows_an_input_up_to_its_class(ledger):
    ledger.admit("a", conversation="c", message="hello", classification="personal")
    for ceiling, state in (("confidential", "withheld"), ("personal", "present")):
        with ledger.reading("c", actor="ann", purpose="why", classification=ceiling) as reader:
            (event,) = reader.events(types=["admission.accepted"])
            assert event.content_state == state


def test_what_is_no_class_is_refused(ledger):
    for make in (ledger.admit, lambda *a, **how: ledger.schedule(*a, every_s=60, **how)):
        with pytest.raises(InvalidForm, match="classification"):
            make("a", conversation="c", message="hello", classification="hidden")
