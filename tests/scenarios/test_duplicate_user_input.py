"""Failure mode: the user sends the same thing twice, by a second click or because nobody answered the first time."""

from __future__ import annotations

import pytest

from counterfoil.errors import AdmissionConflict
from tests.stage import CASE


@pytest.fixture
def refund(stage):
    return stage.refund()


def admissions(stage):
    """The state and the run of each admission's row."""
    ledger = stage.open()
    rows = ledger.store.select("admissions", "by_state", (ledger.stream_of(CASE),))
    return [(row["state"], row["run_id"]) for row in rows]


def test_a_second_click_is_the_same_run_and_gets_its_output(stage, refund):
    assert [stage.serve(refund) for _ in range(2)] == ["re_1", "re_1"]
    ledger = stage.open()
    types = [event.type for event in ledger.events(CASE)]
    assert (types.count("admission.accepted"), types.count("run.started")) == (1, 1)
    assert stage.stream() == ["effect.intended", "effect.observed"]
    assert stage.provider.requests == ["refund:O-1042"]


def test_the_rows_know_one_admission_one_run_and_one_effect(stage, refund):
    for _ in range(2):
        stage.serve(refund)
    (run,) = stage.open().runs()
    assert admissions(stage) == [("started", run["run_id"])]
    assert (stage.runs(), stage.effects()) == ([("finished", "success")], ["succeeded"])


def test_the_same_wish_in_a_second_message_is_a_run_of_its_own_and_pays_nothing_more(stage, refund):
    assert [stage.serve(refund, dedupe=key) for key in ("m1", "m2")] == ["re_1", "re_1"]
    first, second = stage.open().runs()
    assert [(event, run) for event, run in _with_runs(stage)] == [
        ("effect.intended", first["run_id"]),
        ("effect.observed", first["run_id"]),
        ("effect.repeated", second["run_id"]),
    ]
    assert stage.provider.requests == ["refund:O-1042"]


def test_the_rows_show_two_runs_that_ended_well_over_one_effect(stage, refund):
    for key in ("m1", "m2"):
        stage.serve(refund, dedupe=key)
    assert (stage.runs(), stage.effects()) == ([("finished", "success")] * 2, ["succeeded"])


def test_another_message_under_the_same_key_is_refused_and_changes_nothing(stage, refund):
    stage.serve(refund)
    before = len(list(stage.open().events(CASE)))
    with pytest.raises(AdmissionConflict):
        stage.serve(refund, message="refund it twice, please")
    assert len(list(stage.open().events(CASE))) == before
    assert stage.provider.booked() == 1


def _with_runs(stage):
    events = stage.open().events(CASE)
    return [(event.type, event.header.run_id) for event in events if event.type.startswith("effect.")]
