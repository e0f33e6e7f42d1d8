"""An agent that asks a model and acts on its answer, stopped before and after every request."""

from __future__ import annotations

import pytest

from counterfoil.effects import by_key, by_lookup, effect
from counterfoil.testing import crash
from counterfoil.testing.provider import FakeProvider


class Agent(crash.Scenario):
    """The model decides which order to refund; what it said is recorded before the refund is intended."""

    def prepare(self, world):
        self.provider = FakeProvider()
        self.answers = 0
        provider = self.provider

        @effect("refund", version="1", touches={"money"}, doubt=by_lookup(provider.find, then=by_key()))
        def refund(order: str, *, idempotency_key: str = ""):
            return provider.send(idempotency_key=idempotency_key, order=order)

        @effect("arefund", version="1", touches={"money"}, doubt=by_lookup(provider.afind, then=by_key()))
        async def arefund(order: str, *, idempotency_key: str = ""):
            return await provider.asend(idempotency_key=idempotency_key, order=order)

        self.refund, self.arefund = refund, arefund

    def model(self, request):
        """A model whose answer is another one each time it is asked, as real ones are."""
        self.answers += 1
        return f"o-{self.answers}"

    async def amodel(self, request):
        return self.model(request)

    def work(self, ledger):
        with ledger.run("agent", conversation="case", message="please", dedupe="m1") as run:
            self.refund(run.ask(self.model, [{"role": "user", "content": "Which order?"}]).text)

    def check(self, world, ledger):
        (row,) = ledger.effects()
        assert row["state"] == "succeeded"
        assert self.provider.booked() == 1
        responded = list(ledger.events("case", types={"provider.responded"}))
        requested = list(ledger.events("case", types={"provider.requested"}))
        assert len(responded) == 1
        assert len(requested) <= 2
        assert self.answers <= len(requested)
        intended = next(ledger.events("case", types={"effect.intended"}))
        assert requested[0].sequence < responded[0].sequence < intended.sequence
        # What was refunded is what the recorded answer says, not what a second answer might have said.
        assert dict(self.provider.book[0].what)["order"] == intended.content["arguments"]["order"]
        assert ledger.runs()[0]["terminal"] == "success"


class AsyncAgent(Agent):
    """The same from a task."""

    async def work(self, ledger):
        async with ledger.run("agent", conversation="case", message="please", dedupe="m1") as run:
            reply = await run.aask(self.amodel, [{"role": "user", "content": "Which order?"}])
            await self.arefund(reply.text)


@pytest.mark.parametrize("kind", [Agent, AsyncAgent])
def test_wherever_an_agent_stops_it_acts_once_and_on_the_recorded_answer(kind):
    matrix = crash.run_matrix(kind)
    tried = {point.what for point in matrix.points}
    assert any("provider.requested" in what for what in tried)
    assert any("provider.responded" in what for what in tried)


def test_it_is_the_same_on_disk(tmp_path):
    def calls(points):
        return [point for point in points if point.when == "after" and point.what.startswith("call")]

    crash.run_matrix(Agent, directory=tmp_path, choose=calls)
