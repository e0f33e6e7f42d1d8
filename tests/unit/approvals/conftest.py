"""A shop on a ledger in memory with a manual clock; tools are forgotten after each test."""

from __future__ import annotations

import pytest

from counterfoil.effects.registry import own_tools
from counterfoil.testing.crash import World
from counterfoil.testing.truth import check_truth
from tests.approving import Shop, check_approvals


@pytest.fixture
def world():
    with own_tools():
        world = World()
        yield world
        world.close()


@pytest.fixture
def shop(world):
    """Checked at the end: every byte, and every row against its events."""
    shop = Shop(world.open())
    yield shop
    check_truth(shop.ledger)
    check_approvals(shop.ledger)
