"""``counterfoil review`` and ``recover``: what waits for a person, its settlement, and what recovery does and leaves."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from counterfoil.effects.registry import own_tools
from tests.command import Shell, declare_pickup, in_review, killed, lost, refunded
from tests.unit.cli.invented import right_half, words

SETTLE = ("--outcome", "succeeded", "--by", "Ines Arvold", "--reason", "asked the carrier by phone")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


# ---- reviews -----------------------------------------------------------------------------------------------------


def test_open_reviews_are_listed_with_tool_wait_and_why(shell):
    review = in_review(shell)
    shell.clock.advance(8_040_000)
    (row,) = [line for line in shell("review", "ls", width=170).out.splitlines() if review in line]
    for part in ("carrier.book_pickup", "◆? open", "2 h 14 min", "no lookup and no repeat-safe key"):
        assert part in row


def test_a_review_is_shown_with_all_that_is_known_and_is_undecided(shell):
    review = in_review(shell)
    shell.clock.advance(8_040_000)
    done = shell("review", "show", review)
    assert done.code == 3
    assert "◆? open for 2 h 14 min" in done.out
    assert "window 2 Sep, 08:00 to 12:00" in words(done.out)
    assert "It may or may not have happened." in right_half(done.out)
    assert f"counterfoil review settle {review}" in done.out


def test_a_settled_review_is_decided(shell):
    review = in_review(shell)
    assert shell("review", "settle", review, *SETTLE).code == 0
    done = shell("review", "show", review)
    assert done.code == 0
    assert "✎ settled as succeeded" in done.out
    assert "by Ines Arvold" in done.out
    assert shell("review", "ls", "--json").lines == []
    (row,) = shell("review", "ls", "--state", "settled", "--json").lines
    assert row["outcome"] == "succeeded"


def test_a_review_is_given_to_a_person_and_is_due(shell):
    review = in_review(shell)
    done = shell(
        "review", "assign", review, "--to", "Ada", "--by", "Ines", "--due", "4h", "--note", "call them"
    )
    assert done.code == 0
    assert "given to Ada, due" in done.out
    (row,) = shell("review", "ls", "--assignee", "Ada", "--json").lines
    assert row["review_id"] == review
    assert shell("review", "ls", "--overdue", "--json").lines == []
    shell.clock.advance(4 * 3_600_000 + 60_000)
    assert len(shell("review", "ls", "--overdue", "--json").lines) == 1
    assert "It is due" in shell("review", "show", review).out
    assert "1 min ago" in shell("review", "show", review).out
    told = shell("review", "assign", review, "--to", "Grace", "--by", "Ada", "--json").json
    assert (told["assignee"], told["due_at"]) == ("Grace", None)


def test_reviews_are_listed_by_what_they_are_about(shell):
    review = in_review(shell)
    kept = ["--tool", "carrier.book_pickup", "--cause", "by_review", "--unassigned"]
    assert [row["review_id"] for row in shell("review", "ls", *kept, "--json").lines] == [review]
    assert shell("review", "ls", "--tool", "other", "--json").lines == []


@pytest.mark.parametrize("due", ["4 hours", "2026-09-01T12:00", "99999999d", "tomorrow"])
def test_a_time_that_cannot_be_understood_is_refused(shell, due):
    review = in_review(shell)
    assert shell("review", "assign", review, "--to", "Ada", "--by", "Ines", "--due", due).code == 65


def test_a_settlement_says_what_goes_on_from_there(shell):
    review = in_review(shell)
    done = shell("review", "settle", review, *SETTLE)
    assert "never sent again" in done.out
    told = shell("review", "settle", review, *SETTLE, "--json").json
    assert (told["outcome"], told["repeated"]) == ("succeeded", True)


def test_the_result_of_a_settlement_is_what_the_run_gets(shell):
    review = in_review(shell)
    assert shell("review", "settle", review, *SETTLE, "--result", '{"pickup": "PU-1"}').code == 0
    with own_tools(), shell.open() as ledger:
        book_pickup = declare_pickup()
        with ledger.run("refund-agent", conversation="case-8473", message="Fetch it.", dedupe="case-8473"):
            assert book_pickup(order="O-1042", window="2 Sep, 08:00 to 12:00") == {"pickup": "PU-1"}


def test_another_settlement_is_a_conflict(shell):
    review = in_review(shell)
    shell("review", "settle", review, *SETTLE)
    done = shell("review", "settle", review, "--outcome", "failed", "--by", "Ines Arvold", "--reason", "no")
    assert done.code == 4
    assert "settled_already" in done.err


BAD = {
    "no name": (["--outcome", "failed", "--by", " ", "--reason", "x"], 64),
    "no outcome": (["--by", "Ines", "--reason", "x"], 64),
    "an outcome that is none": (["--outcome", "maybe", "--by", "Ines", "--reason", "x"], 64),
    "a result that is no JSON": (
        ["--outcome", "succeeded", "--by", "Ines", "--reason", "x", "--result", "{"],
        65,
    ),
    "a result without success": (
        ["--outcome", "failed", "--by", "Ines", "--reason", "x", "--result", "1"],
        65,
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_settlement_that_is_not_whole_is_refused_and_changes_nothing(shell, name):
    options, code = BAD[name]
    review = in_review(shell)
    assert shell("review", "settle", review, *options).code == code
    assert len(shell("review", "ls", "--json").lines) == 1


@pytest.mark.parametrize("words", [("show", "rev_x"), ("settle", "rev_01J9ZC3Y3V7W2R5T8QK4M6N0PF", *SETTLE)])
def test_a_review_that_is_not_there_is_not_found(shell, words):
    refunded(shell)
    assert shell("review", *words).code == 66


KEPT = {
    "an exact decimal": ('{"amount": {"$decimal": "1.10"}}', {"amount": Decimal("1.10")}),
    "an integer beyond 64 bits": ("123456789012345678901234567890", 123456789012345678901234567890),
    "a float": ('{"amount": 1.10}', {"amount": 1.1}),
    "a member that begins like a tag": ('{"$literal": {"$ref": "x"}}', {"$ref": "x"}),
    "a lone surrogate": ('"\\ud99c"', "\ud99c"),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_result_is_handed_to_the_run_as_exactly_as_it_was_given(shell, name):
    given, value = KEPT[name]
    review = in_review(shell)
    assert shell("review", "settle", review, *SETTLE, "--result", given).code == 0
    with own_tools(), shell.open() as ledger:
        book_pickup = declare_pickup()
        with ledger.run("refund-agent", conversation="case-8473", message="Fetch it.", dedupe="case-8473"):
            result = book_pickup(order="O-1042", window="2 Sep, 08:00 to 12:00")
    assert (result, type(result)) == (value, type(value))


REFUSED = {
    "a member twice": ('{"a": 1, "a": 2}', "twice"),
    "not a number": ("NaN", "--result"),
    "infinity": ("-Infinity", "--result"),
    "a number that a float cannot hold": ("0.12345678901234567890123", "$decimal"),
    "a number that no float can hold": ("1e999", "$decimal"),
    "a tag nobody knows": ('{"$money": "1.10"}', "tag"),
    "a decimal that is none": ('{"$decimal": "1,10"}', "$decimal"),
    "a reference into the event": ('{"x": {"$part": 1}}', "$part"),
    "nesting without end": ("[" * 2000 + "]" * 2000, "nest"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_result_that_would_be_recorded_as_something_else_is_refused(shell, name):
    given, word = REFUSED[name]
    review = in_review(shell)
    done = shell("review", "settle", review, *SETTLE, "--result", given)
    assert done.code == 65
    assert word in words(done.err)
    assert len(shell("review", "ls", "--json").lines) == 1


# ---- recovery ----------------------------------------------------------------------------------------------------


APP = """
import counterfoil
from counterfoil import Absent, Found

