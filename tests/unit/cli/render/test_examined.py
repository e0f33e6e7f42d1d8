"""Findings for people: hostile text stays text, and sizes and ages are in words."""

from __future__ import annotations

import pytest

from counterfoil.cli.render.examined import finding_lines
from counterfoil.client.finding import Finding


def printed(finding: Finding) -> str:
    return "\n".join(line.text for line in finding_lines([finding], 200, " --ledger x"))


def test_hostile_text_moves_no_cursor():
    hostile = "a\x1b[2J\nb"
    text = printed(Finding("keys", "keys", "bad", hostile, "", hostile, hostile))
    assert "\x1b" not in text
    assert len(text.splitlines()) == 3


def test_only_commands_of_the_ledger_are_given_its_place():
    assert "counterfoil recover --ledger x" in printed(
        Finding("oldest doubt", "work", "warn", 1, "ms", "", "counterfoil recover")
    )
    assert "--ledger" not in printed(Finding("free space", "store", "bad", 1, "bytes", "", "make room"))


@pytest.mark.parametrize(
    "value, unit, words",
    [(0, "ms", "0 ms"), (1_000, "count", "1,000"), (1 << 21, "bytes", "2 MiB"), (5, "bytes", "5 bytes")],
)
def test_a_value_is_told_in_its_unit(value, unit, words):
    assert words in printed(Finding("x", "store", "ok", value, unit, ""))


def test_a_lower_bound_is_called_one():
    assert "at least 7" in printed(Finding("holds", "work", "warn", 7, "count", "", at_least=True))
