"""Content states are five words with five looks; there is never an empty value."""

from __future__ import annotations

import pytest

from counterfoil.cli.render.content import LOOKS
from counterfoil.cli.render.exact import STATES, event_line, event_lines
from tests.unit.cli.invented import EFFECT, Story, words

GONE = sorted(LOOKS)


@pytest.fixture
def story() -> Story:
    return Story()


def test_the_states_of_content_have_looks_and_words_that_differ():
    assert len({text for text, _ in LOOKS.values()}) == 4
    assert set(LOOKS) | {"none", "present"} == set(STATES)
    assert len(set(STATES.values())) == len(STATES)


@pytest.mark.parametrize("state", GONE)
def test_what_was_said_is_told_by_its_state_when_it_is_gone(story, state):
    story.add("admission.accepted", {}, state=state, run=None)
    assert LOOKS[state][0] in story.text()


@pytest.mark.parametrize("state", GONE)
def test_arguments_and_results_are_told_by_their_state_when_they_are_gone(story, state):
    data = {"effect_id": EFFECT, "tool": "payment.refund", "tool_version": "1", "doubt": "key"}
    story.add("effect.intended", data, state=state)
    story.add("effect.observed", {"effect_id": EFFECT, "outcome": "succeeded", "source": "call"}, state=state)
    said = words(story.text())
    assert f"arguments {LOOKS[state][0]}" in said
    assert f"result {LOOKS[state][0]}" in said


@pytest.mark.parametrize("state", GONE)
def test_one_event_says_the_state_of_its_content_in_words_and_why(story, state):
    event = story.add("state.set", {"slot": "case"}, state=state)
    text = "\n".join(line.text for line in event_lines(event, 100))
    assert STATES[state] in text
    assert f"it is {state}" in text


@pytest.mark.parametrize("state", GONE)
def test_a_list_of_events_says_which_content_is_gone(story, state):
    event = story.add("state.set", {"slot": "case"}, state=state)
    line = event_line(event, 60)
    assert line.text.endswith(LOOKS[state][0])
    assert line.width <= 60


def test_a_person_whose_name_is_erased_is_still_a_person(story):
    story.intended(doubt="review")
    story.add(
        "effect.settled", {"effect_id": EFFECT, "review_id": "rev_x", "outcome": "failed"}, state="erased"
    )
    assert "by a person whose name is erased" in words(story.text())


def test_one_event_shows_content_whole_and_marked(story):
    event = story.add("state.set", {"slot": "case"}, {"value": "a\x1b\u202e\ud99c", "big": 2**80})
    text = "\n".join(line.text for line in event_lines(event, 100))
    assert str(2**80) in text
    assert "⟨RLO⟩⟨U+D99C⟩" in text
    assert "\x1b" not in text
