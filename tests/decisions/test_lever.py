"""A lever against every command: where it stands then, and where nothing is written (DESIGN 7)."""

from __future__ import annotations

import pytest

from counterfoil.effects.holding import judge_lever

TABLE = [
    (None, "hold", "held"),
    (None, "release", None),
    ("held", "hold", None),
    ("held", "release", "released"),
    ("released", "hold", "held"),
    ("released", "release", None),
]


@pytest.mark.parametrize("state,command,then", TABLE)
def test_a_command_moves_the_lever_or_finds_it_where_it_belongs(state, command, then):
    assert judge_lever(state, command) == then
