"""Turns of a ledger's runs: folded from what the runs' own transactions recorded, and kept by their head."""

from __future__ import annotations

import hashlib
from contextlib import closing, suppress

import pytest
from msgspec.structs import replace

import counterfoil
from counterfoil.effects.registry import own_tools
from counterfoil.errors import ApprovalDenied, ModelFailed, PolicyDenied, TurnNotFound
from counterfoil.journal import check_chain
from counterfoil.journal.answers import session_answer, turn_answer
from counterfoil.journal.digests import payload_hash
from counterfoil.journal.fold import RunPlace, fold_turn, run_of_turn, turn_of_run
from counterfoil.journal.source import Source
from counterfoil.testing.manual import ManualClock
from counterfoil.testing.truth import check_truth
from tests.approving import Shop, policy
from tests.running import World, types_of, vanish


@pytest.fixture
def ledger():
    with own_tools(), closing(counterfoil.open(":memory:", turns=True, clock=ManualClock())) as made:
        yield made


def shown(turn, *left_out):
    """Stage and summary of each event, without sessions, ids and lengths."""
    lines = []
    for event in turn.events:
        kept = [
            part
            for part in event.summary.split()
            if part.partition("=")[0]
            not in {"session", "run", "event", "ms", "request", "resultSha", *left_out}
        ]
        lines.append(" ".join([event.type, *kept]))
    return lines


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def one_run(ledger, name="case", **options):
    with ledger.run("support", conversation=name, message="Where is it?", **options) as run:
        run.ask(lambda request: "On its way.", "Where is it?", name="acme-1")
        run.finish("On its way.")
    return run


def test_a_run_has_a_turn_without_anybody_doing_anything(ledger):
    run = one_run(ledger)
    turn = ledger.turn(run.id)
    assert shown(turn) == [
        "INTAKE",
        "MODEL_CALL provider=callable model=acme-1 route=primary status=ok",
        "COMMIT status=completed",
    ]
    assert turn.events[0].payload_hash == sha("Where is it?")
    assert turn.events[-1].payload_hash == sha("On its way.")
    assert check_chain(turn.events, turn.head).intact


def test_every_event_of_a_turn_names_its_ledger_event(ledger):
    run = one_run(ledger)
    recorded = {event.event_id: event.type for event in ledger.events("case")}
    named = [event.summary.rpartition("event=")[2] for event in ledger.turn(run.id).events]
    assert [recorded[event_id] for event_id in named] == [
        "admission.accepted",
        "provider.responded",
        "run.finished",
    ]


def test_the_head_stands_in_content_in_the_unit_that_ends_the_run(ledger):
    run = one_run(ledger)
    finished, committed = list(ledger.events("case"))[-2:]
    turn = ledger.turn(run.id)
    assert (finished.type, committed.type) == ("run.finished", "turn.committed")
    assert committed.data == {
        "turn_id": turn_of_run(run.id),
        "agent": "support",
        "events": 3,
        "status": "completed",
    }
    assert committed.content["head"] == turn.events[-1].hash
    assert committed.recorded_at_ms == finished.recorded_at_ms


def test_heads_are_kept_only_where_that_was_asked_for():
    with closing(counterfoil.open(":memory:")) as ledger:
        run = one_run(ledger)
        assert "turn.committed" not in types_of(ledger, "case")
        assert (ledger.turn(run.id).head, len(ledger.turn(run.id).events)) == (None, 3)


def test_a_turn_is_found_by_its_own_id_and_by_its_runs(ledger):
    run = one_run(ledger)
    turn_id = turn_of_run(run.id)
    assert ledger.turn(turn_id) == ledger.turn(run.id)
    assert run_of_turn(turn_id) == run.id


@pytest.mark.parametrize("wrong", ["trn_01J9ZC3Y3V7W2R5T8QK4M6N0PN", "case", ""])
def test_a_turn_that_is_not_there_is_named(ledger, wrong):
    with pytest.raises(TurnNotFound):
        ledger.turn(wrong)


def test_turns_are_listed_newest_first_by_agent_and_session(ledger):
    first, second, other = one_run(ledger), one_run(ledger), one_run(ledger, "other")
    ids = [turn_of_run(run.id) for run in (first, second, other)]
    assert [info.turn_id for info in ledger.turns()] == ids[::-1]
    assert [info.turn_id for info in ledger.turns(session="case")] == [ids[1], ids[0]]
    assert [info.turn_id for info in ledger.turns(session="case", limit=1)] == [ids[1]]
    assert ledger.turns(agent="billing") == ledger.turns(session="nowhere") == []


