"""Fixtures: a world in memory, and a ledger in it that somebody guards."""

from __future__ import annotations

import pytest

from counterfoil.access import RoleAuthorizer
from tests.running import World

PEOPLE = {"ann": ["auditor"], "olga": ["operator"], "sam": ["security"]}


@pytest.fixture
def world():
    return World()


@pytest.fixture
def ledger(world):
    found = world.worker()
    found.authorizer = RoleAuthorizer(PEOPLE)
    with found.run("shop", conversation="c", message="Where is my parcel?") as run:
        run.step("look", lambda: "on its way")
    return found
