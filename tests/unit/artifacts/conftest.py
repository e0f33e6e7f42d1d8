"""Fixtures: a world in memory, and a worker in it."""

from __future__ import annotations

import pytest

from counterfoil.effects.registry import own_tools
from tests.running import World


@pytest.fixture(autouse=True)
def _own_tools():
    with own_tools():
        yield


@pytest.fixture
def world():
    return World()


@pytest.fixture
def ledger(world):
    return world.worker()
