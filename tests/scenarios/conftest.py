"""Where a scenario is played: in memory, and on a PostgreSQL server."""

from __future__ import annotations

import pytest

from tests.servers.fixtures import schema_for


@pytest.fixture(params=["memory", pytest.param("postgresql", marks=pytest.mark.postgres)])
def somewhere(request, tmp_path, monkeypatch):
    """The place of a ledger that is not there yet; None is memory."""
    if request.param == "memory":
        return None
    # Key-encryption keys of a ledger on a server lie in the home directory unless told otherwise.
    monkeypatch.setenv("HOME", str(tmp_path))
    return request.getfixturevalue("cluster").url(schema=schema_for(tmp_path))
