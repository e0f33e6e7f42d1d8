"""Every terminal of a parent, against a child in every state, reachable or not, on every engine (ADR 0175)."""

from __future__ import annotations

import contextlib
from contextlib import closing

import pytest

from counterfoil.core.event_types import TERMINALS
from counterfoil.errors import CounterfoilError, RunNotFound
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


# ---- purged ----------------------------------------------------------------------------------------------------------


def purge_both(family: Family) -> None:
    """Both conversations go while the child is at work; its row says what became of it, and a rebuild keeps it."""
    with family.parent() as run:
        link = run.spawn("kid", "go")
    with contextlib.suppress(CounterfoilError), family.child(link) as child:
        family.purge(link.parent_stream_id)
        family.purge(link.stream_id)
        child.finish("nobody will read it")
    ledger = family.open()
    (standing,) = ledger.children()
    assert (standing.state, standing.settled_by, standing.link.run_id) == ("settled", "child", link.run_id)
    ledger.rebuild()
    assert [other.state for other in ledger.children()] == ["settled"]
    check_truth(ledger)


def purge_parent(family: Family) -> None:
    """A purged parent takes no more events; its child's own conversation says what became of it."""
    with family.parent() as run:
        link = run.spawn("kid", "go")
    family.purge(link.parent_stream_id)
    with family.child(link) as child:
        child.finish("done all the same")
    ledger = family.open()
    (settled,) = ledger.events(link.stream_id, types=["child.settled"])
    assert settled.content["result"]["output"] == "done all the same"
    assert ledger.parent_of(link.run_id).state == "settled"
    ledger.rebuild()
    assert ledger.parent_of(link.run_id).state == "settled"
    check_truth(ledger)


@pytest.mark.parametrize("play_it", [purge_both, purge_parent])
def test_a_child_settles_after_a_purge_on_sqlite(play_it, tmp_path):
    with closing(World(tmp_path / "ledger")) as world:
        play_it(Family(world))


@pytest.mark.postgres
@pytest.mark.parametrize("play_it", [purge_both, purge_parent])
def test_a_child_settles_after_a_purge_on_postgresql(play_it, place):
    with closing(World(place)) as world:
        play_it(Family(world))
