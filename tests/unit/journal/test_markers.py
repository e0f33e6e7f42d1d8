from __future__ import annotations

import json
from types import SimpleNamespace
from typing import get_args

import pytest

from counterfoil.errors import InvalidForm
from counterfoil.journal import MarkerKind, ResultMarkers
from counterfoil.journal.markers import TEXTS_MAX, Marker

TEXT = "Sorry, a colleague has to look at this first."


def test_a_result_of_the_tools_own_is_no_marker():
    assert ResultMarkers().find({"status": "ok"}) is None


@pytest.mark.parametrize("kind", get_args(MarkerKind))
def test_a_registered_text_has_its_kind(kind):
    markers = ResultMarkers()
    assert markers.register(TEXT, kind) == TEXT
    assert markers.find(TEXT) == Marker(kind)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda text: json.dumps({"error": text}),
        lambda text: {"content": [{"type": "text", "text": text}], "isError": True},
        lambda text: [text],
        lambda text: SimpleNamespace(text=text),
        lambda text: json.dumps({"content": [{"text": json.dumps({"why": text})}]}),
    ],
    ids=["json text", "MCP result", "list", "object with text", "json in json"],
)
def test_a_registered_text_is_known_when_it_is_wrapped(wrap):
    markers = ResultMarkers()
    markers.register(TEXT, "approval_parked", request="apr-7")
    assert markers.find(wrap(TEXT)) == Marker("approval_parked", "apr-7")


def test_a_text_nobody_registered_is_judged_by_its_wording():
    assert ResultMarkers().find("Tool budget exhausted: 20 calls") == Marker("tool_budget")
    assert ResultMarkers({"Nope": "hook"}).find("Nope, not today") == Marker("hook")


def test_what_was_registered_comes_before_the_wording():
    markers = ResultMarkers()
    markers.register("Blocked by hook: budget", "tool_budget")
    assert markers.find("Blocked by hook: budget") == Marker("tool_budget")


def test_a_text_inside_a_longer_one_is_the_tools_own():
    markers = ResultMarkers()
    markers.register(TEXT, "guard")
    assert markers.find(f"The mail says: {TEXT}") is None


def test_an_unknown_kind_and_an_empty_text_are_refused():
    with pytest.raises(InvalidForm):
        ResultMarkers().register(TEXT, "mood")  # type: ignore[arg-type]
    with pytest.raises(InvalidForm):
        ResultMarkers().register(" ", "guard")


def test_the_oldest_text_is_forgotten_beyond_the_bound():
    markers = ResultMarkers()
    for number in range(TEXTS_MAX + 1):
        markers.register(f"text {number}", "guard")
    assert markers.find("text 0") is None
    assert markers.find(f"text {TEXTS_MAX}") == Marker("guard")


@pytest.mark.parametrize(
    "result", [b"\xff", 7, None, float("nan"), "{" * 5000, [[[[]]]], {"a": ...}], ids=repr
)
def test_odd_results_are_the_tools_own(result):
    assert ResultMarkers().find(result) is None


def test_a_result_that_holds_itself_ends():
    loop: list[object] = []
    loop.append(loop)
    assert ResultMarkers().find(loop) is None
