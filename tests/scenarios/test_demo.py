"""The demo, played once as a user plays it: two kills, a permission, a repair, and both sides asked what happened."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import counterfoil
from counterfoil.client.features import FEATURES
from counterfoil.evidence.verify import verify

PLAY = (
    "import sys; from counterfoil.demo import main; sys.exit(main(sys.argv[1], as_json='--json' in sys.argv))"
)
CASES = {"case-8472": "payment-provider", "case-8513": "old-bank"}
PERMITTED = "case-8530"

# One worker plays it for all that look at it.
pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("demo")]


def play(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", PLAY, str(directory), *options], capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory):
    directory = tmp_path_factory.mktemp("demo") / "played"
    ended = play(directory, "--json")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads(ended.stdout)


@pytest.fixture(scope="module")
def ledger(told):
    with counterfoil.open(told["ledger"], read_only=True) as ledger:
        yield ledger


def outcomes(ledger: counterfoil.Ledger, case: str, tool: str) -> list[tuple[str, str]]:
    found = [row for row in ledger.effects(stream=case) if row["tool"] == tool]
    return [(str(row["state"]), str(row["outcome"])) for row in found]


def booked(told, provider: str) -> list[tuple[str, str]]:
    db = sqlite3.connect(Path(told["directory"]) / f"{provider}-book.db")
    rows = db.execute("SELECT kind, what FROM booking ORDER BY number").fetchall()
    db.close()
    return [(kind, json.loads(what)["order"]) for kind, what in rows]


def test_the_books_of_the_providers_have_one_refund_and_one_message_each_and_what_undid_one(told):
    assert booked(told, "old-bank") == [("refunds", "O-2077"), ("messages", "O-2077")]
    assert booked(told, "payment-provider") == [
        ("refunds", "O-1042"),
        ("messages", "O-1042"),
        ("refunds", "O-3110"),
        ("messages", "O-3110"),
        ("charges", "O-3110"),
    ]


def test_what_could_be_asked_was_found_by_lookup(ledger):
    assert outcomes(ledger, "case-8472", "payment.refund") == [("succeeded", "succeeded")]
    observed = [
        event
        for event in ledger.events("case-8472", types=["effect.observed"])
        if event.data["source"] == "lookup"
    ]
    assert len(observed) == 1


def test_what_could_not_be_asked_was_settled_by_a_person(ledger):
    assert outcomes(ledger, "case-8513", "bank.pay_back") == [("settled", "succeeded")]
    assert ledger.reviews() == []


def test_the_large_refund_was_sent_once_under_one_permission(ledger, told):
    assert outcomes(ledger, PERMITTED, "payment.refund") == [("succeeded", "succeeded")]
    types = [event.type for event in ledger.events(PERMITTED)]
    assert [types.count(f"approval.{step}") for step in ("requested", "granted", "consumed")] == [1, 1, 1]
    assert types.index("approval.granted") < types.index("approval.consumed")
    assert told["cases"][2]["approval"] == str(ledger.approvals("consumed")[0]["approval_id"])


def test_the_large_refund_was_undone_on_record_and_both_stand(ledger):
    assert outcomes(ledger, PERMITTED, "payment.charge") == [("succeeded", "succeeded")]
    (repair,) = ledger.repairs("repaired")
    assert repair["subject"] == ledger.effects(stream=PERMITTED)[1]["effect_id"]


@pytest.mark.parametrize("case", CASES)
def test_a_refund_was_intended_once_and_sent_once(ledger, case: str):
    tools = [event.data["tool"] for event in ledger.events(case, types=["effect.intended"])]
    assert len(tools) == len(set(tools)) == 3


@pytest.mark.parametrize("case", CASES)
def test_every_worker_went_on_with_the_same_run(ledger, case: str):
    (run,) = ledger.runs(case)
    assert (run["state"], run["terminal"]) == ("finished", "success")
    assert len(list(ledger.events(case, types=["run.started"]))) == 1


def test_the_refund_was_seen_in_doubt_before_it_was_settled(told):
    asked, reviewed, permitted = told["cases"]
    assert permitted["refund_was"] == ["succeeded"]
    assert asked["refund_was"] == ["intended", "succeeded"]
    assert reviewed["refund_was"] == ["intended", "in_review", "settled"]


def test_no_process_of_the_demo_is_left(told):
    pids = [pid for case in told["cases"] for pid in (*case["workers"], case["provider_pid"])]
    assert len(set(pids)) == 9
    assert not [pid for pid in pids if Path(f"/proc/{pid}/cmdline").exists() and is_ours(pid)]


def is_ours(pid: int) -> bool:
    return b"counterfoil.demo" in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_the_ledger_verifies(ledger):
    report = verify(ledger.store, ledger.keyring, FEATURES)
    assert (report.exit_code, report.findings) == (0, ())


def test_the_story_ends_with_the_agreement_and_its_commands(tmp_path: Path):
    ended = play(tmp_path / "played")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.splitlines()[-1] == (
        "In all three cases, provider and ledger agree on exactly one refund."
    )
    assert f"show case-8472 --events --ledger {tmp_path / 'played' / 'ledger'}" in ended.stdout


def test_a_directory_with_something_in_it_is_refused(tmp_path: Path):
    (tmp_path / "kept.txt").write_text("mine")
    ended = play(tmp_path)
    assert ended.returncode != 0
    assert "needs an empty directory" in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]
