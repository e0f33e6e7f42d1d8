"""The store contract on PostgreSQL: the version that the suite brings along, and the system's own."""

from __future__ import annotations

import pytest

from counterfoil.testing import FaultContract, KeyStoreContract, StoreContract
from counterfoil.testing.contract.appending import AppendContract
from counterfoil.testing.contract.concurrency import ConcurrencyContract
from counterfoil.testing.contract.lasting import LastingContract
from counterfoil.testing.contract.leases import LeaseContract
from counterfoil.testing.contract.snapshots import SnapshotContract
from counterfoil.testing.events import SAMPLE_LEDGER
from tests.servers.fixtures import schema_for

pytestmark = pytest.mark.postgres


class OnServer:
    """Opens stores in a schema named after the directory that the suite gives."""

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


class TestPostgresStore(OnServer, StoreContract):
    pass


class TestPostgresStoreWithFaults(OnServer, FaultContract):
    pass


class TestPostgresKeyStore(OnServer, KeyStoreContract):
    pass


@pytest.mark.older_postgres
class TestOlderPostgresStore(OnServer, StoreContract):
    kind = "system"


@pytest.mark.older_postgres
class TestOlderPostgresKeyStore(OnServer, KeyStoreContract):
    kind = "system"


@pytest.mark.pooler
class TestPostgresStoreBehindAPooler(
    OnServer, AppendContract, LeaseContract, SnapshotContract, ConcurrencyContract, LastingContract
):
    """Four server connections for every thread and handle: nothing may rest on a session."""

    @pytest.fixture(autouse=True)
    def _a_pooler(self, pooler):
        self.port = pooler.port

    def place(self, directory):
        return self.cluster.url(port=self.port, schema=schema_for(directory))
