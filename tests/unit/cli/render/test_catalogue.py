"""Every type of the catalogue has a row of its own, which says in words what happened."""

from __future__ import annotations

import pytest

from counterfoil.cli.render import timeline as drawing
from counterfoil.cli.render.timeline import HANDLERS
from counterfoil.core.catalogue import EVENT_TYPES
from counterfoil.core.forms import time_text
from tests.unit.cli.invented import RUN, START, STREAM, Story, words

GENERIC: dict[str, str] = {}
"""Types of the product that are drawn by their public fields alone, and why."""

REFERENCES = frozenset({"artifact.stored", "artifact.spilled"})
"""What is drawn from members of the header that an invented event has not; ``test_artifacts`` draws them."""


def value_of(form):
    """A value of this form."""
    match form.kind:
        case "id":
            return f"{(form.choices or ('evt',))[0]}_01J9ZC3Y3V7W2R5T8QK4M6N0PN"
        case "ids":
            return [f"{(form.choices or ('evt',))[0]}_01J9ZC3Y3V7W2R5T8QK4M6N0PN"]
        case "enum":
            return form.choices[0]
        case kind:
            return {
                "h": "0" * 64,
                "sha": "0" * 64,
                "t": "0" * 32,
                "n": 3,
                "bool": True,
                "label": "ok",
                "name": "a",
                "decimal": "2.50",
                "time": time_text(START),
                "type": "run.started",
                "labels": ["a"],
                "types": ["run.started"],
            }[kind]


def all_data_of(event_type):
    """Public fields with and without what may be missing, and once with each of the words of a closed set."""
    fields = EVENT_TYPES[event_type].fields
    whole = {name: value_of(form) for name, form in fields.items()}
    yield whole
    yield {name: value for name, value in whole.items() if not fields[name].optional}
    for name, form in fields.items():
        for choice in form.choices if form.kind == "enum" else ():
            yield whole | {name: choice}
        if form.kind == "bool":
            yield whole | {name: False}


def test_every_type_has_a_row_of_its_own_or_a_reason_for_none():
    assert set(EVENT_TYPES) - set(HANDLERS) == set(GENERIC)
    assert set(HANDLERS) <= set(EVENT_TYPES)


@pytest.mark.parametrize("event_type", sorted(set(EVENT_TYPES) - REFERENCES - set(GENERIC)))
@pytest.mark.parametrize("content", [None, {}, "erased"], ids=["none", "empty", "erased"])
def test_a_row_needs_nothing_that_a_valid_event_may_lack(event_type, content, monkeypatch):
    def other(build, event):
        raise AssertionError(f"{event_type} fell back to its public fields: {dict(event.data)}")

    monkeypatch.setattr(drawing, "_other", other)
    for data in all_data_of(event_type):
        story = Story()
        gone = "erased" if content == "erased" else None
        story.add(event_type, data, None if gone else content, state=gone)
        story.text()


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_late_answer_that_does_not_know_either_ends_no_doubt(story):
    story.intended()
    story.unknown()
    story.observed("unknown", late=True)
    assert "→| late answer payment.refund (1): unknown · how it ended is still not known" in words(
        story.text()
    )
    assert story.pair().doubt is not None


CHILD = {"child_stream_id": STREAM, "child_run_id": RUN, "depth": 1}
ENDED = {"child_stream_id": STREAM, "by": "child"}


def test_a_child_is_named_where_it_begins_and_where_it_ends(story):
    story.add("child.started", CHILD, {"agent": "courier", "input": {"parcel": 7}})
    story.add(
        "child.settled", ENDED | {"state": "finished"}, {"result": {"terminal": "success", "output": "there"}}
    )
    text = words(story.text())
    assert "↳ child begun courier · {parcel: 7}" in text
    assert "↲ child ended courier · there ✓ finished" in text


@pytest.mark.parametrize(
    "state, result, said",
    [
        ("finished", {"terminal": "runtime_failure"}, "✗ ended as runtime_failure"),
        ("lost", {}, "? lost: it cannot be reached, and what it did is not known here"),
    ],
)
def test_a_child_that_failed_or_was_lost_cannot_be_overlooked(story, state, result, said):
    for _ in range(3):
        error = {"class": "CourierError", "message": "no van"}
        story.add("child.settled", ENDED | {"state": state}, {"result": result | {"error": error}})
    notes = story.notes()
    assert [(note.style, note.outcome.style, note.outcome.text) for note in notes] == [
        ("failure", "failure", said)
    ] * 3
    assert "CourierError: no van" in story.text()


def test_a_schedule_says_when_and_how_late_and_what_follows(story):
    due = {"schedule_id": "sch_01J9ZC3Y3V7W2R5T8QK4M6N0PN", "due_at": "2026-09-01T08:00:00.000Z"}
    story.add("schedule.created", due | {"kind": "every", "period_ms": 300_000}, {"payload": "wake"})
    story.add("schedule.fired", due | {"late_ms": 90_000, "next_due_at": "2026-09-01T08:05:00.000Z"})
    story.add("schedule.fired", due)
    story.add("schedule.cancelled", due)
    text = words(story.text(160))
    assert "scheduled every 5 min, first at 2026-09-01 08:00:00Z · wake" in text
    assert "due at 2026-09-01 08:00:00Z · 1 min 30 s late · next at 2026-09-01 08:05:00Z" in text
    assert "due at 2026-09-01 08:00:00Z · no other time follows" in text
    assert "cancelled: what was due at 2026-09-01 08:00:00Z is not carried out" in text


@pytest.mark.parametrize(
    "event_type, data, said",
    [
        (
            "budget.exceeded",
            {"budget": "money", "limit": "2", "spent": "2.50", "currency": "EUR"},
            "2.50 of 2 EUR",
        ),
        ("keys.lost", {"keys": 2}, "2 keys: what lies under them cannot be opened"),
        ("sandbox.probed", {"sandbox": "box", "ok": False, "capabilities": []}, "✗ does not work"),
        ("seal.failed", {"size": 9, "cause": "witness"}, "a witness did not sign it"),
        ("access.decided", {"action": "read", "allowed": False, "rule": "roles"}, "⊘ refused"),
        ("turn.checked", {"stage": "guard", "check": "tone", "outcome": "blocked"}, "✗ blocked"),
        ("turn.checked", {"stage": "verify", "check": "urls", "outcome": "failed"}, "✗ failed"),
    ],
)
def test_what_failed_is_in_red_with_a_word_and_never_folded(story, event_type, data, said):
    story.add(event_type, data)
    story.add(event_type, data)
    notes = story.notes()
    assert len(notes) == 2
    spans = [span for note in notes for span in (*note.detail, *([note.outcome] if note.outcome else []))]
    assert {span.style for span in spans if said in span.text} == {"failure"}
    assert said in words(story.text())


def test_a_guards_own_word_is_not_called_good(story):
    story.add(
        "turn.checked",
        {"stage": "guard", "check": "tone", "outcome": "rewritten"},
        {"reason": "It was rude."},
    )
    assert "guard tone · It was rude. ! rewritten" in words(story.text())


def test_a_name_that_says_other_things_to_a_terminal_is_marked(story):
    story.add("child.started", CHILD, {"agent": "a\x1b[2Jgent", "input": "x\u202ey"})
    text = story.text()
    assert "\x1b" not in text
    assert "\u202e" not in text
