"""An input becomes a run, waits, joins another or is refused; the same dedupe key is the same run (DESIGN 6)."""

from __future__ import annotations

import pytest

from counterfoil.errors import (
    AdmissionAbsorbed,
    AdmissionConflict,
    AdmissionRejected,
    Fenced,
    InputError,
    InvalidForm,
    LeaseLost,
    NotEncodable,
    NotFoundError,
    RunBusy,
    RunClosed,
    StreamNotFound,
)
from tests.running import facts, types_of, vanish

# ---- the same key ------------------------------------------------------------------------------------------------


def test_the_same_key_after_the_end_replays_the_record_and_touches_nothing(ledger):
    with ledger.run("a", conversation="c", message="m", dedupe="1") as first:
        assert first.step("s", lambda: "from the world") == "from the world"
        first.finish("done")
    before = types_of(ledger, "c")
    with ledger.run("a", conversation="c", message="m", dedupe="1") as again:
        assert again.step("s", lambda: pytest.fail("a recorded step ran again")) == "from the world"
        again.finish("other")
    assert (again.id, again.done, again.terminal, again.output) == (first.id, True, "success", "done")
    assert types_of(ledger, "c") == before


def test_a_replay_refuses_what_its_record_does_not_hold(ledger):
    with ledger.run("a", conversation="c", dedupe="1"):
        pass
    with (
        ledger.run("a", conversation="c", dedupe="1") as again,
        pytest.raises(RunClosed, match="ended as success"),
    ):
        again.step("new", lambda: pytest.fail("an ended run did something new"))


def test_another_message_under_the_key_is_a_conflict(ledger):
    with ledger.run("a", conversation="c", message="m", dedupe="1") as run:
        pass
    with (
        pytest.raises(AdmissionConflict) as conflict,
        ledger.run("a", conversation="c", message="n", dedupe="1"),
    ):
        pytest.fail("entered")
    assert conflict.value.run_id == run.id


def test_a_run_that_another_worker_holds_is_busy(world, ledger):
    vanish(ledger.run("a", conversation="c", message="m", dedupe="1"))
    with pytest.raises(RunBusy), world.worker().run("a", conversation="c", message="m", dedupe="1"):
        pytest.fail("two workers in one run")


def test_a_run_whose_worker_vanished_is_taken_over_when_its_lease_has_expired(world, ledger):
    run_id = vanish(ledger.run("a", conversation="c", message="m", dedupe="1"))
    world.expire_leases()
    with world.worker().run("a", conversation="c", message="m", dedupe="1") as again:
        assert again.id == run_id
    (claimed,) = facts(ledger, "c", "run.claimed")
    assert claimed == {"cause": "takeover", "previous_token": 1, "fencing_token": 2}


def test_the_vanished_worker_that_wakes_up_can_append_nothing_more(world, ledger):
    sleeper = ledger.run("a", conversation="c", dedupe="1")

    def taken_over(run):
        world.expire_leases()
        with world.worker().run("a", conversation="c", dedupe="1"):
            pass
        with pytest.raises(LeaseLost):
            run.step("late", lambda: pytest.fail("a stale worker went on"))

    vanish(sleeper, taken_over)
    assert "step.started" not in types_of(ledger, "c")


def test_a_worker_that_lost_its_lease_leaves_the_block_with_lease_lost_even_if_it_swallowed_it(world, ledger):
    with pytest.raises(LeaseLost), ledger.run("a", conversation="c", dedupe="1") as run:
        world.expire_leases()
        with world.worker().run("a", conversation="c", dedupe="1"):
            pass
        with pytest.raises(LeaseLost):
            run.step("late", lambda: 1)


def test_a_key_without_a_conversation_finds_its_own(ledger):
    with ledger.run("a", message="m", dedupe="1") as first:
        pass
    with ledger.run("a", message="m", dedupe="1") as again:
        assert (again.conversation, again.id) == (first.conversation, first.id)


def test_a_key_is_unique_in_its_conversation_only(ledger):
    with ledger.run("a", conversation="c", message="m", dedupe="1") as first:
        pass
    with ledger.run("a", conversation="d", message="n", dedupe="1") as second:
        assert second.id != first.id


