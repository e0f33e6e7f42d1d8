"""Content on the command line: shown on record to who says who they are, where the configuration demands it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import counterfoil
from tests.command import Shell

CONFIG = """
[access]
people = { ann = ["auditor"], olga = ["on-call"], "\\u001b[31mred" = ["auditor"] }
roles.on-call = { read = ["public"], glass = ["public"] }
"""
ANN = ("--as", "ann", "--purpose", "complaint 17")
SAID = "Where is my parcel"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = Shell(tmp_path)
    with (
        made.open() as ledger,
        ledger.run("shop", conversation="case-1", message=SAID, title="parcel") as run,
    ):
        run.artifact(b"a letter", name="letter.txt")
    (tmp_path / "counterfoil.toml").write_text(CONFIG)
    return made


def recorded(shell):
    with shell.open() as ledger:
        return [(line.allowed, line.rule, line.by, line.purpose) for line in ledger.access.decisions()]


@pytest.mark.parametrize(
    "words",
    [
        ("show", "case-1"),
        ("show", "case-1", "--events"),
        ("show", "case-1", "2"),
        ("tail", "--json"),
        ("tail", "case-1", "--json"),
        ("ls",),
    ],
)
def test_content_is_withheld_from_who_does_not_say_who_they_are(shell, words):
    done = shell(*words)
    assert (done.code, SAID in done.out, "parcel" in done.out) == (0, False, False)
    assert recorded(shell) == []


@pytest.mark.parametrize(
    "words", [("show", "case-1"), ("show", "case-1", "2"), ("tail", "--json"), ("tail", "case-1", "--json")]
)
def test_content_is_shown_on_record_to_who_does(shell, words):
    done = shell(*words, *ANN)
    assert (done.code, SAID in done.out) == (0, True)
    assert recorded(shell) == [(True, "auditor", "ann", "complaint 17")]


def test_a_session_names_the_conversation_that_it_was_for(shell):
    shell("show", "case-1", *ANN)
    shell("tail", *ANN)
    first, second = shell("access", "ls", "--json").lines
    with shell.open() as ledger:
        assert (first["stream_id"], second["stream_id"]) == (ledger.stream_of("case-1"), None)


def test_programs_are_told_why_content_is_not_there(shell):
    event = shell("show", "case-1", "2", "--json").json
    assert (event["content"], event["content_state"]) == (None, "withheld")


@pytest.mark.parametrize("who, rule", [("olga", "not-in-role"), ("nobody", "no-role")])
def test_who_may_not_is_refused_on_record_with_the_code_for_access(shell, who, rule):
    done = shell("show", "case-1", "--as", who, "--purpose", "curiosity")
    assert (done.code, SAID in done.out) == (77, False)
    assert recorded(shell) == [(False, rule, who, "curiosity")]


def test_an_artifact_is_written_only_on_record(shell, tmp_path):
    (kept,) = shell("artifacts", "ls", "--json", *ANN).lines
    name = kept["sha256"]
    refused = shell("artifacts", "get", name, "--out", str(tmp_path / "x"))
    assert (refused.code, (tmp_path / "x").exists()) == (77, False)
    assert shell("artifacts", "get", name, "--out", str(tmp_path / "x"), *ANN).code == 0
    assert (tmp_path / "x").read_bytes() == b"a letter"


def test_a_search_says_who_asks(shell):
    refused = shell("search", "parcel", "--conversation", "case-1")
    assert refused.code == 77
    assert SAID not in refused.out


def test_a_search_over_all_conversations_is_for_a_role_that_may_and_a_refusal_is_recorded(shell):
    asked = ("search", "parcel", "--all")
    nobody = shell(*asked)
    assert (nobody.code, SAID in nobody.out, "--by" in nobody.err) == (77, False, True)
    for who, rule in (("olga", "not-in-role"), ("eve", "no-role")):
        refused = shell(*asked, "--by", who, "--purpose", "why")
        assert (refused.code, SAID in refused.out) == (77, False)
        assert recorded(shell)[-1] == (False, rule, who, "why")
    found = shell(*asked, "--by", "ann", "--purpose", "complaint 17")
    assert (found.code, SAID in found.out) == (0, True)
    assert recorded(shell)[-1] == (True, "auditor", "ann", "complaint 17")


def test_as_and_purpose_are_given_together(shell):
    for words in (("--as", "ann"), ("--purpose", "why")):
        assert shell("show", "case-1", *words).code == 64
    assert shell("show", "case-1", "--as", "ann", "--purpose", " ").code == 65
    assert recorded(shell) == []


def test_a_higher_class_is_asked_for_by_name(shell):
    with shell.open() as ledger, ledger.run("shop", conversation="case-1") as run:
        secret = run.artifact(b"pin", classification="secret", name="pin.txt")
    words = ("artifacts", "get", secret.sha256, "--out", "-")
    assert shell(*words, *ANN).code == 77
    # An auditor reads up to personal, so asking for more is refused as a whole.
    assert shell(*words, *ANN, "--class", "secret").code == 77
    assert shell("show", "case-1", *ANN, "--class", "personal").code == 0


def test_broken_glass_is_listed_and_opens_what_the_role_does_not(shell):
    looking = ("show", "case-1", "--as", "olga", "--purpose", "an incident")
    assert shell(*looking).code == 77
    broken = shell(
        "access", "glass", "--as", "olga", "--reason", "payments fail", "--minutes", "30", "--json"
    )
    assert broken.json["closed"] is False
    assert SAID in shell(*looking).out
    assert "glass until" in shell("access", "ls").out
    shell.clock.advance(31 * 60_000)
    assert shell(*looking).code == 77
    assert shell("access", "glass", "--as", "ann", "--reason", "curious").code == 77


def test_hostile_names_are_marked_and_pages_go_on(shell):
    for _ in range(3):
        shell("show", "case-1", "--as", "\x1b[31mred", "--purpose", "\x1b[2J")
    done = shell("access", "ls", "--limit", "2")
    assert "\x1b" not in done.out
    assert "more: counterfoil access ls --after 2" in done.out
    assert len(shell("access", "ls", "--after", "2", "--json").lines) == 1


def test_nobody_asked_yet_is_said(shell):
    assert "nobody asked" in shell("access", "ls").out


def test_where_it_is_not_required_content_is_shown_unrecorded(shell, tmp_path):
    (tmp_path / "counterfoil.toml").write_text(CONFIG.replace("[access]", "[access]\nrequired = false"))
    assert SAID in shell("show", "case-1").out
    assert recorded(shell) == []
    assert shell("show", "case-1", "--as", "olga", "--purpose", "x").code == 77


def test_without_a_configuration_a_session_is_recorded_where_it_is_asked_for(tmp_path):
    shell = Shell(tmp_path)
    with shell.open() as ledger, ledger.run("shop", conversation="case-1", message=SAID):
        pass
    assert SAID in shell("show", "case-1").out
    assert SAID in shell("show", "case-1", *ANN).out
    assert recorded(shell) == [(True, "embedded", "ann", "complaint 17")]


@pytest.mark.parametrize(
    "text, member",
    [
        ("access = 5", "access"),
        ("[access]\nhours = 5", "access.hours"),
        ('[access]\nrequired = "yes"', "access.required"),
        ("[access]\npeople = 5", "access.people"),
        ('[access]\npeople = { ann = "auditor" }', "access.people"),
        ('[access]\npeople = { ann = ["emperor"] }', "access.people"),
        ("[access]\nroles.clerk = 5", "access.roles"),
        ('[access]\nroles.clerk = { look = ["public"] }', "access.roles"),
    ],
)
def test_a_table_of_something_else_is_refused_by_its_member(shell, tmp_path, text, member):
    (tmp_path / "counterfoil.toml").write_text(text)
    done = shell("show", "case-1", "--json")
    assert done.code == 64
    error = json.loads(done.out)
    assert member in json.dumps(error)
    assert "ann" not in json.dumps(error)


def test_worker_commands_go_on_under_a_configuration(shell):
    assert shell("recover").code == 0
    assert shell("verify").code in (0, 2)
    assert counterfoil.open(shell.place).close() is None
