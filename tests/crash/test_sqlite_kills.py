"""Writers killed with SIGKILL: what was acknowledged is there, nothing is there twice, the chain is whole."""

from __future__ import annotations

import pytest

from counterfoil.testing.kills import run_kills

pytestmark = [pytest.mark.processes, pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")]


@pytest.mark.parametrize("seed", [1, 2])
def test_every_acknowledged_event_survives_the_death_of_its_writer(tmp_path, seed):
    tally, problems = run_kills(tmp_path, 2.0, seed, lambda _: None)
    assert problems == []
    assert tally.kills > 0
    assert tally.acknowledged
