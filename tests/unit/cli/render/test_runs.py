"""Rows of runs, steps, inputs and imported records."""

from __future__ import annotations

import pytest

from counterfoil.core.catalogue import EVENT_TYPES
from tests.unit.cli.invented import EFFECT, REVIEW, Story, words

STEP = "stp_01J9ZC3Y3V7W2R5T8QK4M6N0PT"


@pytest.fixture
def story() -> Story:
    return Story()


def step(
    story: Story, kind: str = "tool", name: str = "read", outcome: str | None = "ok", **content: object
) -> None:
    data = {"kind": kind, "name": name, "memo": "0" * 32}
    story.add("step.started", data, {"input": {"path": "a.txt"}}, step=STEP)
    if outcome is not None:
        story.add(
            "step.finished",
            data | {"outcome": outcome, "duration_ms": 8},
            content or {"result": 1},
            step=STEP,
        )


# ---- runs --------------------------------------------------------------------------------------------------------


def test_a_take_over_names_both_fencing_tokens(story):
    story.add(
        "run.claimed",
        {"previous_token": 7, "fencing_token": 8, "cause": "takeover"},
        {"host": "b", "process": 5},
    )
    text = words(story.text())
    assert "taken over token 7 → 8" in text
    assert "worker b:5" in text


def test_a_suspension_says_for_what_and_a_resumption_after_how_long(story):
    story.add(
        "run.suspended", {"cause": "review", "waits_for": [REVIEW]}, {"note": "an effect has no outcome yet"}
    )
    story.later(762_000).add("run.resumed", {"cause": "review", "waits_for": [REVIEW]})
    text = words(story.text())
    assert f"‖ suspended waits for a person to settle a review · {REVIEW}" in text
    assert "resumed after 12 min 42 s" in text


def test_the_wait_between_them_is_a_pause_that_says_for_what(story):
    story.add("run.suspended", {"cause": "review", "waits_for": [REVIEW]})
    story.later(762_000).add("run.resumed", {"cause": "review", "waits_for": [REVIEW]})
    (gap,) = story.gaps()
    assert (gap.length_ms, gap.words) == (762_000, "waited for a person to settle a review")


def test_an_idle_stretch_is_shown_as_one(story):
    story.add("run.started", {"agent": "a", "fencing_token": 1})
    story.later(780_000).add("run.finished", {"terminal": "success", "calls": 0})
    assert "┆ 13 min idle" in story.text()


def test_a_short_pause_is_not_shown(story):
    story.add("run.started", {"agent": "a", "fencing_token": 1})
    story.later(59_999).add("run.finished", {"terminal": "success", "calls": 0})
    assert story.gaps() == []


TERMINALS = [
    ("success", "✓ success", "good"),
    ("superseded", "– superseded", "plain"),
    ("timeout", "✗ timeout", "failure"),
]


@pytest.mark.parametrize("terminal, shown, style", TERMINALS)
def test_the_end_of_a_run_is_told_with_a_glyph_and_its_word(story, terminal, shown, style):
    tally = {
        "steps": 1,
        "calls": 2,
        "input_tokens": 3212,
        "output_tokens": 412,
        "cost": "0.31",
        "currency": "EUR",
    }
    story.add("run.finished", {"terminal": terminal, **tally})
    assert f"run finished {shown} · 2 model calls · 3,212 in, 412 out · 0.31 EUR" in words(story.text())
    assert story.notes()[0].detail[0].style == style


def test_the_error_that_ended_a_run_stands_below_its_end(story):
    story.add(
        "run.finished",
        {"terminal": "runtime_failure", "calls": 0},
        {"error": {"class": "ValueError", "message": "a\x1b"}},
    )
    assert "ValueError: a⟨ESC⟩" in story.text()


# ---- steps -------------------------------------------------------------------------------------------------------


def test_a_model_call_is_one_row_of_four_events(story):
    call = {"call_id": "cal_01J9ZC3Y3V7W2R5T8QK4M6N0PT", "provider": "acme"}
    data = {"kind": "model", "name": "acme-large", "memo": "0" * 32}
    story.add("step.started", data, {}, step=STEP)
    story.add("provider.requested", {**call, "model": "acme-large", "purpose": "primary"}, {}, step=STEP)
    usage = {"finish": "stop", "input_tokens": 3212, "output_tokens": 412, "cost": "0.014", "currency": "EUR"}
    story.add("provider.responded", {**call, **usage}, {"body": {"text": "I refund it."}}, step=STEP)
    story.add("step.finished", data | {"outcome": "ok", "duration_ms": 2900}, {}, step=STEP)
    (note,) = story.notes()
    assert (note.sequence, note.last, note.events) == (1, 4, 4)
    assert "model acme-large · 3,212 in, 412 out · 0.014 EUR · 2.9 s “I refund it.”" in words(story.text(100))


def test_an_attempt_that_failed_stays_visible_in_the_row_of_its_call(story):
    story.add("step.started", {"kind": "model", "name": "m", "memo": "0" * 32}, {}, step=STEP)
    failed = {"provider": "acme", "error_class": "Overloaded", "status": 529, "retryable": True}
    story.add("provider.failed", failed, {"message": "try later"}, step=STEP, attempt=1)
    assert "✗ attempt 1 Overloaded 529: try later" in story.text()


def test_a_step_of_code_shows_its_arguments_its_end_and_how_long_it_took(story):
    data = {"kind": "code", "name": "plan", "memo": "0" * 32}
    story.add("step.started", data, {"input": {"args": [5], "kwargs": {}}}, step=STEP)
    story.add("step.finished", data | {"outcome": "ok", "duration_ms": 8}, {"result": 1}, step=STEP)
    assert "plan 5 · 8 ms ✓ ok" in words(story.text(100))


