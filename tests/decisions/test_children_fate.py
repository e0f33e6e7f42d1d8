"""The fate of a child by how a run of its parent conversation ended: the table of ADR 0175, cell by cell."""

from __future__ import annotations

import pytest

from counterfoil.core.event_types import TERMINALS
from counterfoil.runtime.children.decide import CHILD_STATES, STOPPING, fate

STOPS = ("interrupted", "cancelled", "timeout", "shutdown")
LEAVES = (
    *("success", "policy_stop", "provider_stop"),
    *("superseded", "absorbed"),
    *("provider_failure", "runtime_failure", "storage_conflict", "output_rejected", "context_overflow"),
)


def test_the_table_has_a_line_for_each_of_the_14_terminals():
    assert len(TERMINALS) == 14
    assert sorted((*STOPS, *LEAVES)) == sorted(TERMINALS)
    assert sorted(STOPS) == sorted(STOPPING)
    assert CHILD_STATES == ("spawned", "running", "suspended", "settled", "stopped", "lost", "purged")


@pytest.mark.parametrize("terminal", TERMINALS)
@pytest.mark.parametrize("state", CHILD_STATES)
@pytest.mark.parametrize("reachable", [True, False])
def test_a_childs_fate_is_what_the_table_says(terminal, state, reachable):
    if state in ("settled", "stopped", "lost"):
        wanted = "kept"
    elif terminal in LEAVES:
        wanted = "left"
    else:
        wanted = "stopped" if reachable else "lost"
    assert fate(terminal, state, reachable=reachable) == wanted


@pytest.mark.parametrize("state", CHILD_STATES)
def test_what_is_no_terminal_decides_nothing(state):
    with pytest.raises(ValueError, match="no terminal"):
        fate("finished", state, reachable=True)
