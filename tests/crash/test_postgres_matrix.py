"""The derived crash matrix on PostgreSQL: whatever is tried in memory, at every point that leaves a server another state.

Reading, asking the time and minting an id leave nothing behind, and before an append or a call stands what the one
before it has left. In memory all points are tried, here those after each request that changes something, and the first.
"""

from __future__ import annotations

import pytest

from counterfoil.testing import crash
from tests.crash import test_approvals as approving
from tests.crash import test_effects_ask as asking
from tests.crash import test_effects_perform as performing
from tests.crash import test_effects_recover as recovering
from tests.crash import test_repair as repairing
from tests.crash import test_runs as running
from tests.crash.points import changing, some
from tests.servers.fixtures import schema_for
from tests.servers.reused import ReusedLedger

pytestmark = pytest.mark.postgres

PAYMENTS = (performing.Payment, performing.AsyncPayment)


@pytest.fixture(scope="module")
def ledgers(clusters, tmp_path_factory):
    """One ledger on each kind of server, for all that is tried there."""
    made = {}

    def of(kind):
        if kind not in made:
            made[kind] = ReusedLedger(clusters(kind), tmp_path_factory.mktemp(kind))
        made[kind].begin()
        return made[kind]

    yield of
    for ledger in made.values():
        ledger.close()


@pytest.fixture
def matrix(ledgers):
    """Tries a scenario at every point that matters here."""

    def run(make, kind="packaged", choose=changing):
        tried = crash.run_matrix(make, worlds=ledgers(kind).world, choose=choose)
        assert len(tried) >= 2
        return tried

    return run


# ---- the suite's default server --------------------------------------------------------------------------------------


@pytest.mark.parametrize("faults", performing.FAULTS, ids="+".join)
@pytest.mark.parametrize("rule", performing.RULES)
@pytest.mark.parametrize("kind", PAYMENTS)
def test_wherever_perform_stops_the_payment_happens_once_and_the_ledger_knows(kind, rule, faults, matrix):
    matrix(performing.scenario(kind, rule, faults))


@pytest.mark.parametrize("kind", [performing.Look, performing.TwoTools, performing.Repeats])
def test_wherever_a_run_of_several_effects_stops_each_happens_as_often_as_it_may(kind, matrix):
    matrix(kind)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("sent", [True, False], ids=["sent", "not_sent"])
@pytest.mark.parametrize("rule", recovering.RULES)
def test_wherever_recovery_stops_the_next_one_ends_it_without_a_second_payment(
    rule, sent, asynchronous, matrix
):
    matrix(recovering.scenario(rule=rule, sent=sent, asynchronous=asynchronous))


@pytest.mark.parametrize("kind", [asking.Agent, asking.AsyncAgent])
def test_wherever_an_agent_stops_it_acts_once_and_on_the_recorded_answer(kind, matrix):
    matrix(kind)


@pytest.mark.parametrize("kind", [running.Steps, running.AsyncSteps, running.InLine])
def test_wherever_a_run_stops_it_goes_on_to_the_same_end(kind, matrix):
    matrix(kind)


@pytest.mark.parametrize(
    "kind", [approving.Approved, approving.Denied, approving.Constrained, approving.AsyncApproved]
)
def test_wherever_it_stops_people_are_asked_once_and_the_effect_happens_as_they_say(kind, matrix):
    matrix(kind)


@pytest.mark.parametrize(
    "kind,rule",
    [
        (repairing.Undone, "lookup"),
        (repairing.Undone, "key"),
        (repairing.Undone, "review"),
        (repairing.AsyncUndone, "lookup_then_key"),
    ],
)
def test_wherever_a_repair_stops_each_compensation_happens_once(kind, rule, matrix):
    matrix(repairing.scenario(kind, rule))


@pytest.mark.parametrize("kind,rule", [(performing.Payment, "lookup"), (performing.AsyncPayment, "key")])
def test_it_is_the_same_when_each_worker_connects_anew(kind, rule, cluster, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    place = cluster.url(schema=schema_for(tmp_path))
    crash.run_matrix(performing.scenario(kind, rule, ()), directory=place, choose=performing.around_the_call)


# ---- the system's own version ----------------------------------------------------------------------------------------


@pytest.mark.older_postgres
@pytest.mark.parametrize("rule", performing.RULES)
@pytest.mark.parametrize("kind", PAYMENTS)
def test_it_is_the_same_on_the_systems_own_version(kind, rule, matrix):
    matrix(performing.scenario(kind, rule, ()), "system", performing.around_the_call)


@pytest.mark.older_postgres
@pytest.mark.parametrize("rule", recovering.RULES)
def test_recovery_is_the_same_on_the_systems_own_version(rule, matrix):
    matrix(recovering.scenario(rule=rule), "system", some)