def test_a_long_list_goes_over_pages(ledger, monkeypatch):
    monkeypatch.setattr("counterfoil.client.journaling.PAGE_ROWS", 2)
    runs = [one_run(ledger) for _ in range(5)]
    assert [info.turn_id for info in ledger.turns(session="case")] == [
        turn_of_run(run.id) for run in reversed(runs)
    ]
    assert len(ledger.turns()) == 5


def test_the_two_answers_read_a_ledger_too(ledger):
    run = one_run(ledger)
    (info,) = ledger.turns()
    answer = turn_answer(
        ledger.journal, tenant="default", agent_id="support", turn_id=info.turn_id, may=lambda *_: True
    )
    listed = session_answer(
        ledger.journal,
        tenant="default",
        agent_id="support",
        session_hash=info.session_hash,
        may=lambda *_: True,
    )
    assert (answer["chainIntact"], len(answer["events"])) == (True, 3)
    assert [turn["turnId"] for turn in listed["turns"]] == [turn_of_run(run.id)]


def test_a_run_that_fails_is_an_error_and_one_that_is_cancelled_is_not(ledger):
    def down(request):
        raise ConnectionError("down")

    with suppress(ModelFailed), ledger.run("support", conversation="a", message="m") as failed:
        failed.ask(down, "m", name="acme-1")
    with suppress(KeyboardInterrupt), ledger.run("support", conversation="b", message="m"):
        raise KeyboardInterrupt
    assert shown(ledger.turn(failed.id))[1:] == [
        "MODEL_CALL provider=callable model=acme-1 route=primary status=error error=ConnectionError",
        "COMMIT status=error:provider_failure",
    ]
    assert [info.status for info in ledger.turns()] == ["cancelled", "error:provider_failure"]
    statuses = [
        event.data["status"] for name in "ab" for event in ledger.events(name, types=["turn.committed"])
    ]
    assert statuses == ["error", "cancelled"]


def test_an_effect_is_a_tool_call_with_the_digests_of_any_tool(ledger):
    shop = Shop(ledger, policy())
    shop.serve(15)
    (info,) = ledger.turns()
    turn = ledger.turn(info.turn_id)
    (call,) = [event for event in turn.events if event.type == "TOOL_CALL"]
    assert call.payload_hash == payload_hash({"order": "o-1", "amount": 15})
    assert [line for line in shown(turn) if line.startswith(("GUARD", "TOOL"))] == [
        "GUARD guard=limits outcome=allow rules=by-default",
        "TOOL_CALL tool=shop.refund status=ok",
    ]


def test_a_denied_call_is_blocked(ledger):
    shop = Shop(ledger, policy())
    with suppress(PolicyDenied):
        shop.serve(5000)
    (info,) = ledger.turns()
    assert shown(ledger.turn(info.turn_id))[1:] == [
        "GUARD guard=limits outcome=deny rules=too-much",
        "TOOL_CALL tool=shop.refund status=blocked by=argument_policy",
        "COMMIT status=refused",
    ]


@pytest.mark.parametrize("answer", ["approve", "deny"])
def test_a_call_that_waits_is_parked_and_what_was_decided_has_the_same_request(ledger, answer):
    shop = Shop(ledger, policy())
    shop.waits(80)
    (asked,) = ledger.approvals()
    (info,) = ledger.turns()
    assert info.status == "open"
    assert shown(ledger.turn(info.turn_id))[-2:] == [
        "APPROVAL decision=pending tool=shop.refund",
        "TOOL_CALL tool=shop.refund status=parked",
    ]
    getattr(ledger, answer)(asked["approval_id"], by="Ines Arvold")
    with suppress(ApprovalDenied):
        shop.serve(80)
    turn = ledger.turn(info.turn_id)
    decided = [event for event in turn.events if event.type == "APPROVAL"]
    assert {event.summary.partition("request=")[2][:30] for event in decided} == {asked["approval_id"]}
    words = {"approve": "decided:completed", "deny": "decided:denied"}
    assert f"APPROVAL decision={words[answer]}" in shown(turn)
    assert check_chain(turn.events, turn.head).intact


def test_a_turn_that_no_longer_fits_its_head_is_named_by_its_first_event(ledger):
    run = one_run(ledger)
    place = RunPlace("default", run.id, "support", ledger.turns()[0].session_hash)
    sources = [Source.of_event(event) for event in ledger.events("case")]
    assert fold_turn(place, sources).broken_at_seq is None
    changed = [
        Source(
            each.event_id,
            each.type,
            each.at_ms + (each.type == "provider.responded"),
            each.data,
            each.content,
        )
        for each in sources
    ]
    assert fold_turn(place, changed).broken_at_seq == 1
    missing = [each for each in sources if each.type != "admission.accepted"]
    assert fold_turn(place, missing).broken_at_seq == 0


