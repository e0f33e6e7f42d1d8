"""A ledger in memory on a manual clock, a provider with faults, and tools that are forgotten after each test."""

from __future__ import annotations

import pytest

from counterfoil.effects.registry import own_tools
from counterfoil.testing.crash import World
from counterfoil.testing.provider import FakeProvider


@pytest.fixture(autouse=True)
def _own_tools():
    with own_tools():
        yield


@pytest.fixture
def world():
    """Several workers may open a ledger on it."""
    world = World()
    yield world
    world.close()


@pytest.fixture
def ledger(world):
    """One worker's handle."""
    return world.open()


@pytest.fixture
def provider():
    """The world outside."""
    return FakeProvider()


@pytest.fixture
def told(ledger):
    """What the conversation ``case`` tells about effects: types, or types with one public field."""

    def tell(field=None):
        story = []
        for event in ledger.events("case"):
            if event.type.startswith(("effect.", "retry.", "review.")):
                story.append(event.type if field is None else (event.type, event.data.get(field)))
        return story

    return tell
