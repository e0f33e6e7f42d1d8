"""Test parts that ship with the library: the store contract suite, faults, crash points, a manual clock."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from counterfoil.testing.manual import ManualClock, SequentialIds

if TYPE_CHECKING:
    from counterfoil.testing.contract import (
        ArtifactStoreContract,
        FaultContract,
        KeyStoreContract,
        StoreContract,
    )
    from counterfoil.testing.crash import World, crash_here
    from counterfoil.testing.everywhere import crash_everywhere, memory_ledger
    from counterfoil.testing.provider import FakeProvider

__all__ = [
    "ArtifactStoreContract",
    "FakeProvider",
    "FaultContract",
    "KeyStoreContract",
    "ManualClock",
    "SequentialIds",
    "StoreContract",
    "World",
    "crash_everywhere",
    "crash_here",
    "memory_ledger",
]

_SUITES = frozenset({"ArtifactStoreContract", "FaultContract", "KeyStoreContract", "StoreContract"})

_MODULES = {
    "FakeProvider": "provider",
    "World": "crash",
    "crash_everywhere": "everywhere",
    "crash_here": "crash",
    "memory_ledger": "everywhere",
}
"""Where the parts for tests of one's own tools stand; they bring the whole ledger along, which a clock does not."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"counterfoil.testing.{_MODULES[name]}"), name)
    # The suites need pytest, which a program that only wants a manual clock need not have.
    if name not in _SUITES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if "pytest" in sys.modules and "counterfoil.testing.contract" not in sys.modules:
        # Failing assertions of the shipped suite then show both sides, as those of the user's own tests do.
        sys.modules["pytest"].register_assert_rewrite("counterfoil.testing.contract")
    from counterfoil.testing import contract

    return getattr(contract, name)
