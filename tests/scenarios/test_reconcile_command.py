"""``counterfoil reconcile``: a provider's book on the command line, for people, for programs, and when it is damaged."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import pytest

import counterfoil
from counterfoil.effects.registry import own_tools
from tests.command import Printed, Shell

BY_KEY = ("reconcile", "--tool", "payment.refund", "--key-column", "key", "--amount-column", "amount")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A ledger in which O-1 was refunded, and nobody knows of O-2."""
    made = Shell(tmp_path)
    with own_tools(), made.open() as ledger:

        @counterfoil.effect(
            "payment.refund",
            version="1",
            touches={"money"},
            key=lambda order, **_: f"refund:{order}",
            doubt=counterfoil.by_review(),
        )
        def refund(order: str, amount: Decimal) -> str:
            if order == "O-2":
                raise ConnectionError("sent, or not?")
            return "done"

        for order in ("O-1", "O-2"):
            with suppress(counterfoil.RunWaiting), ledger.run("agent", conversation=order, dedupe=order):
                refund(order, Decimal("40.00"))
    return made


def compare(shell: Shell, text: str | bytes, *words: str, name: str = "book.csv") -> Printed:
    book = shell.directory / name
    book.write_bytes(text.encode() if isinstance(text, str) else text)
    return shell(*BY_KEY, "--from", str(book), *words)


def test_what_differs_is_told_first_and_is_a_conflict(shell):
    done = compare(shell, "key,amount\nrefund:O-1,400\nrefund:O-9,1\n")
    assert done.code == 4
    for part in (
        "amounts differ",
        "40.00",
        "400",
        "there and not here",
        "refund:O-9",
        "in doubt here, and not there",
    ):
        assert part in done.out


def test_what_is_only_in_doubt_is_undecided_and_settled_when_a_person_says_so(shell):
    text = "key,amount\nrefund:O-1,40\nrefund:O-2,40\n"
    done = compare(shell, text)
    assert (done.code, "--settle --by NAME records it" in done.out) == (3, True)
    assert compare(shell, text, "--settle").code == 64
    done = compare(shell, text, "--settle", "--by", "Ines")
    assert (done.code, "1 effect recorded as succeeded" in done.out) == (0, True)
    assert compare(shell, text).code == 0
    assert shell("review", "ls", "--json").lines == []


def test_programs_get_counts_findings_and_what_was_settled(shell):
    told = compare(
        shell, '{"key":"refund:O-1","amount":4000}\n', "--minor-units", "2", "--json", name="b.jsonl"
    ).json
    assert told["counts"] == {"matched": 1, "in_doubt": 1}
    (finding,) = told["findings"]
    assert (finding["kind"], finding["lines"], finding["state"]) == ("in_doubt", [], "in_review")
    assert told["book"]["entries"] == 1


@pytest.mark.parametrize(
    "text,line",
    [
        (b"key,amount\nrefund:O-1,40\nrefund\xff,1\n", 3),
        ('key,amount\nrefund:O-1,40\n"refund:O-2,40\n', 3),
        ("key,key,amount\n", 1),
        ("number,amount\n", 1),
    ],
    ids=["encoding", "quote", "twice", "no such column"],
)
def test_a_damaged_book_is_refused_with_its_line(shell, text, line):
    done = compare(shell, text, "--settle", "--by", "Ines", "--json")
    assert (done.code, done.json["error"]["code"], done.json["error"]["fields"]["line"]) == (
        65,
        "book_invalid",
        line,
    )
    assert len(shell("review", "ls", "--json").lines) == 1


def test_hostile_cells_are_shown_with_marks(shell):
    done = compare(shell, "key,amount\n\x1b[2J=HYPERLINK(1),1\n")
    assert done.code == 4
    assert "\x1b" not in done.out
    assert "=HYPERLINK(1)" in done.out


def test_a_book_is_named_once_and_its_period_is_a_time(shell):
    book = shell.directory / "book.csv"
    book.write_text("key,amount\n")
    assert shell(*BY_KEY).code == 64
    assert shell(*BY_KEY, str(book), "--from", str(book)).code == 64
    assert shell(*BY_KEY, str(book), "--since", "yesterday").code == 64
    assert shell(*BY_KEY, str(book), "--since", "2000-01-01", "--until", "2000-02-01").code == 0
    assert shell(*BY_KEY, str(shell.directory / "nowhere.csv")).code == 66
