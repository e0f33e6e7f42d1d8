"""The same call again: inside one entry, after a crash, in a run that has ended (case S11, DESIGN 7)."""

from __future__ import annotations

import enum
from contextlib import suppress

import pytest
from msgspec.structs import replace

from counterfoil.client.ledger import Ledger
from counterfoil.effects import by_key, by_repeating, by_review, effect
from counterfoil.errors import (
    EffectError,
    EffectFailed,
    EffectInFlight,
    IdempotencyConflict,
    NotDone,
    Rejected,
    RowsDiffer,
    RunClosed,
    RunSuspended,
    RunWaiting,
)
from counterfoil.testing.truth import check_truth

EFFECT_EVENTS = {"effect.intended", "effect.observed", "effect.repeated", "retry.decided"}
WAIT = RunSuspended("the run stops here and is entered again", cause="input")


class Gone(BaseException):
    """The worker is gone in the middle of a call."""


class Counter:
    """A tool that counts its calls and answers from a script; the last entry stays."""

    def __init__(self, *answers):
        self.calls = 0
        self.answers = answers or (None,)

    def __call__(self):
        answer = self.answers[min(self.calls, len(self.answers) - 1)]
        self.calls += 1
        if isinstance(answer, BaseException):
            raise answer
        return {"call": self.calls} if answer is None else answer


@pytest.fixture
def declare():
    def make(counter, **more):
        settings = {"version": "1", "touches": set(), "doubt": by_review()} | more

        def act(order="o-1", note="", *, idempotency_key=""):
            return counter()

        return effect("act", **settings)(act)

    return make


def run(ledger, dedupe="m1", conversation="case"):
    return ledger.run("agent", conversation=conversation, message="please", dedupe=dedupe)


def stop_after(ledger, work, *named):
    """Enter the run, do the work, and leave the run waiting, so that it can be entered again."""

    def block():
        with run(ledger, *named) as entered:
            work(entered)
            raise WAIT

    with pytest.raises(RunWaiting):
        block()


# ---- inside one entry -------------------------------------------------------------------------------------------------


def test_the_same_call_twice_is_one_effect_and_says_so(ledger, told, declare):
    counter = Counter()
    act = declare(counter)
    with run(ledger):
        assert act() == act() == {"call": 1}
    assert counter.calls == 1
    assert told() == ["effect.intended", "effect.observed", "effect.repeated"]


def test_other_arguments_are_another_effect(ledger, declare):
    counter = Counter()
    act = declare(counter)
    with run(ledger):
        act("o-1")
        act("o-2")
    assert counter.calls == 2


def test_a_repeatable_tool_acts_with_every_call(ledger, told, declare):
    counter = Counter()
    act = declare(counter, repeatable=True)
    with run(ledger):
        assert [act(), act()] == [{"call": 1}, {"call": 2}]
    assert told() == ["effect.intended", "effect.observed"] * 2


def test_a_tool_that_touches_nothing_looks_with_every_call(ledger, declare):
    counter = Counter()
    act = declare(counter, doubt=by_repeating())
    with run(ledger):
        act()
        act()
    assert counter.calls == 2


def test_a_call_that_was_confirmed_not_done_may_be_made_again(ledger, declare):
    counter = Counter(NotDone("busy"), NotDone("still busy"), "done")
    act = declare(counter)
    with run(ledger):
        for _ in range(2):
            with pytest.raises(NotDone):
                act()
        assert act() == "done"
        assert act() == "done"
    (row,) = ledger.effects()
    assert (row["attempt"], row["state"], counter.calls) == (3, "succeeded", 3)


def test_a_rejection_is_final(ledger, told, declare):
    counter = Counter(Rejected("no"), "yes")
    act = declare(counter)
    with run(ledger):
        for _ in range(2):
            with pytest.raises(Rejected):
                act()
    assert counter.calls == 1
    assert told() == ["effect.intended", "effect.observed", "effect.repeated"]


# ---- the run entered again ---------------------------------------------------------------------------------------------


def enter_again(world, work, times=3):
    """Enter the same run several times, each time as another worker, and compare what it sees and records."""
    outcomes, stories = [], []
    for _ in range(times):
        ledger = world.open()
        with run(ledger):
            outcomes.append(work())
        stories.append([(event.sequence, event.type) for event in ledger.events("case", types=EFFECT_EVENTS)])
    return outcomes, stories


