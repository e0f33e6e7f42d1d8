"""Runs that are held to a budget: what counts, when it is looked at, and how a run ends that has used it up."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest

import counterfoil
from counterfoil.effects import by_key, effect
from counterfoil.effects.registry import own_tools
from counterfoil.errors import BudgetExceeded, ChildFailed, InvalidForm, ModelFailed, RunWaiting
from counterfoil.runtime.agents import own_agents
from counterfoil.runtime.budgets.limits import Budget
from counterfoil.testing.truth import check_truth
from tests.running import facts, types_of, vanish

COST = {"input_tokens": 30, "output_tokens": 10, "cost": "0.10", "currency": "EUR"}


def paid(request):
    return counterfoil.Response("ok", **COST)


def ask(run, times, model=paid):
    for number in range(times):
        run.ask(model, f"question {number}")


def spend(ledger, times=9, model=paid, **given):
    with ledger.run("agent", conversation="c", dedupe="m1", message="go", **given) as run:
        ask(run, times, model)
        run.finish("done")
    return run


@pytest.mark.parametrize(
    "budget, calls, limit, spent",
    [
        ({"tokens": 100}, 3, "100", "120"),
        ({"money": "0.30", "currency": "EUR"}, 3, "0.3", "0.3"),
        ({"calls": 4}, 4, "4", "4"),
        ({"calls": 0}, 0, "0", "0"),
    ],
)
def test_a_used_up_budget_stops_the_run_before_the_next_call(ledger, budget, calls, limit, spent):
    with pytest.raises(BudgetExceeded) as told:
        spend(ledger, budget=budget)
    kind = next(iter(budget))
    assert (told.value.budget, told.value.limit, told.value.spent) == (kind, limit, spent)
    assert len(facts(ledger, "c", "provider.requested")) == calls
    (row,) = ledger.runs("c")
    assert (row["terminal"], told.value.run_id) == ("policy_stop", row["run_id"])
    (exceeded,) = facts(ledger, "c", "budget.exceeded")
    assert (exceeded["budget"], exceeded["limit"], exceeded["spent"]) == (kind, limit, spent)
    check_truth(ledger)


def test_the_fact_and_the_end_are_one_append(ledger):
    with contextlib.suppress(BudgetExceeded):
        spend(ledger, budget={"calls": 1})
    assert types_of(ledger, "c")[-2:] == ["budget.exceeded", "run.finished"]
    assert types_of(ledger, "c")[2:4] == ["run.started", "budget.set"]


def test_a_budget_that_is_not_used_up_is_recorded_and_shown(ledger):
    run = spend(ledger, 2, budget=Budget(tokens=1000, money=Decimal(5), currency="EUR", calls=9, wall_s=60))
    standings = {standing.budget: standing for standing in ledger.budgets(run.id)}
    assert [(s.budget, s.spent, s.limit) for s in standings.values()] == [
        ("tokens", "80", "1000"),
        ("money", "0.2", "5"),
        ("calls", "2", "9"),
        ("wall", "0", "60"),
    ]
    assert not any(standing.exceeded for standing in standings.values())


def test_money_is_summed_exactly(ledger):
    model = lambda request: counterfoil.Response("ok", cost="0.1", currency="EUR")  # noqa: E731 - a model in a line
    run = spend(ledger, 10, model, budget={"money": "1.0000000000000000001", "currency": "EUR"})
    assert ledger.budgets(run.id)[0].spent == "1"


@pytest.mark.parametrize("currency", ["USD", None])
def test_costs_in_another_currency_are_refused(ledger, currency):
    model = lambda request: counterfoil.Response("ok", cost="0.1", currency=currency)  # noqa: E731 - a model in a line
    with pytest.raises(BudgetExceeded, match="no sum") as told:
        spend(ledger, 5, model, budget={"money": "9", "currency": "EUR"})
    assert (told.value.budget, told.value.spent) == ("money", None)
    assert len(facts(ledger, "c", "provider.requested")) == 1
    assert "spent" not in facts(ledger, "c", "budget.exceeded")[0]


def test_a_cost_of_nothing_is_in_no_currency(ledger):
    model = lambda request: counterfoil.Response("ok", cost="0")  # noqa: E731 - a model in a line
    assert spend(ledger, 3, model, budget={"money": "9", "currency": "EUR"}).output == "done"


def test_failed_calls_count_as_calls(ledger):
    def failing(request):
        raise ConnectionError("no answer")

    with pytest.raises(BudgetExceeded), ledger.run("agent", conversation="c", budget={"calls": 2}) as run:
        for _ in range(5):
            with contextlib.suppress(ModelFailed):
                run.ask(failing, "hello")
    assert len(facts(ledger, "c", "provider.failed")) == 2


def test_code_that_swallows_the_error_is_told_at_the_end_and_calls_nothing(ledger):
    with pytest.raises(BudgetExceeded), ledger.run("agent", conversation="c", budget={"calls": 1}) as run:
        for _ in range(4):
            with contextlib.suppress(BudgetExceeded):
                run.ask(paid, "hello")
        run.finish("all is well")
    (row,) = ledger.runs("c")
    assert (row["terminal"], row["calls"]) == ("policy_stop", 1)


def test_a_resumed_run_keeps_what_was_spent(world, ledger):
    def work(run):
        ask(run, 2)

    vanish(ledger.run("agent", conversation="c", dedupe="m1", message="go", budget={"tokens": 100}), work)
    world.expire_leases()
    with pytest.raises(BudgetExceeded) as told:
        spend(world.worker())
    assert told.value.spent == "120"
    assert len(facts(ledger, "c", "provider.requested")) == 3
    assert len(facts(ledger, "c", "budget.set")) == 1


def test_a_request_whose_answer_was_lost_counts_as_a_call(world, ledger):
    class Gone(BaseException):
        pass

    def dies(request):
        raise Gone

    def work(run):
        with contextlib.suppress(Gone):
            run.ask(dies, "first")

    vanish(ledger.run("agent", conversation="c", dedupe="m1", message="go", budget={"calls": 2}), work)
    world.expire_leases()
    with pytest.raises(BudgetExceeded):
        spend(world.worker())
    assert len(facts(ledger, "c", "provider.requested")) == 2


def test_a_resumed_run_may_be_given_another_limit(world, ledger):
    vanish(
        ledger.run("agent", conversation="c", dedupe="m1", message="go", budget={"calls": 2}),
        lambda run: ask(run, 2),
    )
    world.expire_leases()
    run = spend(world.worker(), 4, budget={"calls": 4})
    assert [fact["limit"] for fact in facts(ledger, "c", "budget.set")] == ["2", "4"]
    assert [(s.spent, s.limit) for s in ledger.budgets(run.id)] == [("4", "4")]


def test_wall_time_is_the_time_in_which_a_worker_is_at_it(world, ledger):
    with own_tools():

        @effect("mail", version="1", touches={"messages"}, key=lambda n, **_: f"mail:{n}", doubt=by_key())
        def mail(n: int, *, idempotency_key: str = ""):
            return n

        given = {"conversation": "c", "dedupe": "m1", "message": "go"}
        with pytest.raises(RunWaiting), ledger.run("agent", **given, budget={"wall_s": 100}) as run:
            world.clock.advance(40_000)
            raise run._scope.suspend("a pause", cause="input")
        world.clock.advance(86_400_000)
        with pytest.raises(BudgetExceeded) as told, ledger.run("agent", **given) as run:
            mail(1)
            world.clock.advance(59_999)
            mail(2)
            world.clock.advance(1)
            mail(3)
    assert (told.value.budget, told.value.limit, told.value.spent) == ("wall", "100", "100")
    assert len(facts(ledger, "c", "effect.intended")) == 2
    assert ledger.budgets(run.id)[0].spent == "100"


def test_the_time_of_a_vanished_worker_counts_up_to_what_it_recorded_last(world, ledger):
    def work(run):
        world.clock.advance(10_000)
        ask(run, 1)

    vanish(ledger.run("agent", conversation="c", dedupe="m1", message="go", budget={"wall_s": 1000}), work)
    world.clock.advance(500_000)
    run = spend(world.worker(), 1)
    assert ledger.budgets(run.id)[0].spent == "10"


def test_an_agent_has_a_budget_that_the_caller_may_change(ledger):
    with own_agents():
        counterfoil.agent("agent", budget={"calls": 1, "tokens": 10_000})(lambda run: ask(run, 3))
        with pytest.raises(BudgetExceeded):
            spend(ledger)
        with ledger.run("agent", conversation="d", budget={"calls": 3}) as run:
            ask(run, 3)
    assert [(s.budget, s.limit) for s in ledger.budgets(run.id)] == [("tokens", "10000"), ("calls", "3")]


def test_siblings_that_ask_at_once_share_the_calls(ledger):
    async def agent():
        async with ledger.run("agent", conversation="c", budget={"calls": 3}) as run:
            await asyncio.gather(*(run.aask(paid, f"q{n}") for n in range(8)), return_exceptions=True)

    with pytest.raises(BudgetExceeded):
        asyncio.run(agent())
    assert len(facts(ledger, "c", "provider.requested")) == 3


def test_threads_that_ask_at_once_share_the_calls(ledger):
    run = ledger.run("agent", conversation="c", budget={"calls": 3})
    with pytest.raises(BudgetExceeded), run, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: run.bind(run.ask)(paid, f"q{n}"), range(8)))
    assert len(facts(ledger, "c", "provider.requested")) == 3


@pytest.mark.parametrize(
    "budget",
    [
        {"tokens": -1},
        {"tokens": 1.5},
        {"tokens": True},
        {"money": 0.1, "currency": "EUR"},
        {"money": "1"},
        {"currency": "EUR"},
        {"money": "1e3", "currency": "EUR"},
        {"money": "-1", "currency": "EUR"},
        {"money": "1", "currency": "\x1b[31m"},
        {"money": "1" * 41, "currency": "EUR"},
        {"wall_s": float("nan")},
        {"wall_s": float("inf")},
        {"wall_s": -1},
        {"wall_s": 1e300},
        {"wall_s": 10**400},
        {"wall_s": Decimal("1e999999")},
        {"wall_s": "60"},
        {"steps": 3},
        "much",
    ],
    ids=str,
)
def test_a_budget_that_is_none_is_refused_before_anything_is_written(ledger, budget):
    with pytest.raises(InvalidForm):
        ledger.run("agent", conversation="c", budget=budget)
    with own_agents(), pytest.raises(InvalidForm):
        counterfoil.agent("agent", budget=budget)
    assert ledger.conversations() == []


# ---- children --------------------------------------------------------------------------------------------------------


def family_of(ledger, budget, *, counts, child_budget=None, children=2):
    """A parent with a budget whose children ask three times each, one after the other."""

    def kid(run):
        ask(run, 3)
        run.finish("done")

    with own_agents():
        counterfoil.agent("kid")(kid)
        with ledger.run("parent", conversation="c", dedupe="m", message="x", budget=budget) as run:
            for number in range(children):
                link = run.spawn("kid", number, budget=child_budget, count_on_parent=counts)
                with contextlib.suppress(ChildFailed):
                    run.wait(link)
            ask(run, 1)
    return run


def test_children_count_against_their_own_budgets_alone(ledger):
    run = family_of(ledger, {"calls": 2}, counts=False)
    assert run.terminal == "success"
    assert [(s.spent, s.limit) for s in ledger.budgets(run.id)] == [("1", "2")]


def test_children_that_count_on_their_parent_draw_on_its_budget_once(ledger):
    budget = {"calls": 9, "tokens": 1000, "money": "5", "currency": "EUR"}
    run = family_of(ledger, budget, counts=True)
    spent = [(s.budget, s.spent) for s in ledger.budgets(run.id)]
    assert spent == [("tokens", "280"), ("money", "0.7"), ("calls", "7")]
    assert [ledger.budgets(child.link.run_id) for child in ledger.children()] == [[], []]


def test_a_child_is_stopped_by_the_budget_that_it_counts_on(ledger):
    with pytest.raises(BudgetExceeded) as told:
        family_of(ledger, {"calls": 4}, counts=True)
    parent = ledger.runs("c")[0]["run_id"]
    assert (told.value.run_id, told.value.spent) == (parent, "4")
    ends = [ledger.run_row(child.link.run_id)["terminal"] for child in ledger.children()]
    assert ends == ["success", "policy_stop"]
    second = ledger.children()[1].link.stream_id
    assert facts(ledger, second, "budget.exceeded")[0]["limit"] == "4"
    check_truth(ledger)


def test_a_grandchild_draws_on_every_budget_above_that_it_counts_on(ledger):
    def kid(run):
        ask(run, 1)
        if run.message:
            run.wait(run.spawn("kid", run.message - 1, count_on_parent=True))
        ask(run, 1)

    with own_agents():
        counterfoil.agent("kid")(kid)
        given = {"conversation": "c", "budget": {"calls": 3}}
        with contextlib.suppress(ChildFailed), ledger.run("parent", **given) as run:
            run.wait(run.spawn("kid", 5, count_on_parent=True))
    sent = sum(len(facts(ledger, c.stream_id, "provider.requested")) for c in ledger.conversations())
    assert sent == 3
    assert [(s.spent, s.limit) for s in ledger.budgets(run.id)] == [("3", "3")]


def test_a_childs_own_budget_stops_the_child_and_not_the_parent(ledger):
    run = family_of(ledger, None, counts=True, child_budget={"calls": 1}, children=1)
    assert run.terminal == "success"
    (child,) = ledger.children()
    assert child.terminal == "policy_stop"
