"""Schedules: each due time brings its input exactly once, late or in time, and says so."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from counterfoil.abc import Host
from counterfoil.core.forms import time_ms, time_text
from counterfoil.errors import (
    AdmissionRejected,
    InvalidForm,
    RunWaiting,
    ScheduleConflict,
    ScheduleNotFound,
    StoreBusy,
)
from counterfoil.flow.drafting import Outsider
from counterfoil.flow.requests import Entry, UnitDraft
from counterfoil.runtime.agents import agent, own_agents
from counterfoil.runtime.schedules.rows import SCHEDULES
from counterfoil.runtime.schedules.state import evolve
from counterfoil.testing.truth import check_truth
from tests.running import facts, types_of

SECOND_MS = 1_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture(autouse=True)
def _own():
    with own_agents():
        yield


@pytest.fixture
def served():
    messages = []

    @agent("a")
    def serve(run):
        messages.append(run.message)

    return messages


def now(world):
    return datetime.fromtimestamp(world.clock.now_ms() / 1000, UTC)


def work(ledger):
    """What workers do until nothing is left to do now."""
    told = []
    worker = ledger.worker(tell=told.append)
    while worker.look():
        pass
    return told


def fired(ledger, conversation="c"):
    """Due time, lateness and next due time of each firing, in milliseconds."""
    return [
        (
            time_ms(said["due_at"]),
            said["late_ms"],
            time_ms(said["next_due_at"]) if "next_due_at" in said else None,
        )
        for said in facts(ledger, conversation, "schedule.fired")
    ]


# ---- once, every, calendar --------------------------------------------------------------------------------------------


def test_a_schedule_that_is_due_once_comes_once(ledger, world, served):
    due = now(world) + timedelta(hours=1)
    made = ledger.schedule("a", conversation="c", message={"n": 1}, at=due)
    assert work(ledger) == []
    world.clock.advance(HOUR_MS)
    work(ledger)
    world.clock.advance(DAY_MS)
    assert work(ledger) == []
    assert served == [{"n": 1}]
    assert fired(ledger) == [(made.due_ms, 0, None)]
    assert ledger.schedules() == []
    assert [row["state"] for row in ledger.schedules(state="ended")] == ["ended"]
    check_truth(ledger)


def test_the_firing_and_its_input_stand_in_one_append(ledger, world, served):
    made = ledger.schedule("a", conversation="c", at=now(world))
    (one,) = ledger.fire_due()
    assert (one.done, one.schedule_id) == ("fired", made.schedule_id)
    assert types_of(ledger, "c")[-3:] == ["schedule.fired", "admission.accepted", "admission.released"]
    (released,) = facts(ledger, "c", "admission.released")
    assert released == {"admission_id": one.admission_id, "cause": "until", "until": time_text(made.due_ms)}
    (accepted,) = ledger.events("c", types=["admission.accepted"])
    assert accepted.content["dedupe"] == f"{made.schedule_id}:{time_text(made.due_ms)}"


def test_one_that_comes_every_so_often_keeps_its_beat(ledger, world, served):
    ledger.schedule("a", conversation="c", message="tick", every_s=60)
    start = world.clock.now_ms()
    for _ in range(3):
        world.clock.advance(61 * SECOND_MS)
        work(ledger)
    minute = 60 * SECOND_MS
    assert fired(ledger) == [
        (start + minute, 1_000, start + 2 * minute),
        (start + 2 * minute, 2_000, start + 3 * minute),
        (start + 3 * minute, 3_000, start + 4 * minute),
    ]
    assert served == ["tick"] * 3


def test_one_by_the_calendar_comes_at_its_local_times(ledger, world, served):
    ledger.schedule("a", conversation="c", calendar="30  8 * * *", zone="Europe/Berlin")
    for _ in range(3):
        world.clock.advance(DAY_MS)
        work(ledger)
    times = [datetime.fromtimestamp(due / 1000, UTC) for due, _, _ in fired(ledger)]
    assert [(each.hour, each.minute) for each in times] == [(6, 30)] * 3
    (created,) = ledger.events("c", types=["schedule.created"])
    assert (created.content["expression"], created.content["zone"]) == ("30 8 * * *", "Europe/Berlin")
    assert "Berlin" not in repr(created.header.raw)


def test_a_first_time_may_be_given_beside_a_period(ledger, world, served):
    made = ledger.schedule("a", conversation="c", at=now(world) + timedelta(hours=5), every_s=60)
    assert made.due_ms == world.clock.now_ms() + 5 * HOUR_MS


def test_a_background_run_has_a_turn(ledger, world, served):
    ledger.schedule("a", conversation="c", at=now(world))
    work(ledger)
    (run,) = ledger.runs("c")
    assert [turn.turn_id for turn in ledger.turns()] == ["trn" + str(run["run_id"])[3:]]


# ---- times that pass while nobody looks -------------------------------------------------------------------------------


def test_of_missed_times_the_latest_is_fired_and_the_rest_let_go(ledger, world, served):
    ledger.schedule("a", conversation="c", message="tick", every_s=1)
    start = world.clock.now_ms()
    world.clock.advance(365 * DAY_MS + 500)
    work(ledger)
    assert fired(ledger) == [(start + 365 * DAY_MS, 500, start + 365 * DAY_MS + SECOND_MS)]
    assert served == ["tick"]


def test_the_latest_by_the_calendar_too(ledger, world, served):
    ledger.schedule("a", conversation="c", calendar="0 * * * *")
    world.clock.advance(100 * DAY_MS)
    work(ledger)
    ((due, late, following),) = fired(ledger)
    assert due == world.clock.now_ms() // HOUR_MS * HOUR_MS
    assert late == world.clock.now_ms() - due
    assert following == due + HOUR_MS


def test_all_missed_times_are_fired_in_order_where_that_is_wanted(ledger, world, served):
    ledger.schedule("a", conversation="c", message="tick", every_s=60, missed="all")
    start = world.clock.now_ms()
    world.clock.advance(10 * 60 * SECOND_MS)
    work(ledger)
    assert [due for due, _, _ in fired(ledger)] == [start + n * 60 * SECOND_MS for n in range(1, 11)]
    assert len(served) == 10


def test_one_that_is_due_once_is_fired_however_late(ledger, world, served):
    ledger.schedule("a", conversation="c", at=now(world))
    world.clock.advance(400 * DAY_MS)
    work(ledger)
    assert [late for _, late, _ in fired(ledger)] == [400 * DAY_MS]


# ---- the conversation it comes to -------------------------------------------------------------------------------------


def test_an_input_that_meets_a_run_waits_for_it(ledger, world, served):
    ledger.schedule("a", conversation="c", message="tick", at=now(world))
    with ledger.run("a", conversation="c"):
        (one,) = world.worker().fire_due()
        assert ledger.store.get("admissions", (one.admission_id,))["state"] == "deferred"
    work(ledger)
    assert served == ["tick"]


def test_a_refused_input_counts_as_fired(ledger, world, served):
    with ledger.run("a", conversation="c", while_running="reject"):
        ledger.schedule("a", conversation="c", at=now(world))
        (one,) = world.worker().fire_due()
    assert (one.done, len(fired(ledger))) == ("refused", 1)
    assert list(ledger.fire_due()) == []


def close(ledger, conversation):
    writer = Outsider(ledger.ports.new_id("evt"), ledger.ports.now_ms(), None)
    entry = Entry(ledger.stream_of(conversation), (writer.draft("conversation.closed", {"cause": "done"}),))
    ledger.ports.append(UnitDraft((entry,)))


def test_a_closed_conversation_ends_its_schedules(ledger, world, served):
    ledger.schedule("a", conversation="c", every_s=60)
    close(ledger, "c")
    world.clock.advance(HOUR_MS)
    (one,) = ledger.fire_due()
    assert (one.done, ledger.schedules()) == ("cancelled", [])
    assert types_of(ledger, "c")[-1] == "schedule.cancelled"
    with pytest.raises(AdmissionRejected):
        ledger.schedule("a", conversation="c", every_s=60)


def test_a_schedule_whose_content_is_gone_is_left_and_hides_no_other(ledger, world, served):
    lost = ledger.schedule("a", conversation="lost", at=now(world))
    ledger.schedule("a", conversation="c", message="tick", at=now(world))
    ledger.keyring.store.delete([ledger.ports.genesis(lost.stream_id).key])
    fresh = type(ledger)(ledger._parts, tenant="default", content=None, clock=world.clock, ids=world.ids)
    told = []
    worker = fresh.worker(tell=told.append)
    worker.look()
    left = [each for each in told if getattr(each, "schedule_id", None) == lost.schedule_id]
    assert [each.done for each in left] == ["left"]
    assert served == ["tick"]
    told.clear()
    worker.look()
    assert told == []


# ---- keys, and ending it ----------------------------------------------------------------------------------------------


def test_the_same_key_is_the_same_schedule(ledger, world):
    how = {"conversation": "c", "message": "m", "calendar": "0 8 * * *", "key": "daily"}
    first = ledger.schedule("a", **how)
    again = ledger.schedule("a", **how)
    assert (again.schedule_id, again.repeated, first.repeated) == (first.schedule_id, True, False)
    for other in ({"message": "other"}, {"calendar": "0 9 * * *"}, {"zone": "Asia/Tokyo"}, {"missed": "all"}):
        with pytest.raises(ScheduleConflict):
            ledger.schedule("a", **{**how, **other})
    with pytest.raises(ScheduleConflict):
        ledger.schedule("b", **how)
    assert ledger.schedule("a", **{**how, "conversation": "other"}).schedule_id != first.schedule_id
    assert len(facts(ledger, "c", "schedule.created")) == 1


def test_a_cancelled_schedule_comes_no_more(ledger, world, served):
    made = ledger.schedule("a", conversation="c", every_s=60, key="k")
    for repeated in (False, True):
        over = ledger.cancel_schedule(made.schedule_id, by="Ines")
        assert (over.state, over.repeated) == ("cancelled", repeated)
    world.clock.advance(HOUR_MS)
    assert work(ledger) == []
    assert ledger.schedule("a", conversation="c", every_s=60, key="k").state == "cancelled"
    (event,) = ledger.events("c", types=["schedule.cancelled"])
    assert event.header.raw["actor"]["type"] == "human"
    assert "Ines" not in repr(event.header.raw)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"every_s": 0},
        {"every_s": 0.5},
        {"every_s": float("nan")},
        {"every_s": 60, "calendar": "* * * * *"},
        {"calendar": "no"},
        {"calendar": "* * * * *", "zone": "Nowhere"},
        {"at": datetime(2027, 1, 1)},
        {"every_s": 60, "missed": "some"},
        {"every_s": 60, "zone": "Europe/Berlin"},
        {"at": datetime(2027, 1, 1, tzinfo=UTC), "zone": "Europe/Berlin"},
        {"every_s": 60, "key": ""},
    ],
    ids=str,
)
def test_what_is_no_plan_is_refused_and_nothing_is_recorded(ledger, how):
    with pytest.raises(InvalidForm):
        ledger.schedule("a", conversation="c", **how)
    assert ledger.conversations() == []


def test_a_schedule_of_another_tenant_is_not_found(world):
    made = world.worker().schedule("a", conversation="c", every_s=60)
    other = world.worker("other")
    with pytest.raises(ScheduleNotFound):
        other.cancel_schedule(made.schedule_id, by="Ines")
    world.clock.advance(HOUR_MS)
    assert (list(other.fire_due()), other.schedules()) == ([], [])


def test_lists_name_what_is_asked_for(ledger, world):
    made = [ledger.schedule("a", conversation=f"c{n}", every_s=60 + n) for n in range(3)]
    assert [row["schedule_id"] for row in ledger.schedules()] == [each.schedule_id for each in made]
    assert [row["schedule_id"] for row in ledger.schedules("c1")] == [made[1].schedule_id]
    assert len(ledger.schedules(limit=2)) == 2
    ledger.cancel_schedule(made[0].schedule_id, by="Ines")
    assert len(ledger.schedules(state=None)) == 3
    assert len(ledger.schedules(state="cancelled")) == 1


def test_rows_are_the_fold_of_the_headers(ledger, world, served):
    ledger.schedule("a", conversation="c", every_s=60)
    ledger.schedule("a", conversation="c", at=now(world))
    over = ledger.schedule("a", conversation="c", every_s=90)
    with pytest.raises(RunWaiting), ledger.run("a", conversation="c", message="sleeper") as run:
        run.sleep(DAY_MS)
    world.clock.advance(HOUR_MS)
    work(ledger)
    ledger.cancel_schedule(over.schedule_id, by="Ines")
    folded = {}
    for event in ledger.events("c"):
        folded = evolve(folded, event.type, event.data, event.header.run_id)
    rows = ledger.store.select(SCHEDULES.name, None, (), None, 99)
    assert {row["schedule_id"]: (row["state"], row["due_ms"]) for row in rows} == {
        name: (each.state, each.due_ms) for name, each in folded.items()
    }
    assert len(rows) == 4


# ---- a host's own timer -----------------------------------------------------------------------------------------------


class Bell:
    """A timer of the host that rings when the test says so, and forgets everything with its process."""

    def __init__(self):
        self.armed = {}
        self.rang = []

    def arm(self, schedule_id, due_ms):
        self.armed[schedule_id] = due_ms

    def disarm(self, schedule_id):
        self.armed.pop(schedule_id, None)

    def due(self, now_ms):
        return [name for name in self.rang if name in self.armed]


def test_a_hosts_timer_says_when_and_the_rows_say_what(world, served):
    ledger, bell = world.worker(), Bell()
    ledger.host = Host(timer=bell)
    made = ledger.schedule("a", conversation="c", message="tick", every_s=60)
    assert bell.armed == {made.schedule_id: made.due_ms}
    bell.rang = [made.schedule_id] * 2 + ["sch_01J9ZC3Y3V7W2R5T8QK4M6N0PK"]
    assert work(ledger) == []  # it rang too early
    world.clock.advance(60 * SECOND_MS)
    work(ledger)
    assert served == ["tick"]
    assert bell.armed == {made.schedule_id: made.due_ms + 60 * SECOND_MS}
    ledger.cancel_schedule(made.schedule_id, by="Ines")
    assert bell.armed == {}


def test_a_timer_that_forgot_is_told_again_when_a_worker_begins(world, served):
    made = world.worker().schedule("a", conversation="c", every_s=60)
    ledger, bell = world.worker(), Bell()
    ledger.host = Host(timer=bell)
    work(ledger)
    assert bell.armed == {made.schedule_id: made.due_ms}


# ---- runs that sleep --------------------------------------------------------------------------------------------------


def test_a_run_sleeps_for_days_and_a_worker_goes_on_with_it(ledger, world):
    steps = []

    @agent("sleeper")
    def sleeper(run):
        run.step("before", steps.append, "before")
        run.sleep(3 * 86_400)
        run.step("after", steps.append, "after")
        run.finish("rested")

    ledger.admit("sleeper", conversation="c")
    assert [each.done for each in work(ledger)] == ["waits"]
    assert facts(ledger, "c", "run.suspended")[0]["cause"] == "schedule"
    assert ledger.store.head(ledger.stream_of("c")).lease is None
    assert list(ledger.ready()) == []
    world.clock.advance(3 * DAY_MS - 1)
    assert work(ledger) == []
    world.clock.advance(1)
    (ready,) = ledger.ready()
    assert ready.why == "schedule"
    assert [each.terminal for each in work(ledger)] == ["success"]
    assert steps == ["before", "after"]
    assert ledger.schedules(state=None) == []
    check_truth(ledger)


def test_a_run_that_slept_is_replayed_and_rehearsed_without_sleeping(ledger, world):
    @agent("sleeper")
    def sleeper(run):
        run.step("before", lambda: None)
        run.sleep(86_400)
        run.finish("rested")

    ledger.admit("sleeper", conversation="c")
    work(ledger)
    world.clock.advance(DAY_MS)
    ((_, run_id),) = [(each.terminal, each.run.run_id) for each in work(ledger)]
    before = world.clock.now_ms()
    assert ledger.replay(run_id).same
    rehearsal = ledger.rehearse(run_id)
    assert rehearsal.terminal == "success"
    assert world.clock.now_ms() - before < DAY_MS


def test_asking_before_the_time_records_nothing(ledger, world):
    def go():
        with ledger.run("a", conversation="c", dedupe="1") as run:
            run.sleep_until(due)
        return run

    due = now(world) + timedelta(days=1)
    with pytest.raises(RunWaiting):
        go()
    head = ledger.store.head(ledger.stream_of("c")).sequence
    with pytest.raises(RunWaiting):
        go()
    assert ledger.store.head(ledger.stream_of("c")).sequence == head
    world.clock.advance(DAY_MS)
    assert go().terminal == "success"
    assert go().done


def test_a_short_sleep_is_waited_for_in_place_and_once(ledger, world):
    start = world.clock.now_ms()

    def agent_code(run):
        run.sleep(1.5)

    with pytest.raises(StoreBusy), ledger.run("a", conversation="c", dedupe="1") as run:
        agent_code(run)
        raise StoreBusy("the disk is busy")
    assert world.clock.now_ms() == start + 1_500
    with ledger.run("a", conversation="c", dedupe="1") as run:
        agent_code(run)
    assert world.clock.now_ms() == start + 1_500


def test_the_alarm_of_a_run_is_no_schedule_to_cancel_or_to_fire(ledger, world):
    with pytest.raises(RunWaiting) as waiting, ledger.run("a", conversation="c") as run:
        run.sleep(60)
    (alarm,) = waiting.value.waits_for
    assert (ledger.schedules(), ledger.schedules("c", None)) == ([], [])
    with pytest.raises(ScheduleConflict):
        ledger.cancel_schedule(alarm, by="Ines")
    world.clock.advance(HOUR_MS)
    assert list(ledger.fire_due()) == []


@pytest.mark.parametrize("seconds", [-1, float("inf"), "1", None])
def test_a_sleep_has_a_length(ledger, seconds):
    with ledger.run("a", conversation="c") as run, pytest.raises(InvalidForm):
        run.sleep(seconds)


def test_tasks_have_the_same_words(ledger, world):
    async def go():
        await ledger.aschedule("a", conversation="c", every_s=60)
        async with ledger.run("a", conversation="d", dedupe="1") as run:
            await run.asleep(1)
            await run.asleep_until(now(world) + timedelta(hours=1))

    with pytest.raises(RunWaiting):
        asyncio.run(go())
    assert len(ledger.schedules()) == 1
