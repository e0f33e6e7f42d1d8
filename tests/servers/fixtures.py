"""Fixtures of servers: each worker of the suite starts its own, the first time a test wants one."""

from __future__ import annotations

import hashlib

import pytest

from tests.servers.cluster import Cluster, embedded, roomy_memory, system
from tests.servers.pooler import Pooler

MAJORS = {"packaged": embedded, "system": system}
"""The default of the suite, and the system's own version as the second major."""


@pytest.fixture(scope="session")
def clusters():
    """A server for each kind, started when first asked for."""
    started = {}

    def get(kind):
        if kind not in started:
            binaries = MAJORS[kind]()
            if binaries is None:
                pytest.fail(f"there are no {kind} PostgreSQL binaries; ./run test installs them")
            started[kind] = Cluster(binaries, where=roomy_memory()).start()
        return started[kind]

    yield get
    for cluster in started.values():
        cluster.destroy()


@pytest.fixture(scope="session")
def cluster(clusters):
    """The server that most tests share."""
    return clusters("packaged")


@pytest.fixture
def own_cluster():
    """A server on disk that a test may crash: after a crash a server syncs every file, and the shared one has thousands."""
    made = Cluster(MAJORS["packaged"]()).start()
    yield made
    made.destroy()


@pytest.fixture(scope="session")
def pooler(cluster):
    """A pooler in transaction mode before that server, with four connections for all its clients."""
    made = Pooler(cluster)
    yield made
    made.close()


@pytest.fixture
def place(cluster, tmp_path):
    """An address at which there is no ledger yet."""
    return cluster.url(schema=schema_for(tmp_path))


def schema_for(directory):
    """A schema's name for a directory: the same each time, another for every test."""
    return f"t{hashlib.sha256(str(directory).encode()).hexdigest()[:16]}"
