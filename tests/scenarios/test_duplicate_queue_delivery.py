"""Failure mode: the queue delivers a message again, while a worker is at it, after it died, or after it was done."""

from __future__ import annotations

import pytest

from counterfoil.errors import RunBusy
from tests.stage import CASE


@pytest.fixture
def refund(stage):
    return stage.refund("lookup_then_key")


def events(stage):
    return [event.type for event in stage.open().events(CASE)]


def test_a_delivery_while_a_worker_holds_the_run_is_told_so_and_records_nothing(stage, refund):
    stage.crash(refund)
    before = events(stage)
    with pytest.raises(RunBusy):
        stage.serve(refund)
    assert events(stage) == before
    assert stage.provider.requests == ["refund:O-1042"]


def test_the_rows_still_say_that_one_run_is_under_way(stage, refund):
    stage.crash(refund)
    with pytest.raises(RunBusy):
        stage.serve(refund)
    assert (stage.runs(), stage.effects()) == ([("running", None)], ["intended"])


@pytest.mark.parametrize("where", ["append effect.intended", "call payment.refund", "append effect.observed"])
def test_a_delivery_after_the_worker_died_goes_on_with_its_run(stage, refund, where):
    stage.crash(refund, where)
    stage.world.time_passes()
    assert stage.serve(refund) == "re_1"
    assert events(stage).count("run.started") == 1
    assert stage.stream()[0] == "effect.intended"
    assert stage.stream()[-1] == "effect.observed"
    assert (stage.runs(), stage.effects()) == ([("finished", "success")], ["succeeded"])
    assert stage.provider.booked() == 1


def test_a_delivery_whose_acknowledgement_was_lost_is_answered_from_the_record(stage, refund):
    first = stage.serve(refund)
    before = events(stage)
    assert [stage.serve(refund) for _ in range(2)] == [first, first]
    assert events(stage) == before
    assert stage.provider.requests == ["refund:O-1042"]


def test_the_rows_of_a_run_that_was_done_are_not_touched(stage, refund):
    stage.serve(refund)
    before = stage.open().runs(), stage.open().effects()
    stage.serve(refund)
    assert (stage.open().runs(), stage.open().effects()) == before
