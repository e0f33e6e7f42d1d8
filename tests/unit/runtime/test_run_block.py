"""The block: what entering and leaving it records, and what the caller is told."""

from __future__ import annotations

import pytest

import counterfoil
from counterfoil.effects.registry import own_tools
from counterfoil.errors import (
    KeyWithheld,
    ModelFailed,
    NoRun,
    RunClosed,
    RunStopped,
    RunWaiting,
    StoreIO,
    WrongSequence,
)
from counterfoil.flow.context import scope_or_none
from counterfoil.flow.requests import Entry, UnitDraft
from tests.running import facts, types_of


def finished(ledger, conversation="c"):
    return facts(ledger, conversation, "run.finished")[-1]


def test_a_run_opens_the_conversation_accepts_the_input_and_starts_in_one_unit(ledger):
    with ledger.run("refund-agent", conversation="c", message="hello"):
        assert types_of(ledger, "c") == ["conversation.opened", "admission.accepted", "run.started"]


def test_a_run_that_ends_well_is_recorded_as_success_with_its_output(ledger):
    with ledger.run("refund-agent", conversation="c") as run:
        run.finish({"refunded": True})
    (event,) = ledger.events("c", types=["run.finished"])
    assert (event.data["terminal"], event.content["output"]) == ("success", {"refunded": True})
    assert run.terminal == "success"


def test_the_first_event_of_a_run_names_what_an_auditor_asks_for(ledger):
    with ledger.run(
        "a", conversation="c", agent_version="7", classification="personal", principal="clerk-3", message=1
    ):
        pass
    (started,) = facts(ledger, "c", "run.started")
    assert started["agent_version"] == "7"
    assert started["class"] == "personal"
    assert started["principal"].startswith("dk_")
    assert {"admission_id", "input", "configuration", "fencing_token"} <= set(started)


def test_a_message_and_a_dedupe_key_stand_in_content_only(ledger):
    with ledger.run(
        "a", conversation="secret-name", message="secret-text", dedupe="secret-key", subject="secret-person"
    ):
        pass
    headers = b"".join(event.header for event in ledger.store.read(ledger.stream_of("secret-name")))
    assert b"secret" not in headers


def test_a_person_the_input_is_about_has_a_key_of_their_own(ledger):
    with ledger.run("a", conversation="c", message="my address", subject="customer-1") as run:
        assert run.message == "my address"
    accepted = next(iter(ledger.events("c", types=["admission.accepted"])))
    assert accepted.header.content[1].key == accepted.header.actor["id"]


@pytest.mark.parametrize(
    "error, terminal",
    [
        (ValueError("no"), "runtime_failure"),
        (KeyboardInterrupt(), "interrupted"),
        (SystemExit(1), "shutdown"),
        (ModelFailed("down"), "provider_failure"),
        (WrongSequence("the world moved"), "storage_conflict"),
        (ExceptionGroup("both", [ModelFailed("a"), ModelFailed("b")]), "provider_failure"),
        (ExceptionGroup("both", [ModelFailed("a"), ValueError("b")]), "runtime_failure"),
    ],
)
def test_an_exception_ends_the_run_by_its_kind_and_goes_on(ledger, error, terminal):
    with pytest.raises(type(error)) as caught, ledger.run("a", conversation="c") as run:
        raise error
    assert caught.value is error
    assert run.terminal == finished(ledger)["terminal"] == terminal


def test_the_error_that_ended_a_run_is_content(ledger):
    with pytest.raises(ValueError, match="Jane"), ledger.run("a", conversation="c"):
        raise ValueError("the customer is Jane")
    (event,) = ledger.events("c", types=["run.finished"])
    assert event.content["error"] == {
        "class": "ValueError",
        "message": "the customer is Jane",
        "arguments": ["the customer is Jane"],
    }


def test_a_storage_failure_leaves_the_run_open_so_that_it_can_go_on(ledger):
    with pytest.raises(StoreIO), ledger.run("a", conversation="c", dedupe="1"):
        raise StoreIO("disk")
    assert types_of(ledger, "c")[-1] == "run.started"
    with ledger.run("a", conversation="c", dedupe="1") as again:
        assert not again.done


def test_a_run_may_choose_how_it_ends(ledger):
    with ledger.run("a", conversation="c") as run:
        run.finish("too dear", terminal="policy_stop")
    assert finished(ledger)["terminal"] == "policy_stop"


def test_the_lease_is_free_after_the_block(ledger):
    with ledger.run("a", conversation="c") as run:
        assert ledger.store.head(run.conversation).lease is not None
    assert ledger.store.head(run.conversation).lease is None


def test_a_cancelled_run_stops_at_its_next_call_and_leaves_the_block_as_an_ordinary_exception(ledger):
    with pytest.raises(RunStopped), ledger.run("a", conversation="c") as run:
        run.cancel()
        run.step("never", lambda: pytest.fail("a cancelled run went on"))
    assert run.terminal == finished(ledger)["terminal"] == "cancelled"


def test_code_that_swallows_a_cancellation_does_not_undo_it(ledger):
    with pytest.raises(RunStopped), ledger.run("a", conversation="c") as run:
        run.cancel()
    assert finished(ledger)["terminal"] == "cancelled"


