"""A worker goes on with repairs by itself, once people have answered or another worker is gone."""

from __future__ import annotations

import asyncio

import pytest

import counterfoil
from counterfoil.policy import RuleList, ask
from counterfoil.repair.agent import take_up
from counterfoil.repair.play import AGENT
from counterfoil.runtime.agents import own_agents
from counterfoil.testing.crash import LifeUntil, live
from tests.repairing import CASE, Bank


def policy():
    return RuleList(
        "limits",
        revision="1",
        otherwise="allow",
        rules=[ask("charges", when=lambda call: call.tool == "bank.charge")],
    )


@pytest.fixture(autouse=True)
def _agents():
    with own_agents():
        yield


@pytest.fixture
def waiting(bank, refunded):
    """A repair that people have to permit."""
    bank.ledger.policy = policy()
    return bank.repair()


def register():
    counterfoil.agent(AGENT, policy=policy())(take_up)


def test_it_goes_on_when_people_have_answered_and_closes_the_repair(bank, waiting):
    register()
    worker = bank.ledger.worker()
    worker.look()
    assert bank.states() == ["open"]
    bank.ledger.approve(waiting.waits_for[0], by="Omar")
    worker.look()
    assert (bank.states(), bank.sent("charged"), bank.sent("told")) == (["repaired"], 1, 1)
    assert bank.ledger.runs(CASE)[-1]["terminal"] == "success"


def test_a_worker_to_which_nobody_gave_the_code_leaves_it_alone(bank, waiting):
    bank.ledger.approve(waiting.waits_for[0], by="Omar")
    bank.ledger.worker().look()
    assert (bank.states(), bank.sent("charged")) == (["open"], 0)


def test_a_call_that_fails_ends_the_run_and_leaves_the_repair_open(bank, waiting):
    register()
    bank.ledger.approve(waiting.waits_for[0], by="Omar")
    bank.provider.plan("not_done")
    bank.ledger.worker().look()
    assert (bank.states(), bank.sent("told")) == (["open"], 0)
    assert bank.ledger.runs(CASE)[-1]["state"] == "finished"


def test_plain_and_async_tools_are_called_alike(world):
    tasks = Bank(world.open(), asynchronous=True)
    effect_id = asyncio.run(tasks.aserve())
    tasks.ledger.policy = policy()
    report = tasks.repair(effect_id)
    register()
    tasks.ledger.approve(report.waits_for[0], by="Omar")
    tasks.ledger.worker().look()
    assert tasks.states() == ["repaired"]


@pytest.mark.parametrize(
    "where,when",
    [("call bank.charge", "after"), ("append repair.closed", "before"), ("append repair.closed", "after")],
)
def test_where_a_worker_died_the_next_ends_both_the_repair_and_its_run(bank, waiting, world, where, when):
    register()
    bank.ledger.approve(waiting.waits_for[0], by="Omar")
    live(world, LifeUntil(where, when), lambda ledger: ledger.worker().look())
    world.time_passes()
    bank.ledger = world.open()
    bank.ledger.worker().look()
    assert (bank.states(), bank.sent("charged"), bank.sent("told")) == (["repaired"], 1, 1)
    assert bank.ledger.runs(CASE)[-1]["terminal"] == "success"


def test_resuming_a_repair_that_was_closed_ends_the_run_that_was_left(bank, waiting, world):
    register()
    bank.ledger.approve(waiting.waits_for[0], by="Omar")
    live(world, LifeUntil("append repair.closed"), lambda ledger: ledger.worker().look())
    world.time_passes()
    bank.ledger = world.open()
    assert bank.ledger.resume_repair(waiting.repair_id).state == "repaired"
    assert bank.ledger.runs(CASE)[-1]["terminal"] == "success"
