"""Reviews are found by what they are about and given to people, who stand in the open by a key alone (FORMAT 3)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from counterfoil.effects import by_lookup, by_review, effect
from counterfoil.errors import InvalidForm, ReviewNotFound, RunWaiting, SettledAlready
from counterfoil.testing.truth import check_truth


@pytest.fixture
def reviews(ledger, provider):
    """Three reviews: two of the tool ``pay`` and one of ``ship``, whose provider knows nothing of it."""
    for name, doubt in (("pay", by_review()), ("ship", by_lookup(provider.find))):

        @effect(name, version="1", touches={"money"}, doubt=doubt)
        def act(order: str, *, idempotency_key: str = ""):
            return provider.send(idempotency_key=idempotency_key, order=order)

        for order in ("o-1", "o-2")[: 2 if name == "pay" else 1]:
            provider.plan("unreached")
            with (
                pytest.raises(RunWaiting),
                ledger.run("agent", conversation=f"{name} {order}", message=order, dedupe=f"{name} {order}"),
            ):
                act(order)
    return [str(row["review_id"]) for row in ledger.reviews()]


def found(ledger, **filters):
    return [row["review_id"] for row in ledger.reviews(**filters)]


def test_reviews_are_found_by_tool_cause_run_and_conversation(ledger, reviews):
    assert found(ledger, tool="pay") == reviews[:2]
    assert found(ledger, cause="absent") == reviews[2:]
    run_id = ledger.reviews()[1]["run_id"]
    assert found(ledger, run_id=run_id) == [reviews[1]]
    assert found(ledger, stream_id=ledger.stream_of("ship o-1")) == [reviews[2]]


def test_a_page_goes_on_after_the_last_one_seen_also_when_it_was_settled_since(ledger, reviews):
    assert found(ledger, limit=2) == reviews[:2]
    ledger.settle(reviews[1], "failed", by="Ines", reason="nothing there")
    assert found(ledger, after=reviews[1]) == reviews[2:]


def test_a_review_is_given_to_a_person_and_found_by_their_name(ledger, reviews):
    ledger.assign(reviews[0], "Ada", by="Ines", note="you know the customer")
    assert found(ledger, assignee="Ada") == [reviews[0]]
    assert found(ledger, unassigned=True) == reviews[1:]
    (event,) = ledger.events("pay o-1", types={"review.assigned"})
    assert event.data["assignee"].startswith("dk_")
    assert event.data["assignee"] != event.header.actor["id"]
    assert event.content["note"] == "you know the customer"
    assert (event.content["assignee"]["name"], event.content["by"]["name"]) == ("Ada", "Ines")
    check_truth(ledger)


def test_the_last_assignment_counts(ledger, reviews):
    ledger.assign(reviews[0], "Ada", by="Ines")
    ledger.assign(reviews[0], "Grace", by="Ada")
    assert found(ledger, assignee="Ada") == []
    assert found(ledger, assignee="Grace") == [reviews[0]]


def test_a_review_that_was_due_is_overdue(world, ledger, reviews):
    due = datetime.fromtimestamp(world.clock.now_ms() / 1000, UTC) + timedelta(hours=2)
    assert ledger.assign(reviews[0], "Ada", by="Ines", due=due).due_at_ms == world.clock.now_ms() + 7_200_000
    assert found(ledger, overdue=True) == []
    world.clock.advance(7_200_001)
    assert found(ledger, overdue=True) == [reviews[0]]


def test_anybody_may_settle_what_somebody_has(ledger, reviews):
    ledger.assign(reviews[0], "Ada", by="Ines")
    assert ledger.settle(reviews[0], "failed", by="Grace", reason="nothing there").outcome == "failed"


def test_a_settled_review_is_given_to_nobody(ledger, reviews):
    ledger.settle(reviews[0], "failed", by="Ines", reason="nothing there")
    with pytest.raises(SettledAlready):
        ledger.assign(reviews[0], "Ada", by="Ines")


@pytest.mark.parametrize("wrong", [{"to": " "}, {"by": ""}, {"due": datetime(2026, 9, 1)}], ids=str)
def test_names_and_times_must_say_something(ledger, reviews, wrong):
    with pytest.raises(InvalidForm):
        ledger.assign(reviews[0], **({"to": "Ada", "by": "Ines"} | wrong))


def test_a_review_that_is_not_there_is_not_found(ledger):
    with pytest.raises(ReviewNotFound):
        ledger.assign("rev_01J9ZC3Y3V7W2R5T8QK4M6N0PF", "Ada", by="Ines")
    with pytest.raises(ReviewNotFound):
        ledger.reviews(after="rev_01J9ZC3Y3V7W2R5T8QK4M6N0PF")
    with pytest.raises(InvalidForm):
        ledger.reviews(state="closed")