def test_a_run_past_its_deadline_ends_as_timeout_at_its_next_call(world, ledger):
    with pytest.raises(TimeoutError), ledger.run("a", conversation="c", deadline_s=5) as run:
        world.clock.advance(5_000)
        run.step("never", lambda: pytest.fail("a run past its deadline went on"))
    assert finished(ledger)["terminal"] == "timeout"


def test_calls_after_the_block_are_refused(ledger):
    with ledger.run("a") as run:
        pass
    with pytest.raises(RunClosed):
        run.step("late", lambda: 1)


def test_an_output_after_the_block_is_refused(ledger):
    with ledger.run("a", conversation="c", dedupe="1") as run:
        run.finish("said in time")
    with pytest.raises(RunClosed):
        run.finish("said too late")
    assert run.output == "said in time"


def test_a_run_that_is_done_may_be_told_its_output_again_inside_its_block(ledger):
    for _ in range(2):
        with ledger.run("a", conversation="c", dedupe="1") as run:
            run.finish("the same")
    assert run.output == "the same"


def test_a_run_is_entered_once(ledger):
    with ledger.run("a") as run:
        pass
    with pytest.raises(RunClosed), run:
        pytest.fail("the block ran again")


def test_a_run_that_was_not_entered_says_so(ledger):
    with pytest.raises(NoRun):
        ledger.run("a").id  # noqa: B018 - looking at it is the test


def test_the_context_is_restored_after_nested_runs(ledger):
    with ledger.run("outer") as outer:
        with ledger.run("inner") as inner:
            assert scope_or_none().run_id == inner.id
        assert scope_or_none().run_id == outer.id
    assert scope_or_none() is None


def test_a_run_without_a_conversation_opens_a_fresh_one(ledger):
    with ledger.run("a") as first, ledger.run("a") as second:
        assert first.conversation != second.conversation


def test_a_conversation_may_be_named_by_its_stream_id(ledger):
    with ledger.run("a") as first:
        pass
    with ledger.run("a", conversation=first.conversation) as second:
        assert second.conversation == first.conversation


def test_the_counts_of_a_run_are_in_its_last_event(ledger):
    with ledger.run("a", conversation="c") as run:
        run.step("one", lambda: 1)
        run.ask(
            lambda request: {"text": "x", "usage": {"input_tokens": 3, "output_tokens": 4}, "cost": "0.10"},
            "hi",
        )
        run.ask(
            lambda request: {"text": "y", "usage": {"input_tokens": 3, "output_tokens": 4}, "cost": "0.205"},
            "hi",
        )
    assert finished(ledger) == {
        "terminal": "success",
        "steps": 3,
        "calls": 2,
        "input_tokens": 6,
        "output_tokens": 8,
        "cost": "0.305",
    }


def test_a_key_that_is_withheld_leaves_the_run_open(ledger):
    with pytest.raises(KeyWithheld), ledger.run("a", conversation="c", dedupe="1"):
        raise KeyWithheld("the key is elsewhere")
    assert types_of(ledger, "c")[-1] == "run.started"


def test_events_name_the_event_they_follow_from(ledger):
    with ledger.run("a", conversation="c") as run:
        run.ask(lambda request: "hi", "q")
    events = {event.type: event for event in ledger.events("c")}
    for effect, cause in (
        ("run.started", "admission.accepted"),
        ("provider.requested", "step.started"),
        ("provider.responded", "provider.requested"),
        ("step.finished", "step.started"),
    ):
        assert events[effect].header.causation_event_id == events[cause].event_id


def test_a_contradiction_found_while_the_run_was_under_way_keeps_it_from_ending_well(ledger):
    with own_tools():

        @counterfoil.effect("t.pay", version="1", touches={"money"}, doubt=counterfoil.by_key())
        def pay(order, *, idempotency_key):
            return "paid"

        with pytest.raises(RunWaiting) as waiting, ledger.run("a", conversation="c") as run:
            pay("O-1")
            (row,) = ledger.effects()
            review_id = "rev_" + row["effect_id"].partition("_")[2]
            found = {
                "effect_id": row["effect_id"],
                "review_id": review_id,
                "recorded": "succeeded",
                "found": "rejected",
            }
            contradicted = run._scope.draft("effect.contradicted", found)
            ledger.ports.append(UnitDraft((Entry(run.conversation, (contradicted,)),)))
            run.finish("done")
    assert waiting.value.waits_for == (review_id,)
    assert "run.finished" not in types_of(ledger, "c")


def test_an_append_by_somebody_else_while_a_run_ends_is_looked_at_before_it_ends(ledger, monkeypatch):
    with ledger.run("a", conversation="c") as run:
        append = ledger.ports.append

        def somebody_is_quicker(unit, claim=None):
            monkeypatch.setattr(ledger.ports, "append", append)
            append(
                UnitDraft((Entry(run.conversation, (run._scope.draft("record.imported", {"kind": "x"}),)),))
            )
            return append(unit, claim)

        monkeypatch.setattr(ledger.ports, "append", somebody_is_quicker)
    assert types_of(ledger, "c")[-2:] == ["record.imported", "run.finished"]