def test_content_that_is_gone_is_said_and_not_taken_for_damage(ledger):
    run = one_run(ledger)
    place = RunPlace("default", run.id, "support")
    sources = [Source.of_event(event) for event in ledger.events("case")]
    erased = [
        Source(each.event_id, each.type, each.at_ms, each.data, None, "erased")
        if each.type == "admission.accepted"
        else each
        for each in sources
    ]
    turn = fold_turn(place, erased)
    assert (turn.closed, turn.broken_at_seq, turn.events[0].payload_hash) == ("erased", None, None)
    assert (turn.hidden, turn.checked, turn.events[0].hash) == ({0: "erased"}, True, turn.kept[0])


def test_a_ledger_with_heads_verifies(ledger):
    one_run(ledger)
    Shop(ledger, policy()).serve(15)
    check_truth(ledger)


def test_a_resumed_run_has_one_turn(ledger):
    with ledger.run("support", conversation="case", message="m", dedupe="1") as run:
        run.finish("a")
    with ledger.run("support", conversation="case", message="m", dedupe="1") as again:
        pass
    assert again.id == run.id
    assert types_of(ledger, "case").count("turn.committed") == 1


def test_a_turn_whose_worker_is_gone_is_abandoned_once_with_its_head():
    world = World()
    ledger = world.worker()
    run_id = vanish(ledger.run("support", conversation="case", message="m"), lambda run: None)
    assert ledger.abandon_turns(3600) == []
    world.expire_leases()
    world.clock.advance(3_600_001)
    assert ledger.abandon_turns(3600) == [turn_of_run(run_id)]
    assert ledger.abandon_turns(3600) == []
    (event,) = ledger.events("case", types=["turn.abandoned"])
    assert event.data["events"] == 1
    assert event.content["head"] == ledger.turn(run_id).events[-1].hash
    assert [info.status for info in ledger.turns()] == ["open"]


def test_tenants_do_not_see_each_others_turns():
    world = World()
    north, south = world.worker("north"), world.worker("south")
    run = one_run(north)
    with pytest.raises(TurnNotFound):
        south.turn(run.id)
    assert south.turns() == []
    assert south.journal.turns("north") == []
    assert south.journal.events("north", turn_of_run(run.id)) == []


def test_what_comes_after_the_head_was_kept_is_no_damage(ledger):
    run = one_run(ledger)
    place = RunPlace("default", run.id, "support", ledger.turns()[0].session_hash)
    sources = [Source.of_event(event) for event in ledger.events("case")]
    late = Source(
        "evt_01J9ZC3Y3V7W2R5T8QK4M6N0PN",
        "effect.settled",
        sources[-1].at_ms,
        {"effect_id": "eff_01J9ZC3Y3V7W2R5T8QK4M6N0PN", "outcome": "succeeded"},
        {},
    )
    turn = fold_turn(place, [*sources, late])
    assert (len(turn.events), turn.kept_events, turn.broken_at_seq) == (4, 3, None)


def test_heads_of_runs_that_ended_otherwise_are_kept_on_request_and_once():
    world = World()
    ledger = world.worker()
    ended = one_run(ledger)
    gone = vanish(ledger.run("support", conversation="other", message="m"), lambda run: None)
    world.expire_leases()
    one_run(ledger, "other")
    assert ledger.run_row(gone)["state"] == "finished"
    kept = ledger.keep_turns()
    assert {turn_of_run(ended.id), turn_of_run(gone)} < set(kept)
    assert ledger.keep_turns() == []
    assert (ledger.turn(gone).head, ledger.turn(gone).broken_at_seq) == (
        ledger.turn(gone).events[-1].hash,
        None,
    )
    assert ledger.keep_turns(session="nowhere") == []
    check_truth(ledger)


def test_the_head_of_a_turn_too_long_for_all_its_hashes_is_checked_alone(ledger, monkeypatch):
    monkeypatch.setattr("counterfoil.journal.run.HASHES_MAX", 2)
    run = one_run(ledger)
    turn = ledger.turn(run.id)
    assert (turn.kept, turn.kept_events, turn.broken_at_seq) == (None, 3, None)
    place = RunPlace("default", run.id, "support", None)
    sources = [Source.of_event(event) for event in ledger.events("case")]
    assert fold_turn(place, sources).broken_at_seq is None
    moved = [replace(each, at_ms=each.at_ms + (each.type == "admission.accepted")) for each in sources]
    assert fold_turn(place, moved).broken_at_seq == 2
