"""``counterfoil doctor``: one screen, one object, and the code that it leaves with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from counterfoil.cli.verbs.doctor import exit_of
from counterfoil.client.finding import Finding
from tests.command import Shell, in_review
from tests.scenarios import test_postgres_staff as staff

shop = staff.shop


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_a_healthy_ledger_leaves_with_0(shell):
    with shell.open():
        pass
    done = shell("doctor")
    assert done.code == 0
    assert "✓ oldest doubt" in done.out
    assert len(done.out.splitlines()) <= 24


def test_what_waits_for_a_person_leaves_with_3_and_says_what_to_do(shell):
    in_review(shell)
    done = shell("doctor")
    assert done.code == 3
    assert "! oldest review" in done.out
    assert f"oldest review: counterfoil review ls --ledger {shell.place}" in done.out


def test_keys_that_are_gone_leave_with_77(shell):
    in_review(shell)
    (shell.place / "keys.db").unlink()
    shutil.rmtree(shell.place / "kek")
    done = shell("doctor", "--json")
    assert (done.code, done.json["state"]) == (77, "bad")


def test_keys_that_others_may_read_leave_with_77(shell):
    with shell.open():
        pass
    for key in (shell.place / "kek").iterdir():
        key.chmod(0o644)
    assert shell("doctor").code == 77


def test_a_store_in_danger_outranks_everything():
    bad = [Finding("x", about, "bad", None, "", "") for about in ("keys", "store")]
    assert exit_of(bad) == 69


def test_what_could_not_be_read_is_not_called_healthy():
    assert exit_of([Finding("what waits", "work", "unknown", None, "", "")]) == 75


def test_programs_get_every_finding(shell):
    with shell.open():
        pass
    told = shell("doctor", "--json").json
    assert set(told) == {"place", "state", "findings"}
    assert set(told["findings"][0]) == {"name", "about", "state", "value", "unit", "means", "do", "at_least"}


def test_looking_changes_no_byte_of_the_ledger(shell):
    in_review(shell)
    before = {path.name: path.read_bytes() for path in shell.place.glob("*.db")}
    shell("doctor")
    assert {path.name: path.read_bytes() for path in shell.place.glob("*.db")} == before


@pytest.mark.postgres
def test_a_ledger_on_a_server_is_examined(shop):
    done = shop.run("doctor", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = {each["name"]: each for each in json.loads(done.stdout)["findings"]}
    assert found["store"]["state"] == "ok"
    assert found["clock skew"]["unit"] == "ms"
    assert "free space" not in found
    screen = shop.run("doctor")
    assert screen.returncode == 0
    assert "✓ oldest doubt" in screen.stdout
