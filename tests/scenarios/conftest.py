"""Where a scenario is played: in memory, on disk and on a PostgreSQL server; by sync code and by tasks."""

from __future__ import annotations

from contextlib import closing

import pytest

from counterfoil.client.features import TABLES
from counterfoil.effects.registry import own_tools
from counterfoil.testing.crash import World
from tests.servers.fixtures import schema_for
from tests.servers.reused import SpareLedgers
from tests.stage import Stage

ON_SERVER = pytest.param("postgresql", marks=pytest.mark.postgres)


@pytest.fixture(scope="session")
def spares(cluster):
    """The ledgers on a server that are used again."""
    ledgers = SpareLedgers(cluster, TABLES)
    yield ledgers
    ledgers.close()


def lies(kind, request, tmp_path, monkeypatch):
    """The place of a ledger of this kind that is not there yet; None is memory."""
    if kind == "memory":
        return None
    if kind == "sqlite":
        return tmp_path / "ledger"
    # Key-encryption keys of a ledger on a server lie in the home directory unless told otherwise.
    monkeypatch.setenv("HOME", str(tmp_path))
    return request.getfixturevalue("cluster").url(schema=schema_for(tmp_path))


def lent(kind, request, tmp_path, monkeypatch):
    """The place of a ledger in which nothing is yet: on a server one that an earlier test has left."""
    place = lies(kind, request, tmp_path, monkeypatch)
    if kind != "postgresql":
        yield place
        return
    spares = request.getfixturevalue("spares")
    schema = spares.take(tmp_path)
    yield request.getfixturevalue("cluster").url(schema=schema)
    spares.give_back(schema)


@pytest.fixture(params=["memory", ON_SERVER])
def somewhere(request, tmp_path, monkeypatch):
    """The place of a ledger in which nothing is yet; None is memory."""
    yield from lent(request.param, request, tmp_path, monkeypatch)


@pytest.fixture(params=["memory", "sqlite", ON_SERVER])
def anywhere(request, tmp_path, monkeypatch):
    """As ``somewhere``, on disk too: one server for all tests, a schema for each."""
    yield from lent(request.param, request, tmp_path, monkeypatch)


@pytest.fixture(params=["sync", "async"])
def stage(request, anywhere):
    """A ledger and a provider outside, on every engine and in both ways; whatever was played, the ledger is true."""
    with own_tools(), closing(World(anywhere)) as world:
        made = Stage(world, asynchronous=request.param == "async")
        yield made
        made.end()
