"""Facts of the application: declared or ignorable, public fields apart from content, recorded once."""

from __future__ import annotations

import pytest

from counterfoil.core.event_types import EVENT_TYPES
from counterfoil.errors import InvalidForm, PublicFieldRefused, RunClosed, UnknownEventType
from tests.running import facts, types_of, vanish


def test_declared_fields_stand_in_the_open_and_the_rest_is_content(ledger):
    ledger.declare("order.paid", public={"lines": "n"})
    with ledger.run("a", conversation="c") as run:
        run.record("order.paid", {"lines": 2, "customer": "Jane", "amount": 1.5})
    (event,) = ledger.events("c", types=["order.paid"])
    assert (dict(event.data), event.content) == ({"lines": 2}, {"customer": "Jane", "amount": 1.5})
    assert not event.header.ignorable


def test_an_undeclared_type_is_refused_unless_readers_may_pass_over_it(ledger):
    with ledger.run("a", conversation="c") as run:
        with pytest.raises(UnknownEventType, match=r"ledger\.declare"):
            run.record("order.paid", {"lines": 2})
        run.record("order.paid", {"lines": 2}, ignorable=True)
    (event,) = ledger.events("c", types=["order.paid"])
    assert (dict(event.data), event.content, event.header.ignorable) == ({}, {"lines": 2}, True)


def test_free_text_is_refused_in_a_public_field(ledger):
    ledger.declare("order.paid", public={"who": "label"})
    with ledger.run("a") as run, pytest.raises(PublicFieldRefused):
        run.record("order.paid", {"who": "Jane Doe"})


def test_a_type_of_the_product_is_not_the_applications_to_declare(ledger):
    with pytest.raises(InvalidForm):
        ledger.declare("effect.intended", public={})


@pytest.mark.parametrize("event_type", sorted(EVENT_TYPES))
def test_a_type_of_the_product_is_not_the_applications_to_record(ledger, event_type):
    with ledger.run("a", conversation="c") as run:
        before = types_of(ledger, "c")
        with pytest.raises(InvalidForm, match="of Counterfoil itself"):
            run.record(event_type, {}, ignorable=True)
        assert types_of(ledger, "c") == before


def test_a_resumed_run_records_each_fact_once(world, ledger):
    def record(run, *numbers):
        for number in numbers:
            run.record("order.seen", {"number": number}, ignorable=True)

    vanish(ledger.run("a", conversation="c", dedupe="1"), lambda run: record(run, 1, 1, 2))
    world.expire_leases()
    with world.worker().run("a", conversation="c", dedupe="1") as again:
        record(again, 1, 1, 2, 2, 3)
    numbers = [event.content["number"] for event in ledger.events("c", types=["order.seen"])]
    assert numbers == [1, 1, 2, 2, 3]


def test_an_ended_run_records_nothing_more(ledger):
    with ledger.run("a", conversation="c", dedupe="1") as run:
        run.record("order.seen", {"number": 1}, ignorable=True)
    with ledger.run("a", conversation="c", dedupe="1") as again:
        again.record("order.seen", {"number": 1}, ignorable=True)
        with pytest.raises(RunClosed):
            again.record("order.seen", {"number": 2}, ignorable=True)
    assert types_of(ledger, "c").count("order.seen") == 1


def test_a_fact_carries_the_run_and_the_agent(ledger):
    with ledger.run("a", conversation="c") as run:
        run.record("order.seen", ignorable=True)
    (event,) = ledger.events("c", types=["order.seen"])
    assert (event.header.run_id, event.header.actor["id"]) == (run.id, "a")
    assert facts(ledger, "c", "order.seen") == [{}]