def test_how_a_step_ended_is_shown_however_long_its_arguments_are(story):
    data = {"kind": "tool", "name": "write", "memo": "0" * 32}
    story.add("step.started", data, {"input": {f"part{n}": "x" * 60 for n in range(20)}}, step=STEP)
    story.add("step.finished", data | {"outcome": "ok"}, {"result": 1}, step=STEP)
    rows = story.text(80).split("\n")
    assert rows[-1].endswith("┊ ✓ ok")
    assert len(rows) == 3


def test_a_failed_step_says_so_and_why_on_a_line_of_its_own(story):
    step(story, outcome="error", error={"class": "KeyError", "message": "order"})
    assert "✗ error" in story.text()
    assert "KeyError: order" in story.text()


def test_a_step_of_a_run_that_ended_without_it_did_not_end(story):
    step(story, outcome=None)
    story.add("run.finished", {"terminal": "interrupted", "calls": 0})
    assert "did not end" in story.text()


def test_a_step_that_was_begun_again_is_one_row_that_says_so(story):
    step(story, outcome=None)
    step(story)
    (note,) = story.notes()
    assert "begun again" in note.below[0].text


# ---- transcripts -------------------------------------------------------------------------------------------------


def test_a_call_without_a_result_says_that_none_is_recorded_and_needs_nobody(story):
    data = {"kind": "tool", "name": "~0123456789abcdef", "memo": "0" * 32}
    story.add("step.started", data, {"name": "bash", "input": {"command": "ls"}}, run=None, step=STEP)
    assert 'bash command "ls" no result recorded' in words(story.text())
    assert "◆?" not in story.text()


def test_a_result_without_a_call_is_shown_with_its_flag(story):
    data = {"kind": "tool", "name": "~0123456789abcdef", "memo": "0" * 32, "outcome": "ok"}
    story.add(
        "step.finished", data, {"name": "bash", "result": "x", "flags": ["no_call"]}, run=None, step=STEP
    )
    assert "bash [no call] ✓ ok" in words(story.text())


def test_user_and_assistant_are_told_by_what_they_said(story):
    user = {"type": "user", "id": "dk_01J9ZC3Y3V7W2R5T8QK4M6N0PK"}
    story.add(
        "admission.accepted", {}, {"message": [{"type": "text", "text": "hello"}]}, run=None, actor=user
    )
    story.add(
        "provider.responded", {"finish": "stop"}, {"message": "good day", "model": "acme-large"}, run=None
    )
    text = words(story.text())
    assert "▷ user hello" in text
    assert "◁ assistant good day · acme-large" in text


def test_an_answer_without_text_says_so_and_is_never_empty(story):
    story.add(
        "provider.responded",
        {"finish": "tools"},
        {"message": [{"type": "toolCall", "name": "read"}]},
        run=None,
    )
    assert words(story.text()).endswith("◁ assistant no text")


def test_a_later_line_of_a_message_is_said_by_the_assistant_too(story):
    story.add(
        "record.imported",
        {"kind": "response_part"},
        {"message": [{"type": "text", "text": "and so on"}]},
        run=None,
    )
    assert "◁ assistant and so on" in words(story.text())


def test_a_refused_line_is_told_with_place_and_cause(story):
    story.add(
        "record.refused",
        {"line": 7, "offset": 812, "cause": "json"},
        {"bytes": {"$bytes": "eA=="}, "note": "cut off"},
        run=None,
    )
    assert "✗ line refused line 7, byte 812: json · cut off · 1 byte 78" in words(story.text())


def test_rows_of_a_transcript_bear_the_times_of_the_transcript(story):
    story.add("record.imported", {"kind": "session"}, {}, run=None)
    story.events[0].recorded_at_ms += 86_400_000
    assert "2026-09-01 UTC" in story.text(by_occurred=True)
    assert "2026-09-02 UTC" in story.text()


# ---- inputs ------------------------------------------------------------------------------------------------------


def test_a_refused_input_is_red_and_says_why(story):
    story.add("admission.rejected", {"cause": "policy"}, {"message": "again"}, run=None)
    assert "⊘ input rejected because of policy · again" in words(story.text())
    assert story.notes()[0].style == "failure"


# ---- everything else -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event_type", sorted(EVENT_TYPES))
def test_every_event_type_has_a_row_even_with_no_field_that_is_expected(story, event_type):
    story.add(event_type, {"odd": "value"}, {"odd": "content"})
    assert story.timeline().events == 1
    assert len(story.text().split("\n")) >= 2


def test_a_type_nobody_knows_is_shown_by_its_public_fields(story):
    story.add("x.canvas.drawn", {"shape": "circle"}, {})
    assert "x.canvas.drawn shape circle" in words(story.text())


def test_a_damaged_record_says_why_and_its_neighbours_are_shown(story):
    story.add("run.started", {"agent": "a", "fencing_token": 1})
    story.add("effect.intended", {}, fault="the header is no JSON")
    story.add("run.finished", {"terminal": "success", "calls": 0})
    text = words(story.text())
    assert "✗ damaged record effect.intended: the header is no JSON" in text
    assert "run started" in text
    assert "run finished" in text


def test_nobody_is_needed_in_a_story_without_doubt(story):
    story.add("run.started", {"agent": "a", "fencing_token": 1})
    step(story)
    story.intended()
    story.observed()
    story.add("run.finished", {"terminal": "success", "calls": 0})
    assert "◆?" not in story.text()
    assert EFFECT not in story.text()