def test_tenants_do_not_share_conversations_or_keys(world):
    with world.worker("one").run("a", conversation="c", message="m", dedupe="1") as first:
        pass
    with world.worker("two").run("a", conversation="c", message="n", dedupe="1") as second:
        assert second.conversation != first.conversation


def test_another_tenants_run_conversation_and_input_are_not_there(world):
    one, two = world.worker("one"), world.worker("two")
    with one.run("a", conversation="c") as run, pytest.raises(RunBusy) as busy:
        one.run("a", conversation="c").__enter__()
    for asked in (
        {"conversation": run.conversation},
        {"resume": run.id},
        {"admission": busy.value.admission_id},
    ):
        with pytest.raises(NotFoundError):
            two.run("a", **asked).__enter__()
    with pytest.raises(StreamNotFound):
        list(two.events(run.conversation))
    assert two.effects(run_id=run.id) == []


def test_no_agent_runs_in_a_system_stream(ledger):
    with pytest.raises(InputError, match="system stream"):
        ledger.run("a", conversation=ledger.streams.id_of("config")).__enter__()


def test_inputs_without_a_key_are_runs_of_their_own(ledger):
    for _ in range(2):
        with ledger.run("a", conversation="c", message="m"):
            pass
    assert len(ledger.runs("c")) == 2


# ---- while another run is under way ------------------------------------------------------------------------------


def test_an_input_is_queued_by_default_and_kept(world, ledger):
    with ledger.run("a", conversation="c", message="first") as first:
        with (
            pytest.raises(RunBusy) as busy,
            world.worker().run("a", conversation="c", message="second", dedupe="2"),
        ):
            pytest.fail("two runs in one conversation")
        assert busy.value.run_id == first.id
        assert facts(ledger, "c", "admission.deferred") == [
            {"admission_id": busy.value.admission_id, "cause": "live_run"}
        ]


def test_a_queued_input_is_released_when_the_run_ends_and_starts_under_its_key(world, ledger):
    with ledger.run("a", conversation="c", message="first"), pytest.raises(RunBusy) as busy:
        world.worker().run("a", conversation="c", message="second", dedupe="2").__enter__()
    assert types_of(ledger, "c")[-2:] == ["run.finished", "admission.released"]
    with world.worker().run("a", conversation="c", message="second", dedupe="2") as second:
        assert second.admission_id == busy.value.admission_id
        assert second.message == "second"
    assert len(facts(ledger, "c", "admission.accepted")) == 2


def test_a_queued_input_without_a_key_starts_by_its_admission(world, ledger):
    with ledger.run("a", conversation="c"), pytest.raises(RunBusy) as busy:
        world.worker().run("a", conversation="c", message="second").__enter__()
    with world.worker().run("a", admission=busy.value.admission_id) as second:
        assert second.message == "second"


def test_asking_again_while_the_run_is_under_way_records_nothing_more(world, ledger):
    with ledger.run("a", conversation="c"):
        for _ in range(3):
            with pytest.raises(RunBusy):
                world.worker().run("a", conversation="c", dedupe="2").__enter__()
        assert len(facts(ledger, "c", "admission.deferred")) == 1


def test_one_end_releases_the_next_in_line_only(world, ledger):
    with ledger.run("a", conversation="c"):
        for name in ("2", "3"):
            with pytest.raises(RunBusy):
                world.worker().run("a", conversation="c", dedupe=name).__enter__()
    (released,) = facts(ledger, "c", "admission.released")
    assert released["admission_id"] == facts(ledger, "c", "admission.deferred")[0]["admission_id"]


def test_waiting_in_line_ends_when_the_slot_is_free(world, ledger):
    first = ledger.run("a", conversation="c")
    vanish(first)
    with world.worker().run("a", conversation="c", message="second", wait_s=60) as second:
        assert second.message == "second"
    assert second.id != first.id


def test_waiting_in_line_gives_up_after_its_time(ledger):
    with ledger.run("a", conversation="c"), pytest.raises(RunBusy):
        ledger.run("a", conversation="c", wait_s=2).__enter__()


