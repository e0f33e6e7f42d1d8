"""Memoised steps: run once, recorded, handed out again by identity (DESIGN 6)."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest

from counterfoil.errors import (
    Divergence,
    EffectFailed,
    InputError,
    InvalidForm,
    NoRun,
    NotEncodable,
    Rejected,
    StepFailed,
    StoreBusy,
)
from tests.running import facts, types_of, vanish


@pytest.fixture
def resume(world, ledger):
    """Runs a body, lets its worker vanish, and runs another body in the resumed run."""

    def run(first, second):
        vanish(ledger.run("a", conversation="c", dedupe="1"), first)
        world.expire_leases()
        with world.worker().run("a", conversation="c", dedupe="1") as again:
            return second(again)

    return run


def never(*args, **kwargs):
    pytest.fail("a recorded step ran again")


def test_a_step_is_recorded_before_and_after_it_runs(ledger):
    seen = []
    with ledger.run("a", conversation="c") as run:
        run.step("look", lambda: seen.append(types_of(ledger, "c")[-1]))
    assert seen == ["step.started"]
    assert types_of(ledger, "c")[-2:] == ["step.finished", "run.finished"]


def test_a_resumed_run_gets_the_recorded_result_in_its_own_type(resume):
    value = {"amount": Decimal("1.10"), "pair": (1, "1"), "raw": b"\x00", "text": "ab\x00cd"}
    assert resume(lambda run: run.step("s", lambda: value), lambda run: run.step("s", never)) == value


def test_other_arguments_are_another_step(ledger):
    with ledger.run("a", conversation="c") as run:
        assert [run.step("double", lambda n: 2 * n, n) for n in (1, 2)] == [2, 4]


def test_the_same_arguments_again_are_another_occurrence(resume):
    counter = iter(range(10))

    def twice(run):
        return [run.step("next", lambda: next(counter)) for _ in range(2)]

    assert resume(twice, lambda run: [run.step("next", never) for _ in range(2)]) == [0, 1]


def test_a_number_and_its_text_are_different_arguments_but_a_whole_float_is_not(ledger):
    with ledger.run("a", conversation="c") as run:
        for value in (40, 40.0, "40"):
            run.step("s", lambda x: x, value)
    memos = [step["memo"] for step in facts(ledger, "c", "step.started")]
    assert len(set(memos)) == 3  # the second is the second occurrence of the first

    with ledger.run("a", conversation="d") as run:
        run.step("s", lambda x: x, 40.0)
    with ledger.run("a", conversation="d") as run:
        run.step("s", lambda x: x, 40)
    first, second = (step["memo"] for step in facts(ledger, "d", "step.started"))
    assert first == second


def test_an_error_is_recorded_and_raised_again_as_itself(resume):
    def fails(run):
        with pytest.raises(KeyError):
            run.step("s", lambda: {}["missing"])

    def again(run):
        with pytest.raises(KeyError) as caught:
            run.step("s", never)
        return caught.value.args

    assert resume(fails, again) == ("missing",)


def test_an_error_of_a_class_of_the_application_comes_back_as_step_failed(resume):
    class CardDeclined(Exception):
        pass

    def decline():
        raise CardDeclined("no funds")

    def fails(run):
        with pytest.raises(CardDeclined):
            run.step("s", decline)

    def again(run):
        with pytest.raises(StepFailed, match="no funds") as caught:
            run.step("s", never)
        return caught.value.error_class

    assert resume(fails, again) == "CardDeclined"


@pytest.mark.parametrize("error", [Rejected("no"), EffectFailed("no", effect_id="eff_1", outcome="failed")])
def test_an_error_of_counterfoil_comes_back_with_its_fields(resume, error):
    def failing():
        raise error

    def fails(run):
        with pytest.raises(type(error)):
            run.step("s", failing)

    def again(run):
        with pytest.raises(type(error)) as caught:
            run.step("s", never)
        return caught.value

    found = resume(fails, again)
    assert (found.message, found.fields) == (error.message, error.fields)


def test_a_failure_of_the_ledger_inside_a_step_is_no_result(resume):
    def busy():
        raise StoreBusy("later")

    def fails(run):
        with pytest.raises(StoreBusy):
            run.step("s", busy)

    assert resume(fails, lambda run: run.step("s", lambda: "now")) == "now"


def test_an_interrupted_step_is_cancelled_and_runs_again(world, ledger):
    def interrupt():
        raise KeyboardInterrupt

    def interrupted(run):
        with pytest.raises(KeyboardInterrupt):
            run.step("s", interrupt)

    vanish(ledger.run("a", conversation="c", dedupe="1"), interrupted)
    world.expire_leases()
    with world.worker().run("a", conversation="c", dedupe="1") as again:
        assert again.step("s", lambda: "done") == "done"
    assert [step["outcome"] for step in facts(ledger, "c", "step.finished")] == ["cancelled", "ok"]


def test_a_step_that_was_begun_keeps_its_id_and_counts_its_attempts(world, ledger):
    vanish(ledger.run("a", conversation="c", dedupe="1"), vanish_inside)
    world.expire_leases()
    with world.worker().run("a", conversation="c", dedupe="1") as again:
        again.step("s", lambda: 1)
    first, second = ledger.events("c", types=["step.started"])
    assert (first.header.step_id, first.header.attempt) == (second.header.step_id, 1)
    assert second.header.attempt == 2


class Gone(BaseException):
    """A death that nothing records."""


def vanish_inside(run):
    def die():
        raise Gone

    with pytest.raises(Gone):
        run.step("s", die)


def test_a_result_that_has_no_form_is_refused_and_the_step_runs_again_when_mended(resume):
    def fails(run):
        with pytest.raises(NotEncodable, match="result"):
            run.step("s", lambda: {"connection": object()})

    assert resume(fails, lambda run: run.step("s", lambda: "mended")) == "mended"


def test_arguments_that_have_no_form_are_refused_before_anything_is_written(ledger):
    with ledger.run("a", conversation="c") as run, pytest.raises(NotEncodable, match=r"arguments\.args\[0\]"):
        run.step("s", never, object())
    assert "step.started" not in types_of(ledger, "c")


def test_a_result_too_large_for_an_event_moves_to_an_artifact_and_the_run_goes_on(ledger):
    with ledger.run("a", conversation="c") as run:
        assert len(run.step("s", lambda: "x" * (5 * 1024 * 1024))) == 5 * 1024 * 1024
        run.step("t", lambda: 1)
    assert types_of(ledger, "c").count("artifact.spilled") == 1


def test_arguments_too_large_for_an_event_move_to_an_artifact_too(ledger):
    with ledger.run("a", conversation="c") as run:
        assert run.step("s", len, "x" * (5 * 1024 * 1024)) == 5 * 1024 * 1024
    assert types_of(ledger, "c").count("artifact.spilled") == 1


def test_a_coroutine_nobody_awaits_is_refused_with_a_hint(ledger):
    async def later(number=1):
        return number

    with ledger.run("a", conversation="c") as run:
        with pytest.raises(InputError, match="astep"):
            run.step("s", lambda number: later(number + 1), 1)
        with pytest.raises(InputError, match="async"):
            run.step("t", later)


def test_a_name_that_is_no_label_is_hidden_in_the_header_and_whole_in_content(ledger):
    with ledger.run("a", conversation="c") as run:
        run.step("look up Jane's order", lambda: 1)
    (started,) = ledger.events("c", types=["step.started"])
    assert started.data["name"].startswith("~")
    assert started.content["name"] == "look up Jane's order"


def test_steps_inside_a_step_are_counted_apart(resume):
    def nested(run):
        def outer():
            return [run.step("inner", lambda: "a"), run.step("inner", lambda: "b")]

        return run.step("outer", outer), run.step("inner", lambda: "c")

    def outer_gone(run):
        return run.step("outer", never), run.step("inner", never)

    assert resume(nested, outer_gone) == (["a", "b"], "c")


def test_a_step_left_in_the_middle_keeps_what_ran_inside_it(world, ledger):
    def dies_after_inner(run):
        def outer():
            run.step("inner", lambda: "kept")
            raise Gone

        with pytest.raises(Gone):
            run.step("outer", outer)

    vanish(ledger.run("a", conversation="c", dedupe="1"), dies_after_inner)
    world.expire_leases()
    with world.worker().run("a", conversation="c", dedupe="1") as again:
        assert again.step("outer", lambda: again.step("inner", never)) == "kept"


# ---- another program ---------------------------------------------------------------------------------------------


def test_other_code_in_the_place_of_a_recorded_step_is_a_divergence_with_both_sides(world, ledger):
    vanish(ledger.run("a", conversation="c", dedupe="1"), lambda run: run.step("charge", lambda n: n, 1))
    world.expire_leases()
    with pytest.raises(Divergence) as caught, world.worker().run("a", conversation="c", dedupe="1") as again:
        again.step("charge", never, 2)
    assert caught.value.recorded["name"] == caught.value.found["name"] == "charge"
    assert caught.value.recorded["memo"] != caught.value.found["memo"]


def test_a_divergence_is_sticky_and_leaves_the_run_for_the_right_code(world, ledger):
    vanish(ledger.run("a", conversation="c", dedupe="1"), lambda run: run.step("one", lambda: 1))
    world.expire_leases()
    with pytest.raises(Divergence), world.worker().run("a", conversation="c", dedupe="1") as again:
        for _ in range(2):
            with pytest.raises(Divergence):
                again.step("other", never)
    with world.worker().run("a", conversation="c", dedupe="1") as right:
        assert right.step("one", never) == 1
    assert len(facts(ledger, "c", "step.started")) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Gone(), StoreBusy("busy"), NotEncodable("odd")])
def test_code_that_went_on_after_a_step_without_result_resumes_as_it_is(resume, error):
    entries = []

    def agent(run):
        entries.append(run)

        def gives_up():
            entries.append("live")
            raise error

        with pytest.raises(type(error)):
            run.step("first", gives_up)
        return run.step("second", lambda: "kept" if len(entries) == 2 else never())

    assert resume(agent, agent) == "kept"
    assert entries.count("live") == 2


def test_a_time_limit_in_the_main_lane_is_no_divergence_when_resuming(world, ledger):
    async def agent(run):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await run.astep("slow", asyncio.Event().wait)
        return await run.astep("fast", lambda: "kept" if len(entries) == 1 else never())

    async def enter(of):
        async with of.run("a", conversation="c", dedupe="1") as run:
            entries.append(await agent(run) if entries else run)
            if len(entries) == 1:
                await agent(run)
                raise StoreBusy("the disk is busy")

    entries = []
    with pytest.raises(StoreBusy):
        asyncio.run(enter(ledger))
    asyncio.run(enter(world.worker()))
    assert entries[1:] == ["kept"]


def test_what_stands_before_an_attempt_without_result_is_a_divergence_all_the_same(resume):
    def first(run):
        run.step("one", lambda: 1)
        with pytest.raises(NotEncodable):
            run.step("two", object)

    with pytest.raises(Divergence) as caught:
        resume(first, lambda run: run.step("two", never))
    assert caught.value.recorded["name"] == "one"


def test_a_result_that_was_removed_is_a_divergence_and_not_taken_for_an_attempt_without_one(world, ledger):
    def agent(run):
        return [run.step(name, str, name) for name in ("one", "two")]

    vanish(ledger.run("a", conversation="c", dedupe="1"), agent)
    world.expire_leases()
    events = ledger.store._state.streams[ledger.stream_of("c")].events
    del events[next(place for place, event in enumerate(events) if event.event_type == "step.finished")]
    with pytest.raises(Divergence), world.worker().run("a", conversation="c", dedupe="1") as again:
        again.step("one", never, "one")


def test_siblings_in_another_order_are_no_divergence(world, ledger):
    def in_threads(run, names):
        with ThreadPoolExecutor(1) as pool:
            for name in names:
                pool.submit(run.bind(run.step), name, str, name).result()

    vanish(ledger.run("a", conversation="c", dedupe="1"), lambda run: in_threads(run, ["one", "two"]))
    world.expire_leases()
    with world.worker().run("a", conversation="c", dedupe="1") as again:
        in_threads(again, ["three", "two", "one"])
    assert len(facts(ledger, "c", "step.finished")) == 3


def test_a_main_lane_that_goes_on_while_a_thread_is_late_is_no_divergence(world, ledger):
    def thread_then_main(run):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(run.bind(run.step), "side", lambda: 1).result()

    vanish(ledger.run("a", conversation="c", dedupe="1"), thread_then_main)
    world.expire_leases()
    with world.worker().run("a", conversation="c", dedupe="1") as again:
        assert again.step("main", lambda: 2) == 2
        thread_then_main(again)


# ---- context -----------------------------------------------------------------------------------------------------


def test_a_bound_function_takes_the_run_along_into_any_number_of_threads(ledger):
    with ledger.run("a", conversation="c") as run:
        double = run.bind(lambda n: run.step("double", lambda x: 2 * x, n))
        with ThreadPoolExecutor(4) as pool:
            assert sorted(pool.map(double, range(8))) == [0, 2, 4, 6, 8, 10, 12, 14]


def test_a_bare_thread_has_no_run_and_is_told_how_to_get_one(ledger):
    from counterfoil.flow.context import current_scope

    errors = []

    def bare():
        try:
            current_scope()
        except NoRun as error:
            errors.append(str(error))

    with ledger.run("a"):
        thread = threading.Thread(target=bare)
        thread.start()
        thread.join()
    assert "run.bind(fn)" in errors[0]


@pytest.mark.parametrize(
    "argument,call",
    [
        ("name", lambda run: run.step(None, lambda: 1)),
        ("name", lambda run: run.step("", lambda: 1)),
        ("name", lambda run: run.step("x" * 5000, lambda: 1)),
        ("fn", lambda run: run.step("look", None)),
        ("fn", lambda run: run.bind(None)),
        ("data", lambda run: run.record("shop.looked", [1], ignorable=True)),
    ],
)
def test_an_odd_argument_is_named_before_anything_is_written(ledger, argument, call):
    with ledger.run("a", conversation="c") as run:
        before = types_of(ledger, "c")
        with pytest.raises(InvalidForm) as refused:
            call(run)
        assert refused.value.argument == argument
        assert types_of(ledger, "c") == before
