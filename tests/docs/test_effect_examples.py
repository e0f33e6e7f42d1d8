"""The examples about effects run as their own first lines say, and the world outside is as they say it is."""

from __future__ import annotations

import json

import pytest

from tests.docs.test_example_files import CRASHED, run
from tools.tree import ROOT

EXAMPLES = ROOT / "examples"


@pytest.fixture
def play(tmp_path):
    """Run an example in a directory of its own; what it said, or that it died."""

    def play(name, *words):
        done = run(tmp_path, str(EXAMPLES / name), *words)
        if done.returncode == CRASHED:
            return "died"
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.strip()

    return play


def test_a_mail_is_permitted_sent_once_and_settled_by_a_person(play, tmp_path):
    said = [play("send_email.py", *words) for words in ([], ["approve"], ["--crash"], [], ["settle"], [])]
    assert said == [
        "waits for approval",
        "approved",
        "died",
        "waits for review",
        "settled: succeeded",
        "success: answered, 1 mail in the outbox",
    ]
    assert len((tmp_path / "outbox.txt").read_text().splitlines()) == 1


GIVEN = "access: ['kim@production'], changes: ['give kim@production']"
TAKEN = "access: [], changes: ['give kim@production', 'take kim@production']"


def test_access_is_given_once_and_taken_back_once(play):
    assert play("access_grant.py", "grant", "--crash") == "died"
    assert play("access_grant.py", "grant") == f"granted for an hour; {GIVEN}"
    assert play("access_grant.py", "sweep") == f"0 expired; {GIVEN}"
    assert play("access_grant.py", "repair") == f"repaired; {TAKEN}"
    assert play("access_grant.py", "sweep", "--later") == f"1 expired; {TAKEN}"


def test_access_that_has_expired_is_taken_back_whoever_dies(play):
    assert play("access_grant.py", "grant") == f"granted for an hour; {GIVEN}"
    assert play("access_grant.py", "sweep", "--later", "--crash") == "died"
    assert play("access_grant.py", "sweep", "--later") == f"1 expired; {TAKEN}"


def test_a_large_refund_waits_for_a_person_and_is_taken_back_on_record(play, tmp_path):
    assert play("refund.py", "large") == "waits for approval"
    assert not (tmp_path / "book.json").exists()
    assert play("refund.py", "approve") == "approved by Ines Arvold"
    done = "success: re_1, the book has 2 entries, intended shop.look_up, payment.refund, message.send"
    assert [play("refund.py", "large") for _ in range(2)] == [done, done]
    assert play("refund.py", "repair") == "repaired: the book has 80.00 and -80.00"
    assert list(json.loads((tmp_path / "book.json").read_text())) == [
        "refund:O-2000:1",
        "notice:O-2000",
        "charge:O-2000:1",
    ]


@pytest.mark.processes
def test_a_batch_whose_workers_are_killed_bills_everybody_once(play, tmp_path):
    assert play("nightly_batch.py", "60", "0.2").endswith(" 60 invoices, each billed once: True")
    assert len((tmp_path / "book.txt").read_text().splitlines()) == 60
