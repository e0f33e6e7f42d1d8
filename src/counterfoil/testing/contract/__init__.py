"""StoreContract, FaultContract, KeyStoreContract, ArtifactStoreContract: each sentence of the contracts as a test, for any engine."""

from __future__ import annotations

from counterfoil.testing.contract.appending import AppendContract
from counterfoil.testing.contract.artifacts import ArtifactStoreContract
from counterfoil.testing.contract.case import ContractCase
from counterfoil.testing.contract.companions import CompanionContract
from counterfoil.testing.contract.concurrency import ConcurrencyContract
from counterfoil.testing.contract.conditions import ConditionContract
from counterfoil.testing.contract.duplicates import DuplicateContract
from counterfoil.testing.contract.faults import FaultContract
from counterfoil.testing.contract.feeds import FeedContract
from counterfoil.testing.contract.keystores import KeyStoreContract
from counterfoil.testing.contract.lasting import LastingContract
from counterfoil.testing.contract.leases import LeaseContract
from counterfoil.testing.contract.loading import LoadContract
from counterfoil.testing.contract.reading import ReadContract
from counterfoil.testing.contract.rows import RowContract
from counterfoil.testing.contract.selecting import SelectContract
from counterfoil.testing.contract.snapshots import SnapshotContract
from counterfoil.testing.contract.standings import StandingContract

__all__ = ["ArtifactStoreContract", "ContractCase", "FaultContract", "KeyStoreContract", "StoreContract"]


class StoreContract(
    AppendContract,
    DuplicateContract,
    ConditionContract,
    RowContract,
    CompanionContract,
    SelectContract,
    LeaseContract,
    ReadContract,
    SnapshotContract,
    FeedContract,
    ConcurrencyContract,
    LastingContract,
    LoadContract,
    StandingContract,
):
    """The suite of DESIGN 4, run by pytest on an adapter.

    ::

        class TestMyStore(StoreContract):
            def open_store(self, directory, tables, clock):
                return MyStore(directory, tables, clock)

    ``open_store`` is called again with the same directory where a test closes and reopens (capability ``durable``)
    or opens a second handle (``shared``). What an adapter cannot do according to its capabilities is skipped.
    """
