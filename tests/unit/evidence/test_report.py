"""The report as data: verdict, exit code, places in words, plain values for programs."""

from __future__ import annotations

import json

import pytest

from counterfoil.evidence.report import Counts, Finding, Keys, Report, Tail


def report(**more):
    members = {
        "ledger": "ldg_01J9ZC3Y3V7W2R5T8QK4M6N0PG",
        "level": "content",
        "require": "A0",
        "grade": "A0",
        "counts": Counts(streams=3),
        "keys": Keys(state="not_given"),
        "tail": Tail(),
    }
    return Report(**{**members, **more})


@pytest.mark.parametrize(
    "kinds,grade,require,code",
    [
        ({}, "A0", "A0", 0),
        ({}, "A0", "A1", 2),
        ({}, "A2", "A1", 0),
        ({}, None, "A0", 2),
        ({"unknown_format": 1}, None, "A0", 2),
        ({"edited": 1}, "A0", "A0", 1),
        ({"edited": 1, "unknown_format": 1}, None, "A4", 1),
    ],
)
def test_the_exit_code_says_broken_before_it_says_below(kinds, grade, require, code):
    assert report(kinds=kinds, grade=grade, require=require).exit_code == code


def test_streams_that_are_broken_or_unread_are_not_intact():
    assert report(broken_streams=1, unread_streams=1).intact_streams == 1


@pytest.mark.parametrize(
    "place,words",
    [
        ({}, "ledger"),
        ({"stream_id": "str_x"}, "str_x"),
        ({"stream_id": "str_x", "sequence": 0}, "str_x genesis"),
        ({"stream_id": "str_x", "sequence": 4}, "str_x event 4"),
        ({"stream_id": "str_x", "sequence": 4, "through": 4}, "str_x event 4"),
        ({"stream_id": "str_x", "sequence": 4, "through": 9}, "str_x events 4 to 9"),
    ],
)
def test_a_finding_says_where_in_words(place, words):
    assert Finding(kind="edited", what="x", **place).where == words


def test_the_report_is_plain_values_with_the_verdict_first():
    found = (Finding(kind="edited", what="x", stream_id="str_x", sequence=1),)
    given = report(findings=found, kinds={"edited": 1}).to_json()
    assert list(given)[:2] == ["broken", "exit_code"]
    assert json.loads(json.dumps(given))["findings"][0]["sequence"] == 1
