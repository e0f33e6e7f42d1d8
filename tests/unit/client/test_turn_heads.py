"""Heads of turns: each kept once, whoever ended the run and whoever looks for it, and checked as far as content can be read."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

import counterfoil
from counterfoil.archive import hpke
from counterfoil.client.archiving import KeysBy
from counterfoil.core.event import Draft
from counterfoil.core.forms import time_text
from counterfoil.effects.registry import own_tools
from counterfoil.errors import InvalidForm, RunSuspended
from counterfoil.flow.requests import Entry, UnitDraft
from counterfoil.journal.fold import RunPlace, fold_turn, turn_of_run
from counterfoil.journal.rows import DUE
from counterfoil.journal.source import Source
from counterfoil.runtime import worker as working
from counterfoil.runtime.agents import own_agents
from counterfoil.runtime.turn import TurnKept, due_turns
from counterfoil.testing.manual import ManualClock
from counterfoil.testing.truth import check_truth
from tests.running import World, types_of, vanish


@pytest.fixture(autouse=True)
def _own():
    with own_tools(), own_agents():
        yield


@pytest.fixture
def world():
    return World()


def keeper(world):
    """A handle that keeps heads."""
    ledger = world.worker()
    ledger.keeps_turns = True
    return ledger


def superseded(world, ledger, name="case"):
    """A run that the next input's run ended; its id."""
    gone = vanish(ledger.run("support", conversation=name, message="m"))
    world.expire_leases()
    with ledger.run("support", conversation=name, message="n", while_running="supersede") as run:
        run.finish("done")
    assert ledger.run_row(gone)["state"] == "finished"
    return gone


def heads(ledger, run_id):
    row = ledger.run_row(run_id)
    return list(ledger.events(row["stream_id"], types=["turn.committed"], run_id=run_id))


def passes(ledger):
    told = []
    worker = ledger.worker(agents=False, tell=told.append)
    while worker.look():
        pass
    return [turn for turn in told if isinstance(turn, TurnKept)]


# ---- who keeps them -------------------------------------------------------------------------------------------------


def test_a_worker_keeps_the_head_of_a_run_that_another_hand_ended_once(world):
    ledger = keeper(world)
    gone = superseded(world, ledger)
    assert [row["run_id"] for row in due_turns(ledger.ports)] == [gone]
    assert [(turn.run_id, turn.done) for turn in passes(ledger)] == [(gone, "kept")]
    assert (passes(ledger), list(due_turns(ledger.ports))) == ([], [])
    (head,) = heads(ledger, gone)
    assert (head.data["status"], ledger.turn(gone).head) == ("cancelled", head.content["head"])
    check_truth(ledger)


def test_a_worker_on_a_handle_that_keeps_no_heads_keeps_none(world):
    ledger = world.worker()
    superseded(world, ledger)
    assert passes(ledger) == []
    assert "turn.committed" not in types_of(ledger, "case")


