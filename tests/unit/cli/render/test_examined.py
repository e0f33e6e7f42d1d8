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


@pytest.mark.parametrize("width", [80, 100, 200])
def test_what_is_wrong_is_wrapped_and_never_cut_short(width):
    means = "the key-encryption key /srv/shop/kek/kek_01M8QG84P8VES0APENR7GW52AV is not at hand: No such file"
    found = [
        Finding("keys", "keys", "bad", None, "", means),
        Finding("epoch", "keys", "ok", "kek_01M8QG84P8VES0APENR7GW52AV", "", ""),
    ]
    lines = [line.text for line in finding_lines(found, width, "")]
    assert not any("…" in line for line in lines)
    assert "".join("".join(lines[1:-1]).split()).replace("✗keys–", "") == means.replace(" ", "")
    assert all(len(line) <= width for line in lines)


def test_what_is_well_takes_one_line_so_that_a_healthy_ledger_fits_a_screen():
    assert len(finding_lines([Finding("tail", "store", "ok", 8, "count", "w " * 90)], 80, "")) == 2
