"""The public names of ``counterfoil`` are few, sorted, and change only on purpose."""

from __future__ import annotations

from pathlib import Path

import counterfoil

NAMES_MAX = 25
SNAPSHOT = Path(__file__).with_name("public_api.txt")


def test_public_names_are_those_of_the_snapshot():
    assert list(counterfoil.__all__) == SNAPSHOT.read_text("utf-8").split()


def test_public_names_are_sorted_and_few():
    assert list(counterfoil.__all__) == sorted(set(counterfoil.__all__))
    assert len(counterfoil.__all__) <= NAMES_MAX


def test_every_public_name_is_there_and_documented():
    undocumented = [name for name in counterfoil.__all__ if not getattr(counterfoil, name).__doc__]
    assert undocumented == []


def test_dir_shows_the_public_names():
    assert set(counterfoil.__all__) <= set(dir(counterfoil))
