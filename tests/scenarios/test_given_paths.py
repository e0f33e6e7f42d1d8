"""Bad input: a path that no system can name is refused as such wherever one is given, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

import counterfoil
from counterfoil.client.backup import backup_ledger
from counterfoil.client.copying import copy_ledger
from counterfoil.client.restoring import restore_backup
from counterfoil.errors import InvalidForm
from counterfoil.reconcile.book import Columns

ODD = {
    "nul": "a\0b",
    "nul in a path": Path("a\0b"),
    "nothing": "",
    "bytes": b"a",
    "number": 7,
    "a home of nobody": "~nobody-by-this-name/a",
}


def in_a_run(ledger, given):
    with ledger.run("agent", conversation="case", message="keep this") as run:
        return run.artifact(given)


def save(ledger, given):
    with ledger.run("agent", conversation="case", message="keep this") as run:
        kept = run.artifact(b"bytes")
    return ledger.artifacts.bound(kept).save(given)


GIVEN = {
    "open": lambda ledger, given: counterfoil.open(given),
    "open, artifacts": lambda ledger, given: counterfoil.open(f"{ledger.place}-2", artifacts=given),
    "export": lambda ledger, given: ledger.export_archive(["case"], given),
    "import": lambda ledger, given: ledger.import_archive(given),
    "reconcile": lambda ledger, given: ledger.reconcile("pay", given, Columns(key="key")),
    "save": save,
    "backup of": lambda ledger, given: backup_ledger(given, f"{ledger.place}-backup"),
    "backup to": lambda ledger, given: backup_ledger(ledger.place, given),
    "copy of": lambda ledger, given: copy_ledger(given, f"{ledger.place}-copy"),
    "copy to": lambda ledger, given: copy_ledger(ledger.place, given),
    "restore of": lambda ledger, given: restore_backup(given, f"{ledger.place}-restored"),
    "restore to": lambda ledger, given: restore_backup(ledger.place, given),
}
OF_ANY_KIND = {
    ("open, artifacts", "bytes"),
    ("open, artifacts", "number"),
    ("reconcile", "bytes"),
    ("reconcile", "number"),
}
"""Where something else than a path may be given: a store of the application's, an open file."""


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with counterfoil.open(tmp_path / "ledger") as ledger:
        with ledger.run("agent", conversation="case", message="hello"):
            pass
        yield ledger


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", GIVEN)
def test_a_path_that_is_none_is_refused_by_name(ledger, tmp_path, name, odd):
    if (name, odd) in OF_ANY_KIND:
        return
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(InvalidForm) as refused:
        GIVEN[name](ledger, ODD[odd])
    assert refused.value.argument
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_source_of_an_artifact_with_a_nul_in_its_path_is_refused(ledger):
    with pytest.raises(InvalidForm, match="NUL"):
        in_a_run(ledger, Path("a\0b"))


@pytest.mark.parametrize("text", [None, 7, b"hello"])
def test_what_is_no_text_is_not_looked_for(ledger, text):
    with pytest.raises(InvalidForm):
        ledger.search(text, "case")


@pytest.mark.parametrize("wait_s", [float("nan"), -1, "1"])
def test_what_is_no_time_is_not_waited(ledger, wait_s):
    with pytest.raises(InvalidForm):
        ledger.search("hello", "case", wait_s=wait_s)