def test_several_workers_at_once_keep_each_head_exactly_once(world):
    ledger = keeper(world)
    gone = [superseded(world, ledger, f"case-{number}") for number in range(6)]
    workers = [keeper(world) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        told = [turn for turns in pool.map(passes, workers) for turn in turns]
    assert sorted(turn.run_id for turn in told) == sorted(gone)
    assert [len(heads(ledger, run_id)) for run_id in gone] == [1] * 6
    check_truth(ledger)


def test_a_head_that_was_kept_is_not_kept_again_when_something_comes_late(world):
    ledger = keeper(world)
    with ledger.run("support", conversation="case", message="m") as run:
        run.finish("done")
    actor, stream_id = {"type": "system", "id": "counterfoil"}, run.conversation
    data = {
        "effect_id": ledger.ports.new_id("eff"),
        "outcome": "succeeded",
        "review_id": ledger.ports.new_id("rev"),
    }
    late = Draft(
        ledger.ports.new_id("evt"),
        "effect.settled",
        time_text(ledger.ports.now_ms()),
        actor,
        data,
        run_id=run.id,
    )
    ledger.ports.append(UnitDraft((Entry(stream_id, (late,)),)))
    turn = ledger.turn(run.id)
    assert (len(turn.events), turn.kept_events, turn.broken_at_seq) == (3, 2, None)
    assert (ledger.keep_turns(), passes(ledger), len(heads(ledger, run.id))) == ([], [], 1)


def test_a_worker_finds_due_heads_by_index_and_a_bounded_number_in_each_pass(world, monkeypatch):
    monkeypatch.setattr(working, "KEPT_MAX", 2)
    ledger = keeper(world)
    gone = [superseded(world, ledger, f"case-{number}") for number in range(5)]
    told = []
    worker = ledger.worker(agents=False, tell=told.append)
    worker.look()
    assert [turn.run_id for turn in told] == gone[:2]
    while worker.look():
        pass
    assert [turn.run_id for turn in told] == gone
    plan = ledger.ports.store.select("turns", "by_state", ("default", DUE))
    assert plan == []


def test_a_head_that_cannot_be_made_rests_and_holds_up_no_other(world):
    ledger = keeper(world)
    broken, whole = superseded(world, ledger, "a"), superseded(world, ledger, "b")
    row = ledger.run_row(broken)
    ledger.keyring.store.delete([ledger.ports.genesis(str(row["stream_id"])).key])
    ledger.keyring.forget()
    told = []
    worker = ledger.worker(agents=False, tell=told.append)
    for _ in range(5):
        worker.look()
    assert {(turn.run_id, turn.done) for turn in told} == {(broken, "left"), (whole, "kept")}
    assert len(told) == 2
    assert "missing" in next(turn.why for turn in told if turn.done == "left")


def test_a_worker_gives_up_a_turn_that_nobody_is_at_for_a_day_once(world):
    ledger = keeper(world)
    run_id = vanish(ledger.run("support", conversation="case", message="m"))
    world.expire_leases()
    assert passes(ledger) == []
    world.clock.advance(round(working.ABANDONED_AFTER_S * 1000))
    assert [(turn.run_id, turn.done) for turn in passes(ledger)] == [(run_id, "abandoned")]
    world.clock.advance(round(working.ABANDONED_AFTER_S * 1000))
    assert passes(ledger) == []
    assert types_of(ledger, "case").count("turn.abandoned") == 1
    with ledger.run("support", resume=run_id) as run:
        run.finish("after all")
    assert ledger.turn(run_id).head is not None
    check_truth(ledger)


# ---- what is kept, and under whose key ------------------------------------------------------------------------------


def erase(ledger, stream_id, key_id):
    """As an erasure leaves it: the key is gone, and a certificate says so."""
    data = {
        "deletion_id": ledger.ports.new_id("del"),
        "certificate": ledger.ports.new_id("ers"),
        "ground": "request",
        "key": key_id,
        "contents": 1,
        "objects": 0,
        "copies": "not_covered",
    }
    actor = {"type": "system", "id": "counterfoil"}
    at = time_text(ledger.ports.now_ms())
    draft = Draft(ledger.ports.new_id("evt"), "deletion.completed", at, actor, data)
    ledger.ports.append(UnitDraft((Entry(stream_id, (draft,)),)))
    ledger.keyring.store.delete([key_id])
    ledger.keyring.forget()


def test_the_head_of_a_turn_about_a_person_lies_under_their_key_and_goes_with_it(world):
    ledger = keeper(world)
    with ledger.run("support", conversation="case", message="I am Ines", subject="ines") as run:
        run.finish("done")
    (head,) = heads(ledger, run.id)
    accepted = next(ledger.events("case", types=["admission.accepted"]))
    key_id = next(part.key for part in accepted.header.content if part.key)
    assert [part.key for part in head.header.content] == [None, key_id]
    assert ledger.turn(run.id).head == head.content["about"]["head"]
    erase(ledger, run.conversation, key_id)
    turn = ledger.turn(run.id)
    assert (turn.head, turn.closed, turn.hidden, turn.broken_at_seq) == (None, "erased", {0: "erased"}, None)
    assert not turn.checked
    check_truth(ledger)


def test_an_abandoned_turn_about_a_person_lies_under_their_key_too(world):
    ledger = keeper(world)
    vanish(ledger.run("support", conversation="case", message="I am Ines", subject="ines"))
    world.expire_leases()
    ledger.abandon_turns(0)
    (said,) = ledger.events("case", types=["turn.abandoned"])
    assert [part.key is None for part in said.header.content] == [True, False]


def sources_of(ledger, name="case"):
    return [Source.of_event(event) for event in ledger.events(name)]


@pytest.fixture
def kept(world):
    """A turn with a tool call, its place and its sources."""
    ledger = keeper(world)

    @counterfoil.effect("shop.refund", version="1", touches={"money"}, doubt=counterfoil.by_review())
    def refund(order):
        return {"refunded": order}

    with ledger.run("support", conversation="case", message="m") as run:
        run.ask(lambda request: "yes", "m", name="acme-1")
        run.finish(refund("O-1"))
    place = RunPlace("default", run.id, "support", ledger.turns()[0].session_hash)
    return place, sources_of(ledger)


def test_where_some_content_is_erased_every_other_event_is_still_checked(kept):
    place, sources = kept
    gone = [
        replace(each, content=None, state="erased") if each.type == "effect.intended" else each
        for each in sources
    ]
    turn = fold_turn(place, gone)
    assert (turn.hidden, turn.closed, turn.checked) == ({2: "erased"}, "erased", True)
    assert turn.broken_at_seq is None
    assert turn.events[-1].hash == turn.head
    for edited, seq in (("provider.responded", 1), ("run.finished", 3)):
        moved = [replace(each, at_ms=each.at_ms + (each.type == edited)) for each in gone]
        assert fold_turn(place, moved).broken_at_seq == seq


def test_an_event_that_is_missing_before_erased_content_is_named(kept):
    place, sources = kept
    gone = [
        replace(each, content=None, state="erased") if each.type == "run.finished" else each
        for each in sources
        if each.type != "provider.responded"
    ]
    assert fold_turn(place, gone).broken_at_seq == 1


def test_the_session_counts_as_it_was_when_the_head_was_kept(kept):
    place, sources = kept
    elsewhere = replace(place, session_hash="f" * 64)
    for other in (elsewhere, replace(place, session_hash=None)):
        turn = fold_turn(other, sources)
        assert (turn.broken_at_seq, turn.events[0].session_hash) == (None, place.session_hash)


def test_a_head_of_another_version_of_the_fold_is_unknown_and_not_broken(kept):
    place, sources = kept
    later = [
        replace(each, content={**each.content, "fold": 2}) if each.type == "turn.committed" else each
        for each in sources
    ]
    turn = fold_turn(place, later)
    assert (turn.closed, turn.broken_at_seq, turn.checked) == ("unknown", None, False)


# ---- in an archive ---------------------------------------------------------------------------------------------------


def test_a_turn_travels_in_an_archive_and_is_checked_where_it_comes_in(tmp_path):
    key = hpke.new_private_key()
    with counterfoil.open(tmp_path / "source", turns=True) as origin:
        gone = vanish(origin.run("support", conversation="open", message="m", subject="ines"))
        with origin.run("support", conversation="case", message="m", subject="ines") as run:
            run.finish("done")
        before = origin.turn(run.id)
        by = KeysBy(recipient=hpke.public_key(key))
        origin.export_archive(["case", "open"], tmp_path / "a.zip", keys=by)
    with counterfoil.open(":memory:", turns=True) as target:
        target.import_archive(tmp_path / "a.zip", private_key=key)
        turn = target.turn(run.id)
        assert (turn.events, turn.head, turn.broken_at_seq) == (before.events, before.head, None)
        assert turn.checked
        assert {info.events for info in target.turns()} == {1, 2}
        assert target.abandon_turns(-0.0) == []
        assert "turn.abandoned" not in types_of(target, "open")
        assert gone in {row["run_id"] for row in target.runs("open")}
    with counterfoil.open(":memory:") as closed:
        closed.import_archive(tmp_path / "a.zip", with_keys=False)
        turn = closed.turn(run.id)
        assert (turn.head, turn.broken_at_seq, set(turn.hidden.values())) == (None, None, {turn.closed})


def test_no_conversation_is_taken_over_for_the_sake_of_a_head(tmp_path):
    key = hpke.new_private_key()
    with counterfoil.open(tmp_path / "source") as origin:
        with origin.run("support", conversation="case", message="m") as run:
            run.finish("done")
        origin.export_archive(["case"], tmp_path / "a.zip", keys=KeysBy(recipient=hpke.public_key(key)))
    with counterfoil.open(":memory:", turns=True) as target:
        target.import_archive(tmp_path / "a.zip", private_key=key)
        assert [(turn.run_id, turn.done) for turn in passes(target)] == [(run.id, "left")]
        assert target.keep_turns() == []
        assert not {"stream.adopted", "turn.committed"} & set(types_of(target, "case"))
        with target.run("support", conversation="case", message="and now?") as again:
            again.finish("done")
        assert target.keep_turns() == [turn_of_run(run.id)]


# ---- checks inside a run --------------------------------------------------------------------------------------------


def stages(ledger, run_id):
    return [
        f"{event.type} {event.summary.partition(' event=')[0]}"
        for event in ledger.turn(run_id).events
        if event.type in {"GUARD", "VERIFY"}
    ]


def check_all(run):
    run.guard("injection", "pass", side="inbound", reason="nothing found for ines@example.com")
    run.verify("fabricated-urls", ok=False, found=2)


CHECKED = [
    "GUARD guard=injection outcome=pass side=inbound",
    "VERIFY check=fabricated-urls outcome=failed found=2",
]


def test_a_run_records_guards_and_checks_of_its_answer_as_stages_of_its_turn(world):
    ledger = keeper(world)
    with ledger.run("support", conversation="case", message="m") as run:
        check_all(run)
        run.finish("done")
    assert stages(ledger, run.id) == CHECKED
    headers = " ".join(str(dict(event.data)) for event in ledger.events("case"))
    assert "ines" not in headers
    check_truth(ledger)


def test_an_async_run_records_them_too_and_a_step_inside(world):
    ledger = keeper(world)

    async def served():
        async with ledger.run("support", conversation="case", message="m") as run:
            await run.aguard("injection", "pass", side="inbound")

            async def inner():
                await run.averify("fabricated-urls", ok=False, found=2)

            await run.astep("inner", inner)
        return run.id

    assert stages(ledger, asyncio.run(served())) == CHECKED


def test_a_resumed_run_records_no_check_twice(world):
    ledger = keeper(world)
    run_id = vanish(ledger.run("support", conversation="case", message="m"), check_all)
    world.expire_leases()
    with ledger.run("support", resume=run_id) as run:
        check_all(run)
        run.verify("fabricated-urls", ok=False, found=2)
    assert stages(ledger, run_id) == [*CHECKED, CHECKED[1]]


@pytest.mark.parametrize("name", ["a|b", "line\nbreak", "\x1b[2J", "\ud800", "\u0663\u202eab"])
def test_a_check_may_be_called_anything_and_its_name_stays_in_content(world, name):
    ledger = keeper(world)
    with ledger.run("support", conversation="case", message="m") as run:
        run.verify(name, ok=True)
    (event,) = ledger.events("case", types=["turn.checked"])
    assert event.data["check"].startswith("~")
    assert stages(ledger, run.id) == [f"VERIFY check={event.data['check']} outcome=ok"]
    assert ledger.turn(run.id).broken_at_seq is None


@pytest.mark.parametrize(
    "wrong",
    [
        lambda run: run.guard("g", "two words"),
        lambda run: run.guard("g", "pass", side="left"),
        lambda run: run.guard("g", "pass", reason=3),
        lambda run: run.guard("", "pass"),
        lambda run: run.verify("v", ok=True, found=-1),
        lambda run: run.verify("v", ok=True, found=True),
    ],
)
def test_a_check_that_says_nothing_sensible_is_refused_and_not_recorded(world, wrong):
    ledger = keeper(world)
    with ledger.run("support", conversation="case", message="m") as run, pytest.raises(InvalidForm):
        wrong(run)
    assert "turn.checked" not in types_of(ledger, "case")


# ---- lists ----------------------------------------------------------------------------------------------------------


def test_a_list_counts_the_events_of_each_turn_kept_or_not(world):
    ledger = world.worker()

    @counterfoil.effect("shop.refund", version="1", touches={"money"}, doubt=counterfoil.by_review())
    def refund(order):
        return {"refunded": order}

    for name, keeps in (("a", True), ("b", False)):
        ledger.keeps_turns = keeps
        with ledger.run("support", conversation=name, message="m") as run:
            refund(name)
            run.verify("v", ok=True)
    vanish(ledger.run("support", conversation="c", message="m"))
    counts = [(info.events, len(ledger.turn(info.turn_id).events)) for info in ledger.turns()]
    assert counts == [(1, 1), (4, 4), (4, 4)]


def test_a_very_long_turn_that_is_not_kept_is_not_counted(world, monkeypatch):
    monkeypatch.setattr("counterfoil.client.journaling.COUNTED_MAX", 2)
    ledger = world.worker()
    with ledger.run("support", conversation="a", message="m") as run:
        run.verify("v", ok=True)
    assert [info.events for info in ledger.turns()] == [None]
    assert ledger.keep_turns() == [turn_of_run(run.id)]
    assert [info.events for info in ledger.turns()] == [3]


def test_a_turn_that_waits_is_not_due():
    clock = ManualClock()
    with closing(counterfoil.open(":memory:", turns=True, clock=clock)) as ledger:
        run = ledger.run("support", conversation="case", message="m")
        with pytest.raises(counterfoil.RunWaiting), run:
            raise RunSuspended("later", cause="approval")
        assert run.terminal is None
        assert list(due_turns(ledger.ports)) == []


# ---- every run has one ----------------------------------------------------------------------------------------------


def test_a_childs_turn_names_its_parents(world):
    ledger = keeper(world)

    @counterfoil.agent("researcher")
    def research(run):
        run.finish(run.message)

    with ledger.run("writer", conversation="case", message="m") as run:
        child = run.spawn("researcher", "cost")
        run.finish(run.wait(child))
    turn = ledger.turn(child.run_id)
    assert f"parent={turn_of_run(run.id)}" in turn.events[0].summary
    ledger.keep_turns()
    assert ledger.turn(child.run_id).checked
    assert {info.agent_id for info in ledger.turns()} == {"writer", "researcher"}


def test_a_run_that_a_schedule_began_has_a_turn(world):
    ledger = keeper(world)

    @counterfoil.agent("reporter")
    def report(run):
        run.finish("reported")

    at = datetime.fromtimestamp(world.clock.now_ms() / 1000 + 60, UTC)
    ledger.schedule("reporter", conversation="reports", message="report", at=at)
    world.clock.advance(61_000)
    worker = ledger.worker()
    while worker.look():
        pass
    (info,) = ledger.turns(session="reports")
    turn = ledger.turn(info.turn_id)
    assert (info.agent_id, info.status, turn.checked) == ("reporter", "completed", True)
