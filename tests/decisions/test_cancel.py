"""What cancelling means for every state of a run (DESIGN 7)."""

from __future__ import annotations

import pytest

from counterfoil.core.event_types import TERMINALS
from counterfoil.runtime.cancel import judge_cancel

OPEN = [
    # state, held by a live worker, asked already, what is done
    ("running", True, False, "request"),
    ("running", True, True, "wait"),
    ("running", False, False, "end"),
    ("running", False, True, "end"),
    # A waiting run holds no slot: the lease is another run's.
    ("suspended", False, False, "end"),
    ("suspended", True, False, "end"),
    ("suspended", True, True, "end"),
]


@pytest.mark.parametrize("state,held,requested,done", OPEN)
def test_an_open_run_is_asked_of_whoever_holds_it_and_otherwise_ended(state, held, requested, done):
    assert judge_cancel(state=state, terminal=None, held=held, requested=requested) == done


@pytest.mark.parametrize("terminal", TERMINALS)
def test_a_run_that_ended_is_left_as_it_is(terminal):
    judged = judge_cancel(state="finished", terminal=terminal, held=False, requested=True)
    assert judged == ("same" if terminal == "cancelled" else "late")
