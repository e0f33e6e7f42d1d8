"""Archives out of every engine into every other: what comes out again is the same to the byte, and goes on there."""

from __future__ import annotations

import pytest

import counterfoil
from counterfoil.archive import hpke
from counterfoil.client.archiving import KeysBy
from tests.archives import converse, erase_part, files, verified
from tests.scenarios.conftest import ON_SERVER, lies


@pytest.fixture(params=["memory", "sqlite", ON_SERVER])
def origin(request, tmp_path, monkeypatch):
    """Where the ledger lies that the archive comes out of."""
    return placed(request.param, request, tmp_path / "origin", monkeypatch)


@pytest.fixture(params=["memory", "sqlite", ON_SERVER])
def target(request, tmp_path, monkeypatch):
    """Where the ledger lies that takes it in."""
    return placed(request.param, request, tmp_path / "target", monkeypatch)


def placed(kind, request, directory, monkeypatch):
    directory.mkdir()
    return lies(kind, request, directory, monkeypatch) or ":memory:"


@pytest.mark.parametrize("content", ["sealed", "clear"])
def test_out_of_any_engine_into_any_other_it_is_the_same_to_the_byte(tmp_path, origin, target, content):
    key = hpke.new_private_key()
    by = KeysBy(recipient=hpke.public_key(key))
    first, second = tmp_path / "first.zip", tmp_path / "second.zip"
    with counterfoil.open(origin, content=content, artifacts=tmp_path / "there") as source:
        stream_id = converse(source)
        erased = 0
        if origin != ":memory:":
            erase_part(source, stream_id, 2)
            erased = 2
        out = source.export_archive([stream_id], first, keys=by)
        assert (out.faults, out.erased) == ([], erased)
        told = [(event.type, event.content_or_none()) for event in source.events(stream_id)]
    with counterfoil.open(target, content=content, artifacts=tmp_path / "here") as ledger:
        taken = ledger.import_archive(first, private_key=key)
        assert (taken.archive, taken.keys) == (out.sha256, 2)
        assert ledger.export_archive([stream_id], second).sha256 == out.sha256
        assert files(second) == files(first)
        assert [(event.type, event.content_or_none()) for event in ledger.events(stream_id)] == told
        with ledger.run("support", conversation="case-8472", message="and now?") as run:
            run.step("look", str.title, "again")
        report = verified(ledger)
        assert (report.exit_code, report.rows_differ) == (0, ())
