"""The derived crash matrix on PostgreSQL: perform, ask and recover stopped before and after every request."""

from __future__ import annotations

import pytest

from counterfoil.testing import crash
from tests.crash import test_effects_ask as asking
from tests.crash import test_effects_perform as performing
from tests.crash import test_effects_recover as recovering
from tests.servers.fixtures import schema_for

pytestmark = pytest.mark.postgres


@pytest.fixture
def home(monkeypatch, tmp_path):
    """Key-encryption keys lie in the home directory of whoever opens a ledger, unless told otherwise."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def place(cluster, home):
    return cluster.url(schema=schema_for(home))


def some(points):
    """A third of the points, before and after requests in turn: all of them are tried in memory."""
    return points[::3]


@pytest.mark.parametrize(
    "kind,rule", [(performing.Payment, "lookup_then_key"), (performing.AsyncPayment, "lookup")]
)
def test_wherever_perform_stops_the_payment_happens_once_and_the_ledger_knows(kind, rule, place):
    matrix = crash.run_matrix(performing.scenario(kind, rule, ()), directory=place)
    assert len(matrix) >= 10


@pytest.mark.parametrize(
    "kind,rule,faults",
    [
        (performing.Payment, "key", ("answer_lost",)),
        (performing.AsyncPayment, "key", ()),
        (performing.Payment, "lookup", ()),
        (performing.AsyncPayment, "lookup_then_key", ("answer_lost", "answer_lost")),
        (performing.Payment, "review", ()),
        (performing.AsyncPayment, "review", ("answer_lost",)),
    ],
)
def test_it_is_the_same_under_every_rule_and_with_lost_answers(kind, rule, faults, place):
    crash.run_matrix(performing.scenario(kind, rule, faults), directory=place, choose=some)


@pytest.mark.parametrize("rule", recovering.RULES)
def test_wherever_recovery_stops_the_next_one_ends_it_without_a_second_payment(rule, place):
    crash.run_matrix(recovering.scenario(rule=rule), directory=place, choose=some)


def test_wherever_a_run_of_two_effects_stops_neither_happens_twice(place):
    crash.run_matrix(performing.TwoTools, directory=place, choose=some)


def test_wherever_asking_a_model_stops_it_is_asked_again_only_where_its_answer_is_not_known(place):
    crash.run_matrix(asking.Agent, directory=place, choose=some)


@pytest.mark.older_postgres
@pytest.mark.parametrize("rule", performing.RULES)
@pytest.mark.parametrize("kind", [performing.Payment, performing.AsyncPayment])
def test_it_is_the_same_on_the_systems_own_version(kind, rule, clusters, home):
    place = clusters("system").url(schema=schema_for(home))
    crash.run_matrix(performing.scenario(kind, rule, ()), directory=place, choose=performing.around_the_call)


@pytest.mark.older_postgres
@pytest.mark.parametrize("rule", recovering.RULES)
def test_recovery_is_the_same_on_the_systems_own_version(rule, clusters, home):
    place = clusters("system").url(schema=schema_for(home))
    crash.run_matrix(recovering.scenario(rule=rule), directory=place, choose=some)
