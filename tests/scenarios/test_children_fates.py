"""Every terminal of a parent, against a child in every state, reachable or not, on every engine (ADR 0175)."""

from __future__ import annotations

import contextlib
from contextlib import closing

import pytest

from counterfoil.core.event_types import TERMINALS
from counterfoil.errors import RunNotFound
from counterfoil.runtime.children.decide import CHILD_STATES, STOPPING
from counterfoil.testing.crash import World
from counterfoil.testing.truth import check_truth
from tests.family import CASE, Family

REACH = {"reachable": True, "unreachable": False}
POSTGRES_SAMPLE = [
    ("cancelled", "spawned", "unreachable"),
    ("cancelled", "running", "reachable"),
    ("shutdown", "running", "unreachable"),
    ("timeout", "suspended", "reachable"),
    ("interrupted", "purged", "unreachable"),
    ("superseded", "running", "reachable"),
    ("success", "spawned", "reachable"),
    ("context_overflow", "settled", "reachable"),
]


def wanted(terminal: str, state: str, reach: str) -> tuple[str, bool]:
    """The child's state after the end, and whether it was left, in the words of ADR 0175.

    A child that nobody carries out is ended by the ledger itself, so its host need not be reached.
    """
    if state in ("settled", "stopped", "lost"):
        return state, False
    if terminal not in STOPPING:
        return state, True
    unheld = state in ("spawned", "suspended")
    return ("stopped" if unheld or reach == "reachable" else "lost"), False


def play(family: Family, terminal: str, state: str, reach: str):
    """One parent that ends so, while its child stands so; the child as it stands then."""
    link = family.spawned_before(state)
    with contextlib.suppress(BaseException), family.parent(deadline_s=10) as run:
        if link is None:
            link = run.spawn("kid", {"do": "this"})
            family.bring(link, state)
        family.host.unreachable = not REACH[reach]
        family.end(run, terminal)
    ledger = family.open()
    row = ledger.run_row(run.id)
    assert (row["state"], row["terminal"]) == ("finished", terminal)
    (child,) = ledger.children(CASE)
    assert child.link.run_id == link.run_id
    return ledger, child


def judge(family: Family, terminal: str, state: str, reach: str) -> None:
    ledger, child = play(family, terminal, state, reach)
    assert (child.state, child.left) == wanted(terminal, state, reach)
    settled = [e for e in ledger.events(CASE, types=["child.settled"]) if e.data["state"] != "finished"]
    if state not in ("settled", "stopped", "lost"):
        assert [dict(e.data) | {"run": e.header.run_id} for e in settled] == [
            {
                "child_stream_id": child.link.stream_id,
                "state": "left" if child.left else child.state,
                "by": "parent",
                "parent_terminal": terminal,
                "run": child.link.parent_run_id,
            }
        ]
    again = ledger.recover().children
    if state == "purged" and child.left:
        assert [report.done for report in again] == ["lost"]
    else:
        assert again == []
    with contextlib.suppress(RunNotFound):
        if child.state == "stopped" and state in ("running", "suspended"):
            assert ledger.run_row(child.link.run_id)["terminal"] == "cancelled"
    check_truth(ledger)


@pytest.mark.parametrize("reach", REACH)
@pytest.mark.parametrize("state", CHILD_STATES)
@pytest.mark.parametrize("terminal", TERMINALS)
def test_the_fate_of_a_child_in_memory(terminal, state, reach):
    with closing(World()) as world:
        judge(Family(world), terminal, state, reach)


@pytest.mark.parametrize("reach", REACH)
@pytest.mark.parametrize("state", CHILD_STATES)
@pytest.mark.parametrize("terminal", TERMINALS)
def test_the_fate_of_a_child_on_sqlite(terminal, state, reach, tmp_path):
    with closing(World(tmp_path / "ledger")) as world:
        judge(Family(world), terminal, state, reach)


@pytest.mark.postgres
@pytest.mark.parametrize("terminal,state,reach", POSTGRES_SAMPLE)
def test_the_fate_of_a_child_on_postgresql(terminal, state, reach, place):
    with closing(World(place)) as world:
        judge(Family(world), terminal, state, reach)
