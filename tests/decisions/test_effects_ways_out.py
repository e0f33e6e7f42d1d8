"""For every state that an effect can be in: the command that leads out of it, and what comes of that command (DESIGN 7)."""

from __future__ import annotations

from contextlib import suppress
from typing import get_args

import pytest

import counterfoil
from counterfoil.effects import Retry, by_lookup, by_review, effect
from counterfoil.effects.registry import own_tools
from counterfoil.effects.state import FINAL, MOVES, WAYS_OUT, EffectState
from counterfoil.errors import NotDone, Rejected, RunWaiting
from counterfoil.testing.crash import LifeUntil, World, live
from counterfoil.testing.provider import FakeProvider
from tests.command import Shell

STATES = get_args(EffectState)
KEY = "pay:o-1"


class Effect:
    """A ledger with one effect of the tool ``pay``, and the shell in which commands are given."""

    def __init__(self, directory):
        self.shell = Shell(directory)
        self.world = World(self.shell.place)
        self.world.clock = self.shell.clock
        self.provider = FakeProvider()

    def open(self):
        return counterfoil.open(self.shell.place, clock=self.shell.clock)

    def declare(self, doubt=None, **more):
        @effect(
            "pay",
            version="1",
            touches={"money"},
            doubt=doubt or by_lookup(self.provider.find),
            key=lambda order: f"pay:{order}",
            **more,
        )
        def pay(order: str, *, idempotency_key: str = ""):
            return self.provider.send(idempotency_key=idempotency_key, order=order)

        self.pay = pay
        return self

    def agent(self, ledger):
        with ledger.run("agent", conversation="case", message="please", dedupe="m1"):
            self.pay("o-1")

    def act(self, *faults):
        self.provider.plan(*faults)
        with self.open() as ledger, suppress(RunWaiting, Rejected, NotDone):
            self.agent(ledger)
        return self

    @property
    def state(self):
        with self.open() as ledger:
            (row,) = ledger.effects()
            return row["state"]


@pytest.fixture
def made(tmp_path):
    with own_tools():
        made = Effect(tmp_path)
        yield made
        made.world.close()


def intended(made):
    """Its worker died around the call."""
    made.declare()
    live(made.world, LifeUntil("call pay", "after"), made.agent)


def unknown(made):
    """The provider could not be reached, neither with the call nor with the question."""
    made.declare()
    made.provider.plan_lookups(*["unreached"] * 3)
    made.act("answer_lost")


def succeeded(made):
    made.declare().act()


def rejected(made):
    made.declare().act("rejected")


def failed(made):
    """Not done, and to be tried again later."""
    made.declare(retry=Retry(first_delay_s=600, delay_max_s=600)).act("not_done")


def in_review(made):
    made.declare(by_review()).act("answer_lost")


def settled(made):
    in_review(made)
    settle(made)


def contradicted(made):
    made.declare().act("rejected")
    made.shell("observe", KEY, "--outcome", "succeeded")


WAYS_IN = {
    way.__name__: way
    for way in (intended, unknown, succeeded, rejected, failed, in_review, settled, contradicted)
}


def settle(made):
    with made.open() as ledger:
        (review,) = ledger.reviews()
    words = ("--outcome", "succeeded", "--by", "Ines", "--reason", "it stands in their book")
    return made.shell("review", "settle", review["review_id"], *words)


def recover(made):
    made.shell.clock.advance(3_600_000)
    return made.shell("recover")


COMMANDS = {"recover": recover, "review settle": settle}


def test_every_state_is_reached_and_every_one_that_is_not_final_has_a_way_out():
    assert set(WAYS_IN) == set(STATES)
    assert set(STATES) - set(WAYS_OUT) == FINAL
    assert {move.to for move in MOVES.values()} | {"intended"} == set(STATES)
    assert set(WAYS_OUT.values()) == set(COMMANDS)


@pytest.mark.parametrize("state", STATES)
def test_a_state_is_reached_and_its_command_leads_out_of_it(made, state):
    WAYS_IN[state](made)
    assert made.state == state
    if state in FINAL:
        assert recover(made).code == 0
        assert made.state == state
        return
    printed = COMMANDS[WAYS_OUT[state]](made)
    assert printed.code == 0, printed.err or printed.out
    assert made.state in FINAL
    assert made.provider.booked() <= 1
