"""On a server with a login for each role: an operator holds, cancels and settles by a book; the worker feels it."""

from __future__ import annotations

import io

import pytest

from counterfoil.errors import EffectHeld, RunEnded
from counterfoil.reconcile.book import Columns
from tests.scenarios import test_postgres_staff as staff

pytestmark = pytest.mark.postgres

shop = staff.shop


@pytest.mark.parametrize("everywhere", [False, True])
def test_an_operator_holds_what_a_worker_would_send(shop, everywhere):
    pay = staff.pay_tool([])
    tool = None if everywhere else "pay"
    with shop.open("operator") as operator, shop.open("worker") as worker:
        (lever,) = operator.hold(tool, by="A. Clerk", reason="incident", everywhere=everywhere)
        assert (lever.tenant, lever.state) == ("default", "held")
        with pytest.raises(EffectHeld), worker.run("agent", conversation="case", dedupe="m"):
            pay("o-1")
        operator.release(tool, by="A. Clerk", reason="over", everywhere=everywhere)
        assert worker.holds() == []


def test_an_operator_ends_a_run_that_waits_and_the_doubt_that_it_left(shop):
    staff.leave_doubt(shop)
    with shop.open("operator") as operator:
        (run,) = operator.runs()
        assert operator.cancel(run["run_id"], by="A. Clerk", reason="the customer called").done == "ended"
        report = operator.reconcile(
            "pay", io.BytesIO(b"key\npay:o-1\n"), Columns(key="key"), settle=True, by="A. Clerk"
        )
        assert len(report.settled) == 1
        assert [row["state"] for row in operator.effects()] == ["settled"]
        assert operator.cancel(run["run_id"], by="A. Clerk", reason="again").repeated


def test_a_run_that_ended_well_is_not_cancelled(shop):
    with shop.open("worker") as worker, shop.open("operator") as operator:
        with worker.run("agent", conversation="case") as run:
            run.finish("done")
        with pytest.raises(RunEnded):
            operator.cancel(run.id, by="A. Clerk", reason="too late")
