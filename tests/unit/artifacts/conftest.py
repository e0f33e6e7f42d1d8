"""Fixtures: a world in memory, and a worker in it."""

from __future__ import annotations

import pytest

from tests.running import World


@pytest.fixture
def world():
    return World()


@pytest.fixture
def ledger(world):
    return world.worker()
