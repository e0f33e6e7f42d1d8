"""Saved figures become a table and a picture that says in words what it shows."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tools import figures

TOLD = {
    "machine": {"processors": 2, "fsync_us": 150.4, "python": "3.11.7", "sqlite": "3.40.1", "load": 3.2, "load_after": 2.9},
    "seconds": 200.0,
    "durable": [
        {"peer": "the server", "server_version": "18.6 (x)", "fsync": "on"},
        {"peer": "dbos 3.4.0", "synchronous": 2},
        {"peer": "dbos 3.4.0", "fsync": "on"},
    ],
    "figures": [
        {"name": "append.lone", "what": "of the raw <loop>'s speed", "value": 0.68, "unit": "×", "budget": {"at_least": 0.7}, "met": False},
        {"name": "effect.pair", "what": "in plain INSERTs", "value": 5.7, "unit": "×", "budget": {"at_most": 3.5}, "met": False},
        {"name": "dbos.step", "what": "an effect, one step of DBOS", "value": 40.0, "unit": "×"},
        {"name": "append.rate", "what": "appends", "value": 3000.0, "unit": "events/s"},
    ],
}  # fmt: skip


def test_the_table_has_every_ratio_with_its_budget_and_verdict_in_words():
    rows = [line for line in figures.table(TOLD) if line.startswith("| `")]
    assert rows == [
        "| `append.lone` | of the raw <loop>'s speed | 0.68 × | ≥ 0.7 | **missed** |",
        "| `effect.pair` | in plain INSERTs | 5.70 × | ≤ 3.5 | **missed** |",
        "| `dbos.step` | an effect, one step of DBOS | 40.0 × |  |  |",
    ]


def test_the_machine_and_its_load_stand_under_the_table():
    line = figures.machine_line(TOLD)
    assert "PostgreSQL 18.6, dbos 3.4.0." in line
    assert "load was 3.2 before and 2.9 after" in line
    assert "other work ran beside it" in line


def test_a_quiet_machine_is_not_called_busy():
    assert "other work" not in figures.machine_line(TOLD | {"machine": TOLD["machine"] | {"load": 0.3}})


def test_the_picture_is_well_formed_and_says_what_it_shows():
    root = ET.fromstring(figures.picture(figures.speeds(TOLD)))
    name = "{http://www.w3.org/2000/svg}"
    described = root.find(f"{name}desc").text
    assert (
        described
        == "append.lone (of the raw <loop>'s speed): 0.68 times; dbos.step (an effect, one step of DBOS): 40.0 times"
    )
    assert len(root.findall(f"{name}rect")) == 2
    assert len([line for line in root.findall(f"{name}line") if line.get("class") == "budget"]) == 1


def test_what_costs_more_is_no_speed():
    assert [figure["name"] for figure in figures.speeds(TOLD)] == ["append.lone", "dbos.step"]


@pytest.mark.parametrize(
    "value, there", [(1, figures.across(1)), (10_000, figures.LEFT + figures.WIDTH), (0.0001, figures.LEFT)]
)
def test_the_axis_ends_where_the_picture_does(value, there):
    assert figures.across(value) == pytest.approx(there)


def test_the_page_keeps_what_is_around_its_table():
    text = f"before\n{figures.START}\nstale words\n{figures.END}\nafter\n"
    once = figures.with_table(text, TOLD)
    assert once.startswith("before\n")
    assert once.endswith("after\n")
    assert "stale words" not in once
    assert figures.with_table(once, TOLD) == once


def test_a_page_that_lost_the_lines_around_its_table_is_refused():
    with pytest.raises(ValueError, match="has lost the lines"):
        figures.with_table("nothing", TOLD)


def test_without_saved_figures_nothing_is_written(tmp_path: Path):
    assert figures.figure_pages(tmp_path) == {}
