"""A ledger on PostgreSQL whose own schema is gone while that of its keys is there."""

from __future__ import annotations

import pytest

import counterfoil
from counterfoil.errors import LedgerLost, LedgerNotFound
from tests.servers.fixtures import schema_for

pytestmark = pytest.mark.postgres


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("options", [{}, {"create": False}, {"read_only": True}])
def test_a_lost_schema_is_refused_with_the_way_out(cluster, place, home, options):
    with counterfoil.open(place) as ledger, ledger.run("a", conversation="c"):
        pass
    cluster.sql(f"DROP SCHEMA {schema_for(home)} CASCADE")
    with pytest.raises(LedgerLost) as refused:
        counterfoil.open(place, **options)
    assert "backup" in refused.value.hint


def test_a_ledger_that_never_was_is_not_found(place, home):
    with pytest.raises(LedgerNotFound):
        counterfoil.open(place, create=False)
