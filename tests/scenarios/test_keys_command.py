"""``counterfoil keys``: what is at hand, which epoch it is of, and no word of a key destroyed that was not there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import counterfoil
from counterfoil.errors import InvalidForm
from counterfoil.keys.environment import EnvironmentKeyProvider
from tests.command import Shell

NEVER_HERE = "kek_01M8QG84P8VES0APENR7GW52AV"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = Shell(tmp_path)
    with made.open():
        return made


def rotated(shell: Shell) -> tuple[str, str]:
    """The epochs before and after a rotation."""
    done = shell("keys", "rotate", "--json").json
    return done["epoch_from"], done["epoch_to"]


def test_a_key_that_is_not_at_hand_is_never_said_to_be_destroyed(shell):
    done = shell("keys", "destroy", NEVER_HERE)
    assert (done.code, done.out) == (77, "")
    assert f"{NEVER_HERE} is not at hand, so nothing was destroyed" in done.err


def test_a_key_is_destroyed_once_and_the_second_time_says_that_it_is_gone(shell):
    former, _ = rotated(shell)
    assert shell("keys", "destroy", former).out == f"✓ {former} is destroyed\n"
    assert shell("keys", "destroy", former).code == 77


def test_a_damaged_key_of_a_former_epoch_can_be_destroyed(shell):
    former, _ = rotated(shell)
    (shell.place / "kek" / former).write_text("no key", "utf-8")
    assert shell("keys", "destroy", former).code == 0
    assert not (shell.place / "kek" / former).exists()


def test_the_list_names_former_keys_that_are_still_at_hand_and_how_to_destroy_them(shell):
    former, current = rotated(shell)
    said = shell("keys", "ls").out
    assert f"{former}       0 keys  former, still at hand" in said
    assert f"counterfoil keys destroy {former} --ledger {shell.place}" in said
    assert shell("keys", "ls", "--json").json["former"] == [former]
    shell("keys", "destroy", former)
    assert former not in shell("keys", "ls").out
    assert current in shell("keys", "ls").out


def test_the_list_says_in_words_where_the_key_encryption_key_lies(shell):
    said = shell("keys", "ls").out
    assert "the key-encryption key lies beside the data" in said
    assert "not_covered" not in said


def test_an_old_key_store_is_listed_with_its_own_epoch_and_not_with_the_newest(shell):
    shutil.copy(shell.place / "keys.db", shell.directory / "keys.db")
    rotated(shell)
    assert shell("keys", "ls", "--json").json["number"] == 2
    shutil.copy(shell.directory / "keys.db", shell.place / "keys.db")
    assert shell("keys", "ls", "--json").json["number"] == 1


def test_a_key_that_is_kept_elsewhere_is_refused_and_is_no_fault_of_the_program(tmp_path):
    kept = EnvironmentKeyProvider("KEPT", {"KEPT": f"{NEVER_HERE}={'ab' * 32}"})
    with counterfoil.open(tmp_path / "shop", keys=kept) as ledger:
        with pytest.raises(InvalidForm, match="kept elsewhere"):
            ledger.destroy_kek("kek_01M8QG84P8VES0APENR7GW52AA")
        assert ledger.keys_held().former == ()
