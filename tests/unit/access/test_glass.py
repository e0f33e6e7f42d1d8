"""Breaking the glass: with a reason and an end, on record, in every process, and only by who may."""

from __future__ import annotations

import pytest

from counterfoil.access import Actor, Role, RoleAuthorizer
from counterfoil.access.rows import GLASSES
from counterfoil.errors import AccessRefused, InvalidForm

ON_CALL = {"on-call": Role({"read": frozenset({"public"}), "glass": frozenset()})}


@pytest.fixture
def guarded(world, ledger):
    ledger.authorizer = RoleAuthorizer({"olga": ["on-call"], "ann": ["operator"]}, ON_CALL)
    return ledger


def read(ledger, who="olga"):
    with ledger.reading("c", actor=who, purpose="an incident") as reader:
        return [event.content_state for event in reader.events(limit=1)], reader.decision.decision.rule


def test_who_broke_the_glass_reads_what_the_role_does_not_give(guarded):
    with pytest.raises(AccessRefused):
        read(guarded)
    until = guarded.access.break_glass("olga", "payments fail", minutes=30)
    assert read(guarded) == (["present"], "glass")
    opened = [line for line in guarded.access.decisions() if line.until]
    assert [(line.by, line.purpose, line.until) for line in opened] == [("olga", "payments fail", until)]


def test_opening_and_decision_are_one_append(guarded):
    guarded.access.break_glass("olga", "payments fail")
    types = [event.type for event in guarded.events(guarded.streams.id_of("access"))]
    assert types == ["access.decided", "access.glass_opened"]
    decision, opening = guarded.events(guarded.streams.id_of("access"))
    assert (decision.data["action"], decision.data["allowed"]) == ("glass", True)
    assert decision.recorded_at_ms == opening.recorded_at_ms


def test_it_counts_for_the_person_alone_and_on_every_handle(world, guarded):
    guarded.access.break_glass("olga", "payments fail")
    other = world.worker()
    other.authorizer = guarded.authorizer
    assert read(other)[1] == "glass"
    with pytest.raises(AccessRefused):
        read(other, "ann")


def test_it_ends_by_itself(world, guarded):
    guarded.access.break_glass("olga", "payments fail", minutes=30)
    world.clock.advance(30 * 60_000 - 1)
    assert read(guarded)[1] == "glass"
    world.clock.advance(1)
    with pytest.raises(AccessRefused):
        read(guarded)


def test_it_is_closed_by_breaking_it_for_no_time(guarded):
    guarded.access.break_glass("olga", "payments fail")
    guarded.access.break_glass("olga", "done", minutes=0)
    with pytest.raises(AccessRefused):
        read(guarded)


def test_who_may_not_is_refused_on_record(guarded):
    with pytest.raises(AccessRefused):
        guarded.access.break_glass("ann", "curiosity")
    assert [(line.action, line.allowed, line.by) for line in guarded.access.decisions()] == [
        ("glass", False, "ann")
    ]


def test_it_hands_nothing_out_of_the_ledger(guarded):
    guarded.access.break_glass("olga", "payments fail")
    for action in ("export", "erase", "disclose"):
        with pytest.raises(AccessRefused):
            guarded.access.decide(guarded.access.request(action, "olga", "payments fail", klass="public"))


def test_a_row_that_somebody_moved_opens_nothing(guarded):
    guarded.access.break_glass("olga", "payments fail", minutes=0)
    (row,) = guarded.store.select(GLASSES.name, "by_end", ("default",))
    assert row["until_ms"] == row["opened_at_ms"]
    # The row only says where the event stands; another event there, or another person's, is no opening.
    other = guarded.ports.subject_key(guarded.streams.id_of("access"), "ann")
    assert guarded.store.get(GLASSES.name, ("default", other.key_id)) is None


def test_rows_of_broken_glass_are_made_again_from_the_events(guarded):
    guarded.access.break_glass("olga", "payments fail")
    before = guarded.store.select(GLASSES.name, "by_end", ("default",))
    guarded.rebuild()
    assert guarded.store.select(GLASSES.name, "by_end", ("default",)) == before
    assert read(guarded)[1] == "glass"


@pytest.mark.parametrize("minutes", [-1, 24 * 60 + 1])
def test_it_has_an_end_within_a_day(guarded, minutes):
    with pytest.raises(InvalidForm):
        guarded.access.break_glass("olga", "payments fail", minutes=minutes)


def test_a_reason_and_a_person_are_needed(guarded):
    with pytest.raises(InvalidForm):
        guarded.access.break_glass("olga", " ")
    with pytest.raises(InvalidForm):
        guarded.access.break_glass(Actor("gateway", "service"), "payments fail")