def test_an_absorbed_input_joins_the_run_which_reads_it(world, ledger):
    with ledger.run("a", conversation="c", while_running="absorb") as run:
        with pytest.raises(AdmissionAbsorbed) as absorbed:
            world.worker().run("a", conversation="c", message={"text": "also"}, dedupe="2").__enter__()
        assert absorbed.value.run_id == run.id
        assert run.inputs() == [{"admission_id": absorbed.value.admission_id, "message": {"text": "also"}}]
        assert run.inputs() == []
    assert "admission.released" not in types_of(ledger, "c")


def test_an_absorbed_input_that_was_never_read_gets_its_own_turn(world, ledger):
    with ledger.run("a", conversation="c", while_running="absorb"), pytest.raises(AdmissionAbsorbed):
        world.worker().run("a", conversation="c", message="also", dedupe="2").__enter__()
    assert types_of(ledger, "c")[-1] == "admission.released"
    with world.worker().run("a", conversation="c", message="also", dedupe="2") as own:
        assert (own.message, own.done) == ("also", False)


def test_an_absorbed_input_delivered_again_is_told_the_same(world, ledger):
    with ledger.run("a", conversation="c", while_running="absorb") as run:
        for _ in range(2):
            with pytest.raises(AdmissionAbsorbed):
                world.worker().run("a", conversation="c", message="also", dedupe="2").__enter__()
        assert len(run.inputs()) == 1


def test_a_superseding_input_ends_the_run_and_begins(world, ledger):
    old = ledger.run("a", conversation="c", message="old", dedupe="1")

    def superseded(run):
        new = world.worker().run("a", conversation="c", message="new", while_running="supersede")
        with new, pytest.raises(LeaseLost):
            run.step("late", lambda: pytest.fail("a superseded run went on"))

    vanish(old, superseded)
    assert facts(ledger, "c", "run.finished")[0]["terminal"] == "superseded"
    (event,) = facts(ledger, "c", "admission.superseded")
    assert event["run_id"] == old.id
    with world.worker().run("a", conversation="c", message="old", dedupe="1") as again:
        assert (again.done, again.terminal) == (True, "superseded")


def test_a_rejected_input_is_recorded_and_may_come_again(world, ledger):
    with ledger.run("a", conversation="c", while_running="reject"), pytest.raises(AdmissionRejected):
        world.worker().run("a", conversation="c", message="no", dedupe="2").__enter__()
    (event,) = ledger.events("c", types=["admission.rejected"])
    assert event.content["message"] == "no"
    with world.worker().run("a", conversation="c", message="no", dedupe="2") as later:
        assert not later.done


def test_the_caller_may_choose_another_policy_for_one_input(world, ledger):
    with ledger.run("a", conversation="c"), pytest.raises(AdmissionRejected):
        world.worker().run("a", conversation="c", while_running="reject").__enter__()


# ---- a run left by its worker ------------------------------------------------------------------------------------


def test_a_vanished_run_that_can_be_delivered_again_steps_aside_and_goes_on_later(world, ledger):
    left = vanish(ledger.run("a", conversation="c", message="m", dedupe="1"))
    world.expire_leases()
    with world.worker().run("a", conversation="c", message="n") as other:
        assert other.id != left
    assert facts(ledger, "c", "run.suspended") == [{"cause": "input", "waits_for": []}]
    with world.worker().run("a", conversation="c", message="m", dedupe="1") as again:
        assert again.id == left
    assert ledger.run_row(left)["terminal"] == "success"


def test_a_vanished_run_that_nobody_can_ask_for_ends_as_interrupted(world, ledger):
    left = vanish(ledger.run("a", conversation="c", message="m"))
    world.expire_leases()
    with world.worker().run("a", conversation="c", message="n"):
        pass
    assert ledger.run_row(left)["terminal"] == "interrupted"


def test_a_run_may_be_resumed_by_its_id_alone(world, ledger):
    left = vanish(ledger.run("a", conversation="c", message={"order": "O-1"}))
    world.expire_leases()
    with world.worker().run("a", resume=left) as again:
        assert (again.id, again.message) == (left, {"order": "O-1"})


