"""Failure mode: the provider rejects the request. The rejection is final, recorded once, and seen by the code."""

from __future__ import annotations

import pytest

from counterfoil.errors import Rejected
from tests.stage import CASE


@pytest.fixture
def refund(stage):
    stage.provider.plan("rejected")
    return stage.refund()


def tell(stage, refund, dedupe="m1"):
    """Tells the customer what came of it."""

    async def agent():
        async with stage.run(stage.open(), dedupe=dedupe) as run:
            try:
                await stage.call(refund, "O-1042")
                said = "refunded"
            except Rejected as error:
                said = f"not refunded: {error.reason}"
            run.finish(said)
            return said

    return stage.play(agent())


def test_the_stream_holds_the_rejection_with_its_reason_as_content(stage, refund):
    assert tell(stage, refund) == "not refunded: limit"
    assert stage.stream("outcome", "error_class") == [
        ("effect.intended", None, None),
        ("effect.observed", "rejected", "Rejected"),
    ]
    ledger = stage.open()
    (observed,) = ledger.events(CASE, types={"effect.observed"})
    assert observed.content["error"]["fields"] == {"reason": "limit"}
    (stored,) = ledger.store.read(ledger.stream_of(CASE), after=observed.sequence - 1, limit=1)
    assert b"limit" not in stored.header


def test_the_rows_show_it_and_the_run_ends_well(stage, refund):
    tell(stage, refund)
    assert (stage.effects(), stage.runs()) == (["rejected"], [("finished", "success")])


def test_it_is_not_sent_again_by_a_resumed_run_or_by_another(stage, refund):
    for dedupe in ("m1", "m1", "m2"):
        assert tell(stage, refund, dedupe) == "not refunded: limit"
    assert len(stage.provider.requests) == 1


def test_recovery_has_nothing_to_do(stage, refund):
    tell(stage, refund)
    stage.world.time_passes()
    assert stage.open().recover().effects == []
