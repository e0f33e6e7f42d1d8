"""Failure mode: the worker dies after the provider has the request and before it has the answer (seed 004, step 4)."""

from __future__ import annotations

import pytest

from counterfoil.errors import RunWaiting


@pytest.fixture
def crashed(stage):
    """A provider that has booked a refund under this rule, and nobody here who knows."""

    def crash(rule):
        stage.provider.deduplicates = False
        refund = stage.refund(rule)
        stage.crash(refund)
        stage.world.time_passes()
        assert stage.provider.booked("refund:O-1042") == 1
        return refund

    return crash


def test_what_is_left_is_an_intention_and_no_claim_about_its_outcome(stage, crashed):
    crashed("review")
    assert stage.stream() == ["effect.intended"]


def test_the_rows_say_intended_and_running_and_nothing_more(stage, crashed):
    crashed("review")
    assert (stage.effects(), stage.runs(), stage.reviews()) == (["intended"], [("running", None)], [])


def test_the_next_worker_asks_with_the_recorded_key_and_finds_the_refund(stage, crashed):
    crashed("lookup")
    ledger = stage.open()
    ledger.recover()
    assert stage.stream("answer", "source") == [
        ("effect.intended", None, None),
        ("effect.looked_up", "found", None),
        ("effect.observed", None, "lookup"),
    ]
    (observed,) = ledger.events("case-8472", types={"effect.observed"})
    assert observed.content["provider_effect_id"] == "re_1"
    assert stage.effects() == ["succeeded"]
    assert stage.provider.booked() == 1


def test_the_agent_goes_on_with_what_was_found_and_sends_nothing(stage, crashed):
    refund = crashed("lookup")
    assert stage.serve(refund) == "re_1"
    assert stage.runs() == [("finished", "success")]
    assert stage.provider.requests == ["refund:O-1042"]


def test_a_provider_that_cannot_be_asked_leaves_a_visible_hold_that_a_human_ends(stage, crashed):
    refund = crashed("review")
    stage.open().recover()
    assert (stage.reviews(), stage.effects()) == (["by_review"], ["in_review"])
    with pytest.raises(RunWaiting):
        stage.serve(refund)
    ledger = stage.open()
    (review,) = ledger.reviews()
    result = {"id": "re_1", "key": "refund:O-1042"}
    ledger.settle(
        review["review_id"], "succeeded", by="A. Clerk", reason="in the provider's book", result=result
    )
    assert stage.serve(refund) == "re_1"
    assert (stage.runs(), stage.effects(), stage.reviews()) == ([("finished", "success")], ["settled"], [])
    assert stage.provider.requests == ["refund:O-1042"]
    assert stage.stream() == ["effect.intended", "effect.review_requested", "effect.settled"]
