"""Derived rows made again on PostgreSQL, while others append."""

from __future__ import annotations

import threading

import pytest

import counterfoil
from counterfoil.client.features import FEATURES
from counterfoil.evidence.verify import verify
from tests.servers.fixtures import schema_for

pytestmark = pytest.mark.postgres


def test_rows_are_made_again_and_an_append_meanwhile_waits_and_has_its_rows(
    cluster, place, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    with counterfoil.open(place) as ledger, counterfoil.open(place) as other:
        with ledger.run("a", conversation="before"):
            pass
        schema = schema_for(tmp_path)
        cluster.sql(f"DELETE FROM {schema}.row_runs", f"DELETE FROM {schema}.row_conversation_names")
        began = threading.Event()

        def write():
            began.set()
            with other.run("a", conversation="meanwhile"):
                pass

        writer = threading.Thread(target=write)

        def progress(_):
            if not began.is_set():
                writer.start()
                began.wait(10)

        ledger.rebuild(progress)
        writer.join(30)
        assert [row["agent"] for name in ("before", "meanwhile") for row in ledger.runs(name)] == ["a", "a"]
        report = verify(ledger.store, ledger.keyring, FEATURES, registry=ledger.registry)
        assert (report.exit_code, report.rows_differ) == (0, ())
