"""``counterfoil show``: conversations and runs as timelines, effects as pairs, events exactly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from counterfoil.core.event import read_header
from tests.command import Shell, in_review, killed, refunded
from tests.unit.cli.invented import right_half, words


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


# ---- timelines ---------------------------------------------------------------------------------------------------


def test_a_conversation_is_shown_from_its_opening_to_the_end_of_its_run(shell):
    refunded(shell)
    done = shell("show", "case-8472")
    assert done.code == 0
    text = words(done.out)
    for part in (
        "Conversation case-8472",
        "▷ user My kettle is broken.",
        "● run started refund-agent · token 1",
        "○ model scripted-1",
        "“I refund line 1.”",
        "■ run finished ✓ success",
        "events 1 to 11 of 11",
    ):
        assert part in text
    assert "✓ SUCCEEDED" in right_half(done.out)


def test_a_run_is_shown_by_its_id(shell):
    refunded(shell)
    (run,) = shell("ls", "runs", "--json").lines
    done = shell("show", run["run_id"])
    assert "Run of case-8472 ✓ success" in words(done.out)
    assert "conversation" not in done.out


def test_a_doubt_stands_above_the_timeline_and_in_it(shell):
    review = in_review(shell)
    shell.clock.advance(8_040_000)
    done = shell("show", "case-8473")
    assert "◆? carrier.book_pickup in review, sent 2 h 14 min ago" in done.out.partition("UTC")[0]
    assert "◆? IN DOUBT for 2 h 14 min" in done.out
    assert "The call broke off: ConnectionError: connection reset by peer" in right_half(done.out)
    assert f"counterfoil review show {review} --ledger {shell.place}" in words(done.out.replace("\\\n", ""))


def test_a_doubt_outside_the_stretch_is_shown_above_it(shell):
    in_review(shell)
    done = shell("show", "case-8473", "--after", "0", "--limit", "2")
    assert "◆? carrier.book_pickup in review" in done.out
    assert "more: counterfoil show" in done.out


def test_a_long_conversation_is_shown_from_near_its_end_and_says_how_to_begin_earlier(shell):
    refunded(shell)
    done = shell("show", "case-8472", "--limit", "3")
    assert "events 9 to 11 of 11" in done.out
    assert "--after 0" in done.out
    assert "run finished" in done.out


def test_an_effect_that_ends_inside_the_stretch_has_its_stub_from_before_it(shell):
    refunded(shell)
    (effect,) = shell("ls", "effects", "--json").lines
    done = shell("show", "case-8472", "--after", str(effect["first_sequence"]))
    assert "payment.refund 2026-08-01" in words(done.out)
    assert "✓ SUCCEEDED" in done.out


def test_an_effect_is_shown_by_its_id(shell):
    refunded(shell)
    (effect,) = shell("ls", "effects", "--json").lines
    done = shell("show", effect["effect_id"])
    assert "payment.refund" in done.out
    assert "run started" not in done.out


def test_the_timeline_for_programs_has_rows_and_open_effects(shell):
    review = in_review(shell)
    told = shell("show", "case-8473", "--json").json
    assert told["conversation"]["name"] == "case-8473"
    assert [row["review_id"] for row in told["open_effects"]] == [review]
    (effect,) = [row for row in told["rows"] if row["row"] == "effect"]
    assert effect["state"] == "in_review"
    assert effect["doubt"]["commands"][0].startswith(f"counterfoil review show {review}")
    assert effect["observation"] is None


def test_events_are_listed_one_a_line(shell):
    refunded(shell)
    done = shell("show", "case-8472", "--events")
    listed = done.out.splitlines()
    assert "conversation.opened" in listed[0]
    assert "run.finished" in listed[10]


def test_events_for_programs_are_one_object_a_line_with_content(shell):
    refunded(shell)
    events = shell("show", "case-8472", "--events", "--json").lines
    assert [event["sequence"] for event in events] == list(range(1, 12))
    assert events[1]["content"]["message"] == "My kettle is broken."
    assert events[1]["content_state"] == "present"


def test_everything_that_was_said_is_written_out_when_it_is_asked_for(shell):
    refunded(shell, message="My kettle is broken.\nOrder O-1042.")
    assert "Order O-1042." not in shell("show", "case-8472").out
    assert "│ Order O-1042." in shell("show", "case-8472", "--full").out


def test_a_run_whose_worker_is_gone_says_so_and_how_it_goes_on(shell):
    killed(shell)
    text = words(shell("show", "case-9").out)
    assert "◌ A run is open and its worker is gone: running its code again resumes it." in text
    assert "◌ worker gone" in shell("ls").out
    assert "◌ worker gone" in shell("ls", "runs").out


# ---- one event -----------------------------------------------------------------------------------------------------


def test_one_event_is_shown_by_conversation_and_sequence_or_by_its_id(shell):
    refunded(shell)
    by_place = shell("show", "case-8472", "2")
    event = shell("show", "case-8472", "2", "--json").json
    assert by_place.out == shell("show", event["event_id"]).out
    assert "admission.accepted" in by_place.out
    assert event["hash"] in by_place.out


def test_the_exact_bytes_of_a_header_are_one_command_away(shell):
    refunded(shell)
    told = shell("show", "case-8472", "2", "--json").json
    exact = shell("show", told["event_id"], "--bytes").out
    assert read_header(exact.encode()).event_id == told["event_id"]
    assert json.loads(exact) == told["header"]


def test_bytes_are_for_one_event(shell):
    refunded(shell)
    assert shell("show", "case-8472", "--bytes").code == 64


def test_a_system_stream_is_shown_by_its_kind(shell):
    refunded(shell)
    done = shell("show", "system/keys", "--events")
    assert "keys.rotated" in done.out


# ---- what is not there -------------------------------------------------------------------------------------------

UNKNOWN = {
    "a conversation": ["nobody"],
    "a run": ["run_01J9ZC3Y3V7W2R5T8QK4M6N0PR"],
    "an effect": ["eff_01J9ZC3Y3V7W2R5T8QK4M6N0PF"],
    "an event": ["evt_01J9ZC3Y3V7W2R5T8QK4M6N0PE"],
    "a stream": ["str_01J9ZC3Y3V7W2R5T8QK4M6N0PS"],
    "a place": ["case-8472", "99"],
    "a system stream": ["system/seals"],
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_there_is_not_found_and_the_error_says_where_to_look(shell, name):
    refunded(shell)
    done = shell("show", *UNKNOWN[name])
    assert (done.code, done.out) == (66, "")
    assert "exit code 66" in done.err


def test_a_ledger_that_is_not_there_is_not_made_by_looking(shell):
    done = shell("show", "case-8472")
    assert done.code == 66
    assert not shell.place.exists()
