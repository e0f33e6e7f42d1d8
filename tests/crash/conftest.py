"""Ledgers to tamper with, made once and copied for each test."""

from __future__ import annotations

import pytest

from tests.crash.tamper import TamperCase


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """One ledger of each kind, closed: by content mode and seed."""
    made = {}
    for content, seed in (("sealed", 0), ("clear", 0), ("sealed", 1)):
        case = TamperCase(tmp_path_factory.mktemp("made") / "ledger", content=content, seed=seed)
        case.close()
        made[content, seed] = case
    return made


@pytest.fixture
def case(made_once, tmp_path):
    """A sealed ledger."""
    copied = made_once["sealed", 0].copied(tmp_path / "ledger")
    yield copied
    copied.close()


@pytest.fixture(params=["sealed", "clear"])
def either(request, made_once, tmp_path):
    """A ledger of each content mode in turn."""
    copied = made_once[request.param, 0].copied(tmp_path / "ledger")
    yield copied
    copied.close()


@pytest.fixture
def stranger(made_once, tmp_path):
    """A sealed ledger of another id."""
    copied = made_once["sealed", 1].copied(tmp_path / "stranger")
    yield copied
    copied.close()
