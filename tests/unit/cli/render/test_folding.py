"""Rows that followed one another and ended alike become one; a refusal or a doubt never does."""

from __future__ import annotations

import pytest

from counterfoil.cli.render.model import Fold, Pair
from tests.unit.cli.invented import Story, words


@pytest.fixture
def story() -> Story:
    return Story()


def lookups(story: Story, number: int, outcome: str = "succeeded", first: int = 0) -> None:
    for place in range(first, first + number):
        effect = f"eff_01J9ZC3Y3V7W2R5T8QK4M6N{place:03d}"
        story.intended(doubt="repeat", effect_id=effect, tool="order.lookup")
        story.observed(outcome, effect_id=effect)


def test_equal_rows_become_one_that_counts_them(story):
    lookups(story, 6)
    assert "order.lookup × 6 all ✓ succeeded · 1 to 12" in words(story.text())


def test_two_equal_rows_stay_two(story):
    lookups(story, 2)
    assert len(story.timeline().rows) == 2


def test_nothing_is_folded_when_everything_is_asked_for(story):
    lookups(story, 6)
    assert len(story.timeline(folded=False).rows) == 6


def test_a_failure_inside_a_stretch_stays_visible(story):
    lookups(story, 3)
    lookups(story, 1, "failed", first=3)
    lookups(story, 3, first=4)
    rows = story.timeline().rows
    assert [type(row) for row in rows] == [Fold, Pair, Fold]
    assert "✗ FAILED" in story.text()


def test_a_doubt_inside_a_stretch_stays_whole(story):
    lookups(story, 3)
    story.intended(effect_id="eff_01J9ZC3Y3V7W2R5T8QK4M6N999")
    lookups(story, 3, first=4)
    story.later(60_000)
    text = story.text()
    assert text.count("◆? IN DOUBT") == 1
    assert "counterfoil recover" in text


def test_doubts_that_are_alike_are_never_folded(story):
    for place in range(5):
        story.intended(doubt="repeat", effect_id=f"eff_01J9ZC3Y3V7W2R5T8QK4M6N{place:03d}")
    story.later(60_000)
    assert story.text().count("◆? IN DOUBT") == 5


def test_refused_lines_that_are_alike_are_never_folded(story):
    for line in range(5):
        story.add("record.refused", {"line": line, "offset": 0, "cause": "json"}, {}, run=None)
    assert story.text().count("line refused") == 5


def test_records_of_one_kind_are_folded(story):
    for _ in range(4):
        story.add("record.imported", {"kind": "custom"}, {}, run=None)
    assert "record custom × 4 · 1 to 4" in words(story.text())
