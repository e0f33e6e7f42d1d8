"""A stage for scenarios: one ledger on any engine, and agents written once that are played as threads and as tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import counterfoil
from counterfoil.testing.crash import LifeUntil, World, live
from counterfoil.testing.provider import FakeProvider
from counterfoil.testing.truth import check_truth

CASE = "case-8472"
ABOUT_EFFECTS = ("decision.", "policy.", "approval.", "effect.", "retry.", "review.")


class _Plain:
    """A run's block entered as sync code enters it, in the words of async code."""

    def __init__(self, run: counterfoil.Run) -> None:
        self._run = run

    async def __aenter__(self) -> counterfoil.Run:
        return self._run.__enter__()

    async def __aexit__(self, *error: object) -> Any:
        return self._run.__exit__(*error)


class Stage:
    """One ledger, one provider outside, and a refund agent.

    An agent is a coroutine function in either way. Played async it runs on an event loop, with an async tool; played
    sync its ``with`` block and its tool are the plain ones and it never waits, so that it runs through in one go.
    """

    def __init__(self, world: World, *, asynchronous: bool) -> None:
        self.world = world
        self.asynchronous = asynchronous
        self.provider = FakeProvider()
        self.policy: Any = None
        self.whole = True

    def open(self) -> counterfoil.Ledger:
        """A worker's own handle on the ledger, under the policy that is in force."""
        ledger = self.world.open()
        ledger.policy = self.policy
        return ledger

    # ---- tools ----

    def declare(
        self,
        send: Callable[..., Any],
        asend: Callable[..., Any],
        *,
        name: str = "payment.refund",
        version: str = "1",
        **settings: Any,
    ) -> Any:
        """A tool of the way at hand under the key of its order."""
        settings = {"touches": {"money"}, "key": lambda order, **_: f"refund:{order}", **settings}
        declare = counterfoil.effect(name, version=version, **settings)
        return declare(asend if self.asynchronous else send)

    def refund(self, rule: str = "key", **settings: Any) -> Any:
        """The refund tool, sent to the provider, under this doubt rule."""
        provider = self.provider

        def refund(order: str, amount: int = 40, *, idempotency_key: str = "") -> Any:
            return provider.send(idempotency_key=idempotency_key, order=order, amount=amount)

        async def arefund(order: str, amount: int = 40, *, idempotency_key: str = "") -> Any:
            return await provider.asend(idempotency_key=idempotency_key, order=order, amount=amount)

        settings = {"doubt": self.doubt(rule), "provider_id": lambda result: result["id"], **settings}
        return self.declare(refund, arefund, **settings)

    def doubt(self, rule: str) -> Any:
        """A doubt rule by its recorded name, asking the provider where it asks."""
        find = self.provider.afind if self.asynchronous else self.provider.find
        return {
            "key": counterfoil.by_key(),
            "lookup": counterfoil.by_lookup(find),
            "lookup_then_key": counterfoil.by_lookup(find, then=counterfoil.by_key()),
            "review": counterfoil.by_review(),
        }[rule]

    # ---- agents ----

    def run(self, ledger: counterfoil.Ledger, **settings: Any) -> Any:
        """The block of a run, to be entered with ``async with`` in either way."""
        settings = {"conversation": CASE, "message": "please", "dedupe": "m1", **settings}
        run = ledger.run("refund-agent", **settings)
        return run if self.asynchronous else _Plain(run)

    async def call(self, tool: Any, *arguments: Any, **named: Any) -> Any:
        """A call of a tool, awaited in either way."""
        given = tool(*arguments, **named)
        return await given if self.asynchronous else given

    async def agent(
        self, ledger: counterfoil.Ledger, tool: Any, order: str = "O-1042", **settings: Any
    ) -> Any:
        """Refund one order and say what the provider calls it."""
        async with self.run(ledger, **settings) as run:
            receipt = await self.call(tool, order)
            run.finish(receipt["id"])
        return run.output

    def play(self, agent: Coroutine[Any, Any, Any]) -> Any:
        """Run an agent to its end and give what it returns, or raise what it raises."""
        if self.asynchronous:
            return asyncio.run(self._to_its_end(agent))
        try:
            agent.send(None)
        except StopIteration as ended:
            return ended.value
        finally:
            agent.close()
        raise AssertionError("sync code waited for something")

    async def _to_its_end(self, agent: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await agent
        finally:
            # An event loop does not end before its threads, and these may wait for an answer that nobody waits for.
            self.provider.hang_up()

    def serve(self, tool: Any, order: str = "O-1042", **settings: Any) -> Any:
        """The refund agent, by a worker of its own."""
        return self.play(self.agent(self.open(), tool, order, **settings))

    def crash(self, tool: Any, where: str = "call payment.refund", **settings: Any) -> None:
        """The refund agent, by a worker that dies right after ``where`` and holds what it held."""

        def work(ledger: counterfoil.Ledger) -> Any:
            agent = self.agent(ledger, tool, **settings)
            return agent if self.asynchronous else self.play(agent)

        live(self.world, LifeUntil(where), work)

    # ---- what is left: the stream, and apart from it the rows ----

    def stream(self, *fields: str, conversation: str = CASE) -> list[Any]:
        """What the events say of effects and decisions, in order: the type, with these fields if any are named."""
        found = [e for e in self.open().events(conversation) if e.type.startswith(ABOUT_EFFECTS)]
        if not fields:
            return [event.type for event in found]
        return [(event.type, *(event.data.get(field) for field in fields)) for event in found]

    def effects(self) -> list[str]:
        """The state of each effect's row."""
        return [str(row["state"]) for row in self.open().effects()]

    def runs(self) -> list[tuple[Any, Any]]:
        """State and terminal of each run's row."""
        return [(row["state"], row["terminal"]) for row in self.open().runs()]

    def reviews(self) -> list[str]:
        """The cause of each open review's row."""
        return [str(row["cause"]) for row in self.open().reviews()]

    def lose_key(self) -> None:
        """The key of the conversation's content is gone and no certificate says why: from here on something is broken."""
        ledger = self.open()
        ledger.keyring.store.delete([ledger.ports.genesis(ledger.stream_of(CASE)).key])
        self.whole = False

    def end(self) -> None:
        """Unless something was broken on purpose: stream and rows agree, nothing final was sent again, every byte verifies; then nobody is answered any more."""
        try:
            if self.whole:
                check_truth(self.open())
        finally:
            self.provider.hang_up()
