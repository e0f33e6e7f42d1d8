"""Levers and cancelled runs, stopped before and after every request: nothing is sent that was stopped on record."""

from __future__ import annotations

import io
from contextlib import suppress

import pytest

from counterfoil.effects import by_key, by_review, effect
from counterfoil.errors import EffectHeld, RunClosed, RunEnded, RunStopped, RunWaiting
from counterfoil.reconcile.book import Columns
from counterfoil.testing import crash
from counterfoil.testing.provider import FakeProvider


class Stopped(crash.Scenario):
    """An agent that makes two calls; between them somebody stops it."""

    def prepare(self, world):
        self.provider = FakeProvider()

        @effect("pay", version="1", touches={"money"}, key=lambda order, **_: f"pay:{order}", doubt=by_key())
        def pay(order: str, *, idempotency_key: str = ""):
            return self.provider.send(idempotency_key=idempotency_key, order=order)

        self.pay = pay

    def run(self, ledger):
        return ledger.run("agent", conversation="case", message="please", dedupe="m1")


class Held(Stopped):
    """Held between two calls, released, and gone on with: the second call is made once, after the release."""

    def work(self, ledger):
        with self.run(ledger) as run:
            self.pay("o-1")
            with suppress(EffectHeld):
                ledger.hold("pay", by="Ines", reason="look at this first")
                self.pay("o-2")
                ledger.release("pay", by="Ines", reason="released before a resumed run came here")
            ledger.release("pay", by="Tom", reason="looked at")
            self.pay("o-2")
            run.finish("done")

    def recover(self, ledger):
        ledger.release("pay", by="Tom", reason="looked at")
        ledger.recover()

    def check(self, world, ledger):
        (run,) = ledger.runs()
        assert run["terminal"] == "success"
        assert ledger.holds() == []
        assert self.provider.booked() == 2
        assert len(list(ledger.events("case", types={"policy.evaluated"}))) <= 1


class Cancelled(Stopped):
    """Cancelled by the worker's own side, wherever it dies; then by whoever comes after it."""

    def work(self, ledger):
        with suppress(RunStopped, RunClosed), self.run(ledger) as run:
            self.pay("o-1")
            ledger.cancel(run.id, by="Ines", reason="enough")
            self.pay("o-2")

    def recover(self, ledger):
        ledger.recover()
        for row in ledger.runs():
            with suppress(RunEnded):
                ledger.cancel(str(row["run_id"]), by="Tom", reason="enough")

    def check(self, world, ledger):
        (run,) = ledger.runs()
        assert (run["state"], run["terminal"]) == ("finished", "cancelled")
        assert len(list(ledger.events("case", types={"run.cancel_requested"}))) == 1
        assert len(list(ledger.events("case", types={"run.finished"}))) == 1
        assert self.provider.booked() <= 1


class Reconciled(Stopped):
    """Doubt that a provider's book ends: by the worker's own side, wherever it dies, and by whoever comes after it."""

    def prepare(self, world):
        @effect("pay", version="1", touches={"money"}, key=lambda order: f"pay:{order}", doubt=by_review())
        def pay(order: str):
            raise ConnectionError("sent, or not?")

        self.pay = pay

    def work(self, ledger):
        with suppress(RunWaiting), self.run(ledger) as run:
            self.pay("o-1")
            run.finish("done")
        self.reconcile(ledger)

    def reconcile(self, ledger):
        book = io.BytesIO(b"key\npay:o-1\n")
        ledger.reconcile("pay", book, Columns(key="key"), settle=True, by="Ines")

    def recover(self, ledger):
        self.reconcile(ledger)

    def check(self, world, ledger):
        (row,) = ledger.effects()
        assert (row["state"], row["outcome"]) in (("settled", "succeeded"), ("succeeded", "succeeded"))
        ended = {"effect.settled", "effect.late_observed"}
        assert len(list(ledger.events("case", types=ended))) == 1


def test_wherever_reconciling_stops_the_book_ends_the_doubt_once():
    matrix = crash.run_matrix(Reconciled)
    assert "append effect.settled" in {point.what for point in matrix.points}


@pytest.mark.parametrize("kind", [Held, Cancelled])
def test_wherever_it_stops_nothing_is_sent_that_was_stopped(kind):
    matrix = crash.run_matrix(kind)
    tried = {point.what for point in matrix.points}
    wanted = {
        Held: {"append lever.held", "append lever.released"},
        Cancelled: {"append run.cancel_requested"},
    }
    assert wanted[kind] <= tried
