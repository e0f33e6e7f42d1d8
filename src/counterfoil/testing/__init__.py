"""Test parts that ship with the library: the store contract suite, faults, crash points, a manual clock."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from counterfoil.testing.manual import ManualClock, SequentialIds

if TYPE_CHECKING:
    from counterfoil.testing.contract import (
        ArtifactStoreContract,
        FaultContract,
        KeyStoreContract,
        StoreContract,
    )

__all__ = [
    "ArtifactStoreContract",
    "FaultContract",
    "KeyStoreContract",
    "ManualClock",
    "SequentialIds",
    "StoreContract",
]

_SUITES = frozenset({"ArtifactStoreContract", "FaultContract", "KeyStoreContract", "StoreContract"})


def __getattr__(name: str) -> Any:
    # The suites need pytest, which a program that only wants a manual clock need not have.
    if name not in _SUITES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if "pytest" in sys.modules and "counterfoil.testing.contract" not in sys.modules:
        # Failing assertions of the shipped suite then show both sides, as those of the user's own tests do.
        sys.modules["pytest"].register_assert_rewrite("counterfoil.testing.contract")
    from counterfoil.testing import contract

    return getattr(contract, name)
