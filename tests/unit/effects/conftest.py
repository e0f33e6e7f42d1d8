"""A ledger in memory on a manual clock, a provider with faults, and tools that are forgotten after each test."""

from __future__ import annotations

import threading

import pytest

from counterfoil.effects import late
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
        events = [
            event
            for event in ledger.events("case")
            if event.type.startswith(("effect.", "retry.", "review."))
        ]
        return [event.type if field is None else (event.type, event.data.get(field)) for event in events]

    return tell


@pytest.fixture
def late_recorded(monkeypatch):
    """Call it to wait until a late answer has been looked at and recorded."""
    done = threading.Semaphore(0)
    keep = late._keep

    def kept(*args):
        keep(*args)
        done.release()

    monkeypatch.setattr(late, "_keep", kept)
    return lambda: done.acquire(timeout=30)
