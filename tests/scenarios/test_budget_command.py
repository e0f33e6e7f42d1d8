"""``counterfoil show RUN`` says of each budget what was spent of what."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

import counterfoil
from counterfoil.errors import BudgetExceeded
from tests.command import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def spend(shell: Shell, currency: str = "EUR") -> str:
    def model(request):
        return counterfoil.Response("ok", input_tokens=1, cost="0.25", currency=currency)

    budget = {"money": "0.50", "currency": "EUR", "tokens": 100, "wall_s": 60}
    with shell.open() as ledger, suppress(BudgetExceeded), ledger.run("agent", budget=budget) as run:
        for number in range(5):
            run.ask(model, f"q{number}")
    return run.id


def test_a_run_that_its_budget_stopped_says_so(shell):
    run_id = spend(shell)
    shown = shell("show", run_id)
    assert shown.code == 0
    assert "budget money: 0.5 of 0.5 EUR · used up, the run was stopped" in shown.out
    assert "budget tokens: 2 of 100 tokens" in shown.out
    told = {budget["budget"]: budget for budget in shell("show", run_id, "--json").json["budgets"]}
    assert (told["money"]["spent"], told["money"]["exceeded"], told["tokens"]["exceeded"]) == (
        "0.5",
        True,
        False,
    )


def test_costs_without_a_sum_are_said(shell):
    assert "budget money: ? of 0.5 EUR, other currencies were spent" in shell("show", spend(shell, "USD")).out


def test_a_run_without_a_budget_shows_none(shell):
    with shell.open() as ledger, ledger.run("agent") as run:
        run.finish("done")
    assert "budget" not in shell("show", run.id).out
    assert shell("show", run.id, "--json").json["budgets"] == []
