"""Artifacts on every engine: kept in one place that all share, found, resumed, verified, and refused without a place."""

from __future__ import annotations

import pytest

import counterfoil
from counterfoil.client.features import FEATURES
from counterfoil.errors import ConfigInvalid
from counterfoil.evidence.verify import verify
from tests.running import types_of
from tests.scenarios.conftest import lies

FILE = b"a letter" * 10_000


@pytest.fixture
def place(somewhere, tmp_path):
    return somewhere or tmp_path / "ledger"


@pytest.fixture
def on_server(request, tmp_path, monkeypatch):
    return lies("postgresql", request, tmp_path, monkeypatch)


def serve(ledger):
    with ledger.run("a", conversation="c", dedupe="m1") as run:
        kept = [run.artifact(iter([FILE]), name=name) for name in ("first", "second")]
        orders = run.step("large", lambda: ["O-1042"] * 50_000)
        run.finish({"files": kept, "orders": len(orders)})
    return run.output


def test_they_are_kept_found_resumed_and_verified(place, tmp_path):
    with counterfoil.open(place, artifacts=tmp_path / "shared") as ledger:
        serve(ledger)
    with counterfoil.open(place, artifacts=tmp_path / "shared") as again:
        output = serve(again)
        assert [one.read() for one in output["files"]] == [FILE, FILE]
        assert output["orders"] == 50_000
        (first, *_) = again.artifacts.rows(spilled=False)
        assert again.artifacts.find(str(first["sha256"])[:10]).read() == FILE
        # What streams in twice is one object, found by its address in the rows.
        assert len(again.artifacts.store.names()) == 2
        report = verify(again.store, again.keyring, FEATURES, artifacts=again.artifacts.store)
        assert (report.exit_code, report.counts.artifacts_opened) == (0, 2)
        assert report.rows_differ == ()


@pytest.mark.postgres
def test_a_server_whose_users_share_no_place_keeps_values_in_events(on_server):
    with counterfoil.open(on_server) as ledger:
        with ledger.run("a", conversation="c") as run:
            with pytest.raises(ConfigInvalid, match="artifacts"):
                run.artifact(b"x")
            assert run.step("large", lambda: "x" * 300_000) == "x" * 300_000
        assert "artifact.spilled" not in types_of(ledger, "c")
