"""The effect soak in small: sixty effects against a real provider process, with workers and provider killed."""

from __future__ import annotations

import pytest

from counterfoil.testing import effect_kills
from counterfoil.testing.bank import read_book
from counterfoil.testing.effect_kills import run_effects

pytestmark = [pytest.mark.processes, pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")]


def told(found):
    pass


def test_sixty_effects_happen_once_whatever_is_killed(tmp_path):
    found = run_effects(tmp_path, seconds=5, seed=4, count=60, tell=told)
    assert found.problems == []
    assert (found.twice, found.lost) == (0, 0)
    assert found.killed + found.stopped + found.banks_killed > 0
    assert found.undecided == found.interrupted
    # The provider refuses one order in 37, counted from nought, and these it refuses whatever happens.
    assert found.outcomes["rejected"] == 2
    assert sum(found.outcomes.values()) == 60


def test_a_payment_that_happened_twice_and_one_that_never_did_are_found(tmp_path, monkeypatch):
    def cooked(book):
        receipts = read_book(book)
        return [*[receipt for receipt in receipts if receipt["order"] != 2], receipts[0]]

    monkeypatch.setattr(effect_kills, "read_book", cooked)
    found = run_effects(tmp_path, seconds=0, seed=4, count=4, tell=told)
    assert (found.twice, found.lost) == (1, 1)
    assert len(found.problems) == 2