def test_an_input_queues_behind_a_waiting_run_where_the_policy_says_so(world, ledger):
    vanish(ledger.run("a", conversation="c", dedupe="1", while_suspended="queue"))
    world.expire_leases()
    with pytest.raises(RunBusy), world.worker().run("a", conversation="c", dedupe="2"):
        pytest.fail("entered before the run that waits")
    with world.worker().run("a", conversation="c", dedupe="1"):
        pass
    with world.worker().run("a", conversation="c", dedupe="2") as second:
        assert not second.done


def test_an_input_is_refused_behind_a_waiting_run_where_the_policy_says_so(world, ledger):
    vanish(ledger.run("a", conversation="c", dedupe="1", while_suspended="reject"))
    world.expire_leases()
    with pytest.raises(AdmissionRejected):
        world.worker().run("a", conversation="c", dedupe="2").__enter__()


# ---- races -------------------------------------------------------------------------------------------------------


def test_a_claim_that_somebody_else_won_is_decided_anew(world, ledger, monkeypatch):
    second = world.worker()
    claim = second.store.claim
    won = []

    def somebody_was_quicker(*args, **kwargs):
        if not won:
            won.append(True)
            with ledger.run("a", conversation="c", dedupe="quicker"):
                pass
            raise Fenced("the token moved")
        return claim(*args, **kwargs)

    with ledger.run("a", conversation="c"):
        pass
    monkeypatch.setattr(second.store, "claim", somebody_was_quicker)
    with second.run("a", conversation="c", dedupe="slower") as run:
        assert not run.done
    assert len(ledger.runs("c")) == 3


def test_two_workers_that_open_one_conversation_open_one(world, monkeypatch):
    first, second = world.worker(), world.worker()
    new_genesis = second.ports.new_genesis
    opened = []

    def somebody_was_quicker(kind):
        if not opened:
            with first.run("a", conversation="c", dedupe="1") as run:
                opened.append(run.conversation)
        return new_genesis(kind)

    monkeypatch.setattr(second.ports, "new_genesis", somebody_was_quicker)
    with second.run("a", conversation="c", dedupe="2") as run:
        assert [run.conversation] == opened
    assert len(first.conversations()) == 1


# ---- refused before anything is written --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"agent": "Jane's agent"},
        {"agent": "a", "classification": "top-secret"},
        {"agent": "a", "while_running": "later"},
        {"agent": "a", "while_suspended": "later"},
        {"agent": "a", "dedupe": ""},
        {"agent": "a", "dedupe": 5},
        {"agent": "a", "agent_version": "not a label"},
    ],
)
def test_what_cannot_be_recorded_is_refused_at_the_call(ledger, given):
    agent = given.pop("agent")
    with pytest.raises(InvalidForm):
        ledger.run(agent, **given)
    assert ledger.conversations() == []


@pytest.mark.parametrize(
    "argument,value",
    [
        ("deadline_s", "5"),
        ("deadline_s", -1),
        ("deadline_s", 0),
        ("deadline_s", float("nan")),
        ("deadline_s", True),
        ("wait_s", -5),
        ("wait_s", float("inf")),
        ("wait_s", None),
        ("configuration", [1]),
        ("configuration", 0),
        ("resume", 7),
        ("admission", ""),
        ("owner", 7),
    ],
)
def test_an_odd_argument_of_a_run_is_named_and_nothing_is_recorded_or_leased(ledger, argument, value):
    with pytest.raises(InvalidForm) as refused:
        ledger.run("a", **({"conversation": "c"} | {argument: value}))
    assert refused.value.argument == argument
    assert ledger.conversations() == []


def test_a_message_that_has_no_form_is_refused_by_its_path(ledger):
    with pytest.raises(NotEncodable, match="message"):
        ledger.run("a", message={"when": object()})


def test_an_unknown_stream_id_is_no_new_conversation(ledger):
    with pytest.raises(StreamNotFound):
        ledger.run("a", conversation="str_01J9ZC3Y3V7W2R5T8QK4M6N0PS").__enter__()
