"""Rows and folds say the same, and both can be made again from the events alone (DESIGN 2.7)."""

from __future__ import annotations

import contextlib

import pytest

import counterfoil
from counterfoil.effects.registry import own_tools
from counterfoil.errors import AdmissionAbsorbed, AdmissionRejected, LeaseLost, RunBusy, RunWaiting
from counterfoil.runtime import rows
from counterfoil.runtime.state import Conversation, evolve
from counterfoil.store.facts import recorded_fact
from tests.running import vanish


@pytest.fixture
def eventful(world, ledger):
    """A conversation in which everything that can become of an input and of a run has happened."""
    other = world.worker()

    with own_tools():

        @counterfoil.effect("t.lost", version="1", touches={"money"}, doubt=counterfoil.by_review())
        def lost():
            raise ConnectionError

        with ledger.run("a", conversation="c", message="one", dedupe="1") as run:
            for policy, refusal in (
                ("queue", RunBusy),
                ("absorb", AdmissionAbsorbed),
                ("reject", AdmissionRejected),
            ):
                with pytest.raises(refusal):
                    other.run(
                        "a", conversation="c", message=policy, dedupe=policy, while_running=policy
                    ).__enter__()
            run.step("s", lambda: 1)
        with contextlib.suppress(RunWaiting), ledger.run("a", conversation="c", message="two", dedupe="2"):
            lost()
        vanish(ledger.run("a", conversation="c", dedupe="3"))
        world.expire_leases()
        vanish(ledger.run("a", conversation="c"))
        world.expire_leases()
        newer = other.run("a", conversation="c", while_running="supersede")
        with contextlib.suppress(LeaseLost), ledger.run("a", conversation="c", dedupe="4"), newer:
            pass
        with other.run("a", conversation="c", message="queue", dedupe="queue"):
            pass
        vanish(ledger.run("a", conversation="c", dedupe="3"))
    return ledger


def test_the_fold_of_the_headers_agrees_with_every_row(eventful):
    state = Conversation()
    for event in eventful.events("c"):
        state = evolve(state, event.type, event.data, event.header.run_id)
    runs = {row["run_id"]: rows.run_of_row(row) for row in eventful.runs("c")}
    assert dict(state.runs) == runs
    assert {run.terminal for run in runs.values()} == {"success", "interrupted", "superseded", None}
    admissions = {
        admission_id: rows.admission_of_row(eventful.store.get(rows.ADMISSIONS, (admission_id,)))
        for admission_id in state.admissions
    }
    assert dict(state.admissions) == admissions
    assert {admission.state for admission in admissions.values()} == {
        "started",
        "released",
        "rejected",
        "superseded",
    }


def test_rows_made_again_from_the_events_are_the_same(eventful):
    stream_id = eventful.stream_of("c")
    before = everything(eventful)
    changes = []
    for event in eventful.events(stream_id):
        if event.type in rows.FEATURE.event_types:
            fact = recorded_fact(eventful.tenant, event.header, event.content)
            changes += rows.rows(fact, eventful.ports.index)
    eventful.store.rebuild_rows(stream_id, changes)
    assert everything(eventful) == before


def everything(ledger):
    found = []
    for table in rows.FEATURE.tables:
        for row in ledger.store.select(table.name, limit=1000):
            row.pop("row_version")
            found.append((table.name, row))
    return found


def test_an_event_without_its_content_still_gives_its_row(eventful):
    """Erased or keyless, a conversation still folds; only what is looked up by a text from outside is gone."""
    for event in eventful.events("c"):
        if event.type in rows.FEATURE.event_types:
            fact = recorded_fact(eventful.tenant, event.header, None)
            assert list(rows.rows(fact, eventful.ports.index))
