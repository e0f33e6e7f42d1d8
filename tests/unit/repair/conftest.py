"""A bank on a ledger in memory with a manual clock; tools are forgotten after each test."""

from __future__ import annotations

import pytest

from counterfoil.effects.registry import own_tools
from counterfoil.testing.crash import World
from counterfoil.testing.truth import check_truth
from tests.repairing import Bank, check_repairs


@pytest.fixture
def world():
    with own_tools():
        world = World()
        yield world
        world.close()


@pytest.fixture
def bank(world):
    """Checked at the end: every byte, and every row against its events."""
    bank = Bank(world.open())
    yield bank
    check_truth(bank.ledger)
    check_repairs(bank.ledger)


@pytest.fixture
def refunded(bank):
    """The effect that is to be repaired."""
    return bank.serve()
