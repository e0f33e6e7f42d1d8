"""A figure keeps its budget or misses it, and says so to people and programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterfoil.bench.figures import Budget, Figure, machine, percentile
from counterfoil.bench.report import Result, shown, verdict

AT_LEAST, AT_MOST = Budget(at_least=0.7), Budget(at_most=20)

JUDGED = {
    "above the least": (AT_LEAST, 0.8, True),
    "at the least": (AT_LEAST, 0.7, True),
    "below the least": (AT_LEAST, 0.69, False),
    "below the most": (AT_MOST, 3, True),
    "at the most": (AT_MOST, 20, True),
    "above the most": (AT_MOST, 20.1, False),
}


def figure(value: float, budget: Budget | None = None) -> Figure:
    return Figure("a.b", "a figure", value, "µs", budget)


@pytest.mark.parametrize("case", JUDGED)
def test_a_value(case: str):
    budget, value, kept = JUDGED[case]
    assert figure(value, budget).met is kept
    assert verdict(figure(value, budget)) == ("kept" if kept else "MISSED")


def test_a_figure_without_a_budget_is_never_missed():
    assert figure(1e9).met
    assert verdict(figure(1e9)) == ""


def test_programs_are_told_the_limit_and_the_verdict():
    assert figure(21, AT_MOST).to_json() == {
        "name": "a.b",
        "what": "a figure",
        "value": 21,
        "unit": "µs",
        "budget": {"at_most": 20},
        "met": False,
    }


def test_a_result_names_what_is_missed():
    good, bad = figure(1, AT_MOST), Figure("c.d", "another", 0.1, "×", AT_LEAST)
    result = Result({"x": [good], "y": [bad]}, {}, quick=True, seconds=1.25)
    assert result.missed == ["c.d"]
    assert result.to_json()["quick"] is True


@pytest.mark.parametrize(
    "value, text",
    [(0, "0 µs"), (1.234, "1.23 µs"), (12.34, "12.3 µs"), (123456.7, "123,457 µs")],
    ids=str,
)
def test_a_value_is_shown_with_the_digits_that_mean_something(value: float, text: str):
    assert shown(figure(value)) == text


def test_the_99th_percentile_is_the_value_that_one_in_a_hundred_exceeds():
    assert percentile([float(n) for n in range(100, 0, -1)], 0.99) == 100
    assert percentile([7.0], 0.99) == 7


def test_the_machine_is_described_and_nothing_is_left_behind(tmp_path: Path):
    facts = machine(tmp_path)
    assert {"python", "sqlite", "processors", "load", "fsync_us"} <= facts.keys()
    assert list(tmp_path.iterdir()) == []
