"""Failure mode: what a record leans on is gone: an artifact that a call refers to, or the content of an observation.

The headers still say what happened, so what was done is not done again. What cannot be handed out is refused by name.
"""

from __future__ import annotations

import pytest

from counterfoil.client.features import FEATURES
from counterfoil.errors import ContentUnavailable, ToolInvalid
from counterfoil.evidence.verify import verify
from tests.stage import CASE


@pytest.fixture
def receipt(tmp_path):
    """A file that the refund refers to."""
    path = tmp_path / "receipt.pdf"
    path.write_bytes(b"paid 40.00")
    return path


@pytest.fixture
def with_receipt(stage, receipt):
    return stage.refund(artifacts=lambda order, **_: [receipt])


def test_a_call_whose_artifact_is_missing_is_refused_before_anything_is_recorded(
    stage, with_receipt, receipt
):
    receipt.unlink()
    with pytest.raises(ToolInvalid, match="cannot be read"):
        stage.serve(with_receipt)
    assert stage.stream() == []
    assert stage.provider.requests == []


def test_the_rows_know_no_effect_of_it_and_a_run_that_failed(stage, with_receipt, receipt):
    receipt.unlink()
    with pytest.raises(ToolInvalid):
        stage.serve(with_receipt)
    assert (stage.effects(), stage.runs()) == ([], [("finished", "runtime_failure")])


def test_a_resumed_run_whose_artifact_went_missing_sends_nothing_again(stage, with_receipt, receipt):
    stage.provider.plan("answer_lost")
    stage.crash(with_receipt, "append effect.observed")
    stage.world.time_passes()
    receipt.unlink()
    with pytest.raises(ToolInvalid, match="cannot be read"):
        stage.serve(with_receipt)
    assert len(stage.provider.requests) == 1


def test_an_observation_without_its_content_keeps_its_header_and_is_named_as_missing(stage):
    stage.serve(stage.refund())
    stage.lose_key()
    ledger = stage.open()
    (observed,) = ledger.events(ledger.stream_of(CASE), types={"effect.observed"})
    assert (observed.content_state, observed.data["outcome"]) == ("missing", "succeeded")
    report = verify(ledger.store, ledger.keyring, FEATURES, registry=ledger.registry)
    assert (report.exit_code, [found.kind for found in report.findings]) == (1, ["content_missing"])


def test_the_rows_say_what_they_said_before_it_went_missing(stage):
    stage.serve(stage.refund())
    before = stage.open().runs(), stage.open().effects()
    stage.lose_key()
    assert (stage.open().runs(), stage.open().effects()) == before


def test_what_was_done_is_not_done_again_and_its_result_is_refused_by_name(stage):
    refund = stage.refund()
    stage.serve(refund)
    stage.lose_key()
    for conversation in (CASE, "another"):
        with pytest.raises(ContentUnavailable, match="missing"):
            stage.serve(refund, conversation=conversation)
    assert stage.provider.requests == ["refund:O-1042"]
    assert stage.effects() == ["succeeded"]


def test_the_recorded_outcome_is_handed_out_although_the_artifact_went_missing(stage, with_receipt, receipt):
    stage.crash(with_receipt, "append effect.observed")
    stage.world.time_passes()
    receipt.unlink()
    stage.serve(with_receipt)
    assert stage.effects() == ["succeeded"]
    assert stage.runs() == [("finished", "success")]
    assert len(stage.provider.requests) == 1


def test_another_run_gets_the_recorded_outcome_of_the_key_without_the_artifact(stage, with_receipt, receipt):
    stage.serve(with_receipt)
    receipt.unlink()
    stage.serve(with_receipt, conversation="another")
    assert len(stage.provider.requests) == 1
    with pytest.raises(ToolInvalid, match="cannot be read"):
        stage.serve(with_receipt, conversation="another", order="O-7")
    assert len(stage.provider.requests) == 1
