"""A failure that is certain is tried again when it is due, by whoever is there, on every engine and in both ways."""

from __future__ import annotations

import pytest

import counterfoil
from counterfoil.effects import Retry
from counterfoil.errors import RunWaiting
from counterfoil.runtime.agents import own_agents

LATER = Retry(first_delay_s=600, delay_max_s=600, jitter=0)


@pytest.fixture
def waiting(stage):
    """A refund that the provider does not make at first, by an agent that workers know; the run waits."""
    refund = stage.refund(rule="review", retry=LATER)
    stage.provider.plan("not_done")

    def agent(run):
        run.finish(refund("O-1042")["id"])

    async def async_agent(run):
        run.finish((await refund("O-1042"))["id"])

    with own_agents():
        counterfoil.agent("refund-agent")(async_agent if stage.asynchronous else agent)

        with pytest.raises(RunWaiting):
            stage.serve(refund)
        yield refund


def test_it_is_decided_on_record_with_a_due_time_in_a_row(stage, waiting):
    ledger = stage.open()
    assert stage.stream() == ["effect.intended", "effect.observed", "retry.decided"]
    (row,) = ledger.store.select("retries", "by_decided", ("default",), None, 10)
    assert (row["attempt"], row["delay_ms"], row["error_class"]) == (1, 600_000, "NotDone")
    assert list(ledger.ready()) == []


def test_a_worker_makes_it_when_it_is_due_and_goes_on_with_the_run(stage, waiting):
    ledger = stage.open()
    done = []
    worker = ledger.worker(tell=lambda happened: done.append(happened.done))
    assert (worker.look(), done) == (False, [])
    stage.world.clock.advance(600_000)
    worker.look()
    assert done == ["decided", "ended"]
    assert ledger.runs()[0]["terminal"] == "success"
    assert stage.provider.booked() == 1
    assert ledger.store.select("retries", "by_decided", ("default",), None, 10) == []


def test_rows_of_retries_and_reviews_are_made_again_from_the_events(stage, waiting):
    ledger = stage.open()
    before = ledger.store.select("retries", "by_decided", ("default",), None, 10)
    ledger.rebuild()
    after = ledger.store.select("retries", "by_decided", ("default",), None, 10)
    assert [{**row, "row_version": 0} for row in after] == [{**row, "row_version": 0} for row in before]