def find(*, idempotency_key, **_):
    return {answer}

@counterfoil.effect("carrier.book_pickup", version="2026-07-11", touches={{"external"}},
                    key=lambda order, **_: f"pickup:{{order}}", doubt=counterfoil.by_lookup(find), timeout_s=10)
def book_pickup(order: str, window: str, *, idempotency_key: str) -> dict: ...
"""


def app(shell: Shell, answer: str, name: str) -> str:
    (shell.directory / f"{name}.py").write_text(APP.format(answer=answer))
    return name


def test_nothing_in_doubt_is_nothing_to_recover(shell):
    refunded(shell)
    done = shell("recover")
    assert done.code == 0
    assert "nothing to recover" in done.out


def test_what_waits_in_review_is_said_by_recovery_and_is_not_nothing(shell):
    review = in_review(shell)
    done = shell("recover")
    assert done.code == 3
    assert "◆? waits for a person" in done.out
    assert f"counterfoil review show {review}" in done.out
    assert "nothing to recover" not in done.out
    told = shell("recover", "--json").json
    assert (told["effects"], told["undecided"]) == ([], 1)
    assert [effect["state"] for effect in told["waiting"]] == ["in_review"]


def test_only_what_was_asked_for_is_told_of(shell):
    refunded(shell, "case-1")
    in_review(shell, "case-2")
    assert shell("recover", "case-1").code == 0
    assert shell("recover", "case-2").code == 3
    assert shell("recover", "carrier.book_pickup").code == 3


@pytest.mark.parametrize(
    "name",
    [
        "no-such-thing",
        "eff_01J9ZC3Y3V7W2R5T8QK4M6N0PF",
        "run_01J9ZC3Y3V7W2R5T8QK4M6N0PR",
        "str_01J9ZC3Y3V7W2R5T8QK4M6N0PS",
    ],
)
def test_a_name_that_names_nothing_is_not_found_and_nothing_is_recovered(shell, name):
    lost(shell)
    with own_tools():
        done = shell("recover", name, "--app", app(shell, "Absent()", "shop_unasked"))
    assert done.code == 66
    assert name in done.err
    assert shell("ls", "reviews", "--json").lines == []


def test_without_the_tools_code_recovery_lists_leaves_and_names_what_is_missing(shell):
    lost(shell)
    done = shell("recover")
    assert done.code == 3
    assert "◆? still in doubt" in done.out
    assert 'carrier.book_pickup: name it as app = "package.module" in counterfoil.toml' in words(done.out)
    told = shell("recover", "--json").json
    assert (told["undecided"], told["tools_missing"]) == (1, ["carrier.book_pickup"])


def test_recovery_asks_the_provider_and_says_what_it_found(shell):
    lost(shell)
    with own_tools():
        done = shell("recover", "--app", app(shell, 'Found("succeeded", {"pickup": "PU-1"})', "shop_found"))
    assert done.code == 0
    assert "✓ decided: succeeded  carrier.book_pickup 2026-07-11" in done.out


def test_recovery_that_finds_nothing_asks_a_person(shell):
    lost(shell)
    with own_tools():
        done = shell("recover", "--app", app(shell, "Absent()", "shop_absent"))
    assert done.code == 3
    assert "◆? waits for a person" in done.out
    assert "counterfoil review show rev_" in done.out


def test_the_module_of_the_tools_is_named_in_the_configuration(shell):
    lost(shell)
    module = app(shell, 'Found("succeeded", {})', "shop_configured")
    (shell.directory / "counterfoil.toml").write_text(f'ledger = "shop"\napp = "{module}"\n')
    with own_tools():
        done = shell("recover", "--json", ledger=False)
    assert done.code == 0
    assert done.json["app"] == module


def test_a_module_that_cannot_be_imported_is_wrong_usage(shell):
    refunded(shell)
    done = shell("recover", "--app", "no.such.module")
    assert done.code == 64
    assert "no.such.module" in done.err


def test_runs_left_by_their_worker_are_named(shell):
    killed(shell)
    told = shell("recover", "--json").json
    (run,) = told["open_runs"]
    assert run["state"] == "running"
    assert run["run_id"] in shell("recover").out
