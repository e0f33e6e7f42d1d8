"""The store contract on PostgreSQL: the version that the suite brings along, and the system's own."""

from __future__ import annotations

import pytest

from counterfoil.testing import FaultContract, KeyStoreContract, StoreContract
from counterfoil.testing.contract.appending import AppendContract
from counterfoil.testing.contract.case import SAMPLE_TABLES
from counterfoil.testing.contract.concurrency import ConcurrencyContract
from counterfoil.testing.contract.lasting import LastingContract
from counterfoil.testing.contract.leases import LeaseContract
from counterfoil.testing.contract.snapshots import SnapshotContract
from counterfoil.testing.events import SAMPLE_LEDGER
from tests.servers.fixtures import schema_for
from tests.servers.reused import SpareLedgers

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def spares(clusters):
    """The ledgers that are used again, on each kind of server."""
    made = {}

    def of(kind):
        if kind not in made:
            made[kind] = SpareLedgers(clusters(kind), SAMPLE_TABLES)
        return made[kind]

    yield of
    for ledgers in made.values():
        ledgers.close()


class OnServer:
    """Opens key stores in a schema named after the directory that the suite gives, made for each test."""

    kind = "packaged"

    @pytest.fixture(autouse=True)
    def _a_server(self, clusters):
        self.cluster = clusters(self.kind)

    def place(self, directory):
        return self.cluster.url(schema=schema_for(directory))

    def open_store(self, directory, tables, clock):
        from counterfoil.adapters.postgres import open_postgres

        return open_postgres(
            self.place(directory), tables=tables, clock=clock, create=True, ledger_id=SAMPLE_LEDGER
        )

    def open_key_store(self, directory):
        from counterfoil.adapters.postgres import PostgresKeyStore

        self.open_store(directory, (), None).close()
        return PostgresKeyStore(self.place(directory), create=True)


class Stores(OnServer):
    """Opens stores; the ledger that one test has closed is emptied for the next. Each worker's first is made anew."""

    port = None

    @pytest.fixture(autouse=True)
    def _ledgers(self, _a_server, spares):
        self.spares, self.schemas = spares(self.kind), {}
        yield
        for schema in self.schemas.values():
            self.spares.give_back(schema)

    def place(self, directory):
        if directory not in self.schemas:
            self.schemas[directory] = self.spares.take(directory)
        return self.cluster.url(port=self.port, schema=self.schemas[directory])


class TestPostgresStore(Stores, StoreContract):
    pass


class TestPostgresStoreWithFaults(Stores, FaultContract):
    pass


class TestPostgresKeyStore(OnServer, KeyStoreContract):
    pass


@pytest.mark.older_postgres
class TestOlderPostgresStore(Stores, StoreContract):
    kind = "system"


@pytest.mark.older_postgres
class TestOlderPostgresKeyStore(OnServer, KeyStoreContract):
    kind = "system"


@pytest.mark.pooler
class TestPostgresStoreBehindAPooler(
    Stores, AppendContract, LeaseContract, SnapshotContract, ConcurrencyContract, LastingContract
):
    """Four server connections for every thread and handle: nothing may rest on a session."""

    @pytest.fixture(autouse=True)
    def _a_pooler(self, pooler):
        self.port = pooler.port