def attempt(call, *args):
    """The call's result, or its error as text."""
    try:
        return call(*args)
    except (EffectError, LookupError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize(
    "answers,more",
    [
        ((None,), {}),
        ((Rejected("no", limit=5),), {}),
        ((NotDone("busy"),), {}),
        ((NotDone("busy"), "done"), {}),
        ((None,), {"repeatable": True}),
        ((None,), {"doubt": by_repeating()}),
        ((ValueError("no such order"),), {"doubt": by_repeating()}),
        ((KeyError("o-1"), "there"), {"doubt": by_repeating()}),
        ((None,), {"key": lambda order, **_: f"act:{order}"}),
    ],
    ids=lambda case: str(case).split(" at 0x")[0],
)
def test_entering_a_run_again_gives_every_call_its_recorded_outcome_and_records_nothing(
    world, declare, answers, more
):
    counter = Counter(*answers)
    act = declare(counter, **more)

    def work():
        return [attempt(act), attempt(act), attempt(act, "o-2")]

    outcomes, stories = enter_again(world, work)
    assert outcomes[1:] == outcomes[:-1]
    assert stories[1:] == stories[:-1]
    assert counter.calls <= 3


def test_a_recorded_rejection_is_raised_again_with_what_it_said(world, declare):
    act = declare(Counter(Rejected("over the limit", hint="ask for less", limit=5)))
    for _ in range(2):
        with run(world.open()), pytest.raises(Rejected, match="over the limit") as raised:
            act()
        assert (raised.value.hint, raised.value.limit) == ("ask for less", 5)


def test_an_error_class_of_the_application_comes_back_as_a_failed_effect_that_names_it(world, declare):
    class OrderGone(Exception):
        pass

    act = declare(Counter(OrderGone("o-1")), doubt=by_repeating())
    with run(world.open()), pytest.raises(OrderGone):
        act()
    with run(world.open()), pytest.raises(EffectFailed, match="o-1"):
        act()


def test_a_run_that_goes_on_after_its_record_acts_again(world, declare):
    counter = Counter()
    act = declare(counter)
    stop_after(world.open(), lambda _: act("o-1"))
    with run(world.open()):
        act("o-1")
        act("o-2")
    assert counter.calls == 2


def test_a_repeat_that_was_not_recorded_before_is_recorded_now(world, declare):
    act = declare(Counter())
    stop_after(world.open(), lambda _: act())
    ledger = world.open()
    with run(ledger):
        act()
        act()
        act()
    types = [event.type for event in ledger.events("case", types=EFFECT_EVENTS)]
    assert types == ["effect.intended", "effect.observed", "effect.repeated", "effect.repeated"]


def test_a_call_inside_a_memoised_step_is_not_mistaken_for_one_outside(world, declare):
    counter = Counter()
    act = declare(counter, repeatable=True)

    def work(entered):
        entered.step("inner", act)
        return act()

    stop_after(world.open(), lambda entered: entered.step("inner", act))
    with run(world.open()) as second:
        assert work(second) == {"call": 2}
    with run(world.open()) as third:
        assert work(third) == {"call": 2}
    assert counter.calls == 2


# ---- a run that has ended -----------------------------------------------------------------------------------------------


def test_an_ended_run_hands_out_its_record_and_does_nothing_new(world, declare):
    counter = Counter()
    act = declare(counter)
    with run(world.open()):
        act("o-1")
    with run(world.open()):
        assert act("o-1") == {"call": 1}
        with pytest.raises(RunClosed):
            act("o-2")
        with pytest.raises(RunClosed):
            act("o-1")
    assert counter.calls == 1


def test_another_run_of_the_conversation_acts_anew_without_a_business_key(world, declare):
    counter = Counter()
    act = declare(counter)
    for dedupe in ("m1", "m2"):
        with run(world.open(), dedupe):
            act()
    assert counter.calls == 2


# ---- business keys ------------------------------------------------------------------------------------------------------


def by_order(order, **_):
    return f"act:{order}"


def test_a_business_key_is_one_effect_for_every_run_and_conversation(world, declare):
    counter = Counter()
    act = declare(counter, key=by_order)
    with run(world.open()):
        act("o-1")
    ledger = world.open()
    with run(ledger, "m2", "other"):
        assert act("o-1") == {"call": 1}
    assert counter.calls == 1
    (repeated,) = ledger.events("other", types={"effect.repeated"})
    (first,) = ledger.events("case", types={"effect.intended"})
    assert repeated.data == {"effect_id": first.data["effect_id"], "first": first.event_id}


def test_a_key_of_an_enumeration_is_its_text(world, declare):
    class Kind(enum.StrEnum):
        REFUND = "refund"

    counter = Counter()
    with run(world.open()):
        declare(counter, key=lambda **_: Kind.REFUND)("o-1")
    with run(world.open(), "m2"):
        declare(counter, version="2", key=lambda **_: "refund")("o-1")
    assert counter.calls == 1


def test_a_repeat_of_another_runs_effect_is_silent_when_the_run_is_entered_again(world, declare):
    act = declare(Counter(), key=by_order)
    with run(world.open()):
        act("o-1")
    stop_after(world.open(), lambda _: act("o-1"), "m2", "other")
    ledger = world.open()
    for _ in range(2):
        with run(ledger, "m2", "other"):
            assert act("o-1") == {"call": 1}
    assert len(list(ledger.events("other", types={"effect.repeated"}))) == 1


def test_other_arguments_under_a_key_are_a_conflict_that_shows_both(world, declare):
    counter = Counter()
    act = declare(counter, key=by_order)
    with run(world.open()):
        act("o-1", note="blue")
        with pytest.raises(IdempotencyConflict) as conflict:
            act("o-1", note="red")
    with run(world.open(), "m2", "other"), pytest.raises(IdempotencyConflict):
        act("o-1", note="green")
    assert conflict.value.recorded in conflict.value.message
    assert conflict.value.given in conflict.value.message
    assert conflict.value.recorded != conflict.value.given
    assert "blue" not in str(conflict.value)
    assert counter.calls == 1


def test_another_tool_under_a_key_is_a_conflict(world, declare):
    act = declare(Counter(), key=by_order)
    other = effect("other", version="1", touches=set(), doubt=by_review(), key=by_order)(
        lambda order, note="": None
    )
    with run(world.open()):
        act("o-1")
        with pytest.raises(IdempotencyConflict, match="act"):
            other("o-1")


def test_a_new_version_of_the_tool_is_the_same_effect(world, declare):
    counter = Counter()
    with run(world.open()):
        declare(counter, key=by_order)("o-1")
    with run(world.open(), "m2", "other"):
        assert declare(counter, key=by_order, version="2")("o-1") == {"call": 1}


def test_an_effect_that_another_run_confirmed_not_done_may_be_taken_over(world, declare):
    counter = Counter(NotDone("busy"), "done")
    act = declare(counter, key=by_order, doubt=by_key())
    with run(world.open()), pytest.raises(NotDone):
        act("o-1")
    ledger = world.open()
    with run(ledger, "m2", "other"):
        assert act("o-1") == "done"
    first, second = sorted(ledger.effects(), key=lambda row: row["effect_id"])
    assert (first["state"], second["state"]) == ("failed", "succeeded")
    (intended,) = ledger.events("other", types={"effect.intended"})
    assert intended.content["takes_over"] == first["effect_id"]


def test_a_key_may_be_taken_over_again_and_again_and_ends_once(world, declare):
    counter = Counter(NotDone("busy"), NotDone("busy"), NotDone("busy"), "done")
    act = declare(counter, key=by_order)
    conversations = ["a", "b", "a", "c", "b"]
    for number, conversation in enumerate(conversations):
        with run(world.open(), f"m{number}", conversation):
            attempt(act, "o-1")
    assert counter.calls == 4
    ledger = world.open()
    states = sorted(row["state"] for row in ledger.effects())
    assert states == ["failed", "failed", "failed", "succeeded"]
    check_truth(ledger)


def test_an_effect_that_was_taken_over_gets_no_attempt_of_its_own_any_more(world, declare):
    """Two runs look at the same failed effect; only one of them may act."""
    counter = Counter(NotDone("busy"), "done")
    act = declare(counter, key=by_order)
    own, other = world.open(), world.open()
    with run(own):
        attempt(act, "o-1")
        with run(other, "m2", "other"):
            assert act("o-1") == "done"
        assert act("o-1") == "done"
    assert counter.calls == 2
    check_truth(own)


def test_a_key_is_not_taken_over_while_its_own_run_tries_again(world, declare, monkeypatch):
    counter = Counter(NotDone("busy"), "done", "twice")
    act = declare(counter, key=by_order)
    own, other = world.open(), world.open()
    append = other.ports.append

    def outrun(unit, claim=None):
        # The first intention finds the key taken; the one that would take it over has guards on both effects too.
        if len(unit.guards) == 3:
            assert once_more("o-1") == "done"
        return append(unit, claim)

    with run(own) as entered:
        attempt(act, "o-1")
        once_more = entered.bind(act)
        with run(other, "m2", "other"):
            monkeypatch.setattr(other.ports, "append", outrun)
            with pytest.raises(EffectInFlight):
                act("o-1")
            monkeypatch.undo()
            assert act("o-1") == "done"
    assert counter.calls == 2
    check_truth(own)


def test_the_run_whose_key_was_taken_over_gets_the_other_runs_outcome(world, declare):
    counter = Counter(NotDone("busy"), "done")
    act = declare(counter, key=by_order)
    stop_after(world.open(), lambda _: attempt(act, "o-1"))
    with run(world.open(), "m2", "other"):
        act("o-1")
    with run(world.open()):
        with pytest.raises(NotDone):
            act("o-1")
        assert act("o-1") == "done"
    assert counter.calls == 2


def test_a_key_whose_record_was_erased_is_never_sent_again(world, declare):
    """Erasure reduces the key row to "settled", without stream, effect or arguments (FORMAT 8)."""
    counter = Counter()
    act = declare(counter, key=by_order)
    ledger = world.open()
    with run(ledger):
        act("o-1")
    keys = ledger.store._state.tables["effect_keys"].rows
    (key,) = keys
    nothing = {"tool": None, "arguments_index": None, "effect_id": None, "stream_id": None}
    keys[key] = keys[key] | nothing | {"state": "settled"}
    with run(world.open(), "m2", "other"), pytest.raises(IdempotencyConflict, match="erased"):
        act("o-1")
    assert counter.calls == 1


# ---- a row that points elsewhere -----------------------------------------------------------------------------------------


class Edited:
    """A store whose rows of effects have been changed by hand."""

    def __init__(self, store, **changes):
        self._store = store
        self._changes = changes

    def __getattr__(self, name):
        return getattr(self._store, name)

    def get(self, table, key):
        return self._edit(table, self._store.get(table, key))

    def select(self, table, *rest, **more):
        return [self._edit(table, row) for row in self._store.select(table, *rest, **more)]

    def _edit(self, table, row):
        if table != "effects" or row is None:
            return row
        return None if self._changes.get("lost") else {**row, **self._changes}


def edited(world, **changes):
    world.open()
    parts = replace(world._shared, store=Edited(world._shared.store, **changes))
    return Ledger(parts, tenant="default", content=None, clock=world.clock, ids=world.ids)


@pytest.mark.parametrize(
    "changes,said",
    [
        ({"outcome_sequence": 4}, "another one"),
        ({"outcome_sequence": 7}, "another one"),
        ({"outcome_sequence": 9_999}, "there is none"),
        ({"outcome_sequence": None}, "a decided effect has one"),
        ({"outcome": "rejected"}, "it says succeeded, not rejected"),
        ({"lost": True}, "has no row"),
    ],
    ids=str,
)
def test_what_a_row_says_against_its_events_is_not_handed_out_and_nothing_is_sent(
    world, declare, changes, said
):
    counter = Counter()
    with run(world.open()):
        declare(counter, key=by_order)("o-1")
        declare(counter, key=by_order)("o-2")
    ledger = edited(world, **changes)
    with pytest.raises(RowsDiffer, match=said) as differs, run(ledger, "m2", "other"):
        declare(counter, key=by_order)("o-1")
    assert "counterfoil rebuild" in differs.value.hint
    assert counter.calls == 2


def test_recovery_does_not_follow_a_row_that_points_elsewhere_and_says_so(world, declare):
    def gone():
        raise Gone

    with suppress(Gone), run(world.open()):
        declare(gone, key=by_order)("o-1")
    world.time_passes()
    (report,) = edited(world, first_sequence=1).recover().effects
    assert report.done == "left"
    assert "another one" in report.why
