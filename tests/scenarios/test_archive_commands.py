"""``counterfoil export``, ``import``, ``copy``, ``backup``, ``restore`` and ``keys``: objects for programs, words for people."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.command import Shell, refunded


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    refunded(shell)
    return shell


def test_a_conversation_goes_out_and_comes_in_with_a_passphrase_from_a_file(shell, tmp_path):
    (tmp_path / "pass").write_text("correct horse\n")
    target = str(tmp_path / "case.zip")
    given = ["--keys", "passphrase", "--passphrase-file", str(tmp_path / "pass")]
    out = shell("export", "case-8472", "--to", target, *given, "--json")
    assert (out.code, out.json["keys"], out.json["faults"]) == (0, "passphrase", [])
    assert stat.S_IMODE(Path(target + ".keys.json").stat().st_mode) == 0o600
    other = ["--ledger", str(tmp_path / "other")]
    taken = shell("import", target, "--passphrase-file", str(tmp_path / "pass"), "--json", *other)
    assert (taken.code, taken.json["archive"], taken.json["keys"]) == (0, out.json["sha256"], 1)
    assert shell("ls", *other).out.count("case-8472") == 1
    assert shell("verify", *other).code == 0
    assert "correct horse" not in out.out + taken.out


def test_for_people_it_says_where_it_lies_and_what_comes_next(shell, tmp_path):
    out = shell("export", "case-8472", "--to", str(tmp_path / "case"))
    assert out.code == 0
    assert "in 1 conversation" in out.out
    assert "next: counterfoil import" in out.out
    taken = shell("import", str(tmp_path / "case"), "--ledger", str(tmp_path / "other"))
    assert "without its keys" in taken.out


def test_a_cut_archive_is_bad_input_with_its_line_and_byte(shell, tmp_path):
    shell("export", "case-8472", "--to", str(tmp_path / "case"))
    lines = tmp_path / "case" / "archive.jsonl"
    lines.write_bytes(lines.read_bytes()[:-10])
    told = shell("import", str(tmp_path / "case"), "--json", "--ledger", str(tmp_path / "other"))
    assert told.code == 65
    assert told.json["error"]["code"] == "archive_invalid"
    assert told.json["error"]["fields"]["line"] > 1
    assert shell("ls", "--json", "--ledger", str(tmp_path / "other")).lines == []


def test_a_passphrase_is_asked_for_only_at_a_terminal(shell, tmp_path):
    told = shell("export", "case-8472", "--to", str(tmp_path / "case"), "--keys", "passphrase")
    assert told.code == 65
    assert "--passphrase-file" in told.err
    assert not (tmp_path / "case").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--keys", "recipient"),
        ("--recipient", "00" * 32),
        ("--passphrase-file", "x"),
        ("--as", "ann"),
    ],
)
def test_options_that_do_not_go_together_are_a_wrong_use(shell, tmp_path, words):
    assert shell("export", "case-8472", "--to", str(tmp_path / "case"), *words).code == 64


def test_keys_are_handed_to_a_recipient(shell, tmp_path):
    made = shell("keys", "recipient", "--to", str(tmp_path / "key"), "--json", ledger=False)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert shell("keys", "recipient", "--to", str(tmp_path / "key"), ledger=False).code == 65
    given = ["--keys", "recipient", "--recipient", made.json["public"], "--as", "ann", "--purpose", "audit"]
    assert shell("export", "case-8472", "--to", str(tmp_path / "case"), *given).code == 0
    other = ["--ledger", str(tmp_path / "other")]
    assert shell("import", str(tmp_path / "case"), *other).code == 77
    assert shell("import", str(tmp_path / "case"), "--private-key", str(tmp_path / "key"), *other).code == 0
    with shell.open() as ledger:
        (decided,) = [line for line in ledger.access.decisions() if line.action == "export"]
        assert (decided.allowed, decided.by, decided.purpose) == (True, "ann", "audit")


def test_keys_are_counted_rotated_and_a_former_epoch_destroyed(shell):
    before = shell("keys", "ls", "--json").json
    assert sum(before["keys"].values()) > 1
    done = shell("keys", "rotate", "--json").json
    assert (done["epoch_from"], done["keys"]) == (before["epoch"], sum(before["keys"].values()))
    after = shell("keys", "ls", "--json").json
    assert (after["epoch"], after["number"]) == (done["epoch_to"], before["number"] + 1)
    assert shell("keys", "destroy", done["epoch_to"]).code == 65
    assert shell("keys", "destroy", done["epoch_from"]).code == 0
    assert shell("verify").code == 0
    assert shell("show", "case-8472").code == 0
    assert shell("keys", "ls").out.count("current") == 1


def test_a_ledger_is_copied_and_the_source_says_so(shell, tmp_path):
    done = shell("copy", str(shell.place), str(tmp_path / "copy"), "--json", ledger=False)
    assert (done.code, done.json["resumed"]) == (0, False)
    assert shell("verify", "--ledger", str(tmp_path / "copy")).code == 0
    assert shell("ls").code == 0
    refused = shell("hold", "set", "--tool", "payment.refund", "--by", "ops", "--reason", "test", "--json")
    assert (refused.code, refused.json["error"]["code"]) == (4, "ledger_moved")
    assert shell("copy", str(shell.place), str(tmp_path / "third"), ledger=False).code == 4


def test_a_backup_is_restored_and_its_loss_accepted(shell, tmp_path):
    file, again = str(tmp_path / "backup"), str(tmp_path / "again")
    done = shell("backup", "--to", file, "--json")
    assert (done.code, done.json["keks"]) == (0, 1)
    assert stat.S_IMODE(Path(file).stat().st_mode) == 0o600
    restored = shell("restore", file, "--to", again, "--json", ledger=False).json
    assert (restored["standing"], restored["events"]) == ("restored", done.json["events"])
    refused = shell(
        "hold",
        "set",
        "--tool",
        "payment.refund",
        "--by",
        "ops",
        "--reason",
        "test",
        "--json",
        "--ledger",
        again,
    )
    assert (refused.code, refused.json["error"]["code"]) == (4, "loss_not_accepted")
    assert shell("restore", again, "--accept-loss", ledger=False).code == 64
    words = ["--accept-loss", "--by", "ops@example.com", "--reason", "disk"]
    accepted = shell("restore", again, *words, ledger=False)
    assert accepted.code == 0
    assert "the loss is on record" in accepted.out
    assert shell("verify", "--ledger", again).code == 0
    assert shell("restore", file, "--to", again, ledger=False).code == 65
