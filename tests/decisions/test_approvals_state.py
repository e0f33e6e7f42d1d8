"""States of an approval against every kind of event: what moves it and what does not (DESIGN 7)."""

from __future__ import annotations

import pytest

from counterfoil.approvals.decide import Found, judge_answer, judge_use
from counterfoil.approvals.state import NEEDED_MAX, OPEN, PENDING, REFUSED, Approval, evolve, pending

APPROVAL = "apr_01J9ZC3Y3V7W2R5T8QK4M6N0PK"
EFFECT = "eff_01J9ZC3Y3V7W2R5T8QK4M6N0PF"
STATES = sorted(PENDING | REFUSED | {"granted", "consumed"})

# For each kind of event the states it leads out of and where to; from every other state nothing moves.
TABLE = {
    "approval.granted": {"pending": "granted"}
    | {pending(missing): pending(missing - 1) for missing in range(2, NEEDED_MAX + 1)},
    "approval.denied": dict.fromkeys(PENDING, "denied"),
    "approval.revoked": dict.fromkeys(PENDING | {"granted", "consumed"}, "revoked"),
    "approval.expired": dict.fromkeys(OPEN, "expired"),
    "approval.consumed": {"granted": "consumed"},
    "approval.mismatched": {},
}
CASES = [(state, event, moves.get(state, state)) for event, moves in TABLE.items() for state in STATES]


def approval(state, missing=1):
    return Approval(APPROVAL, EFFECT, "0" * 64, "once", state, missing)


@pytest.mark.parametrize("state,event,then", CASES)
def test_an_event_moves_the_approval_as_the_table_says(state, event, then):
    moved = evolve(approval(state), event, {"approval_id": APPROVAL})
    assert moved is not None
    assert moved.state == then


def test_it_begins_with_the_request_and_as_many_grants_as_are_needed_open_it():
    asked = {"approval_id": APPROVAL, "effect_id": EFFECT, "binding": "0" * 64, "scope": "once", "needed": 3}
    found = evolve(None, "approval.requested", asked)
    states = []
    for _ in range(4):
        states.append((found.state, found.missing))
        found = evolve(found, "approval.granted", {})
    assert states == [("pending_3", 3), ("pending_2", 2), ("pending", 1), ("granted", 0)]
    assert evolve(None, "approval.granted", {}) is None


USES = [
    (Found("pending"), True, "wait"),
    (Found("pending_2"), True, "wait"),
    (Found("pending"), False, "mismatch"),
    (Found("granted"), True, "use"),
    (Found("granted"), False, "mismatch"),
    (Found("consumed"), True, "used"),
    (Found("denied"), True, "refused"),
    (Found("revoked"), False, "refused"),
    (Found("pending", expires_at_ms=100), True, "expire"),
    (Found("granted", expires_at_ms=100), False, "expire"),
    (Found("granted", expires_at_ms=101), True, "use"),
    (Found("consumed", expires_at_ms=100), True, "used"),
]


@pytest.mark.parametrize("found,same_call,then", USES)
def test_what_a_call_may_do_with_its_approval(found, same_call, then):
    assert judge_use(found, same_call=same_call, now_ms=100) == then


ANSWERS = [
    (Found("pending"), "granted", {}, "record"),
    (Found("pending"), "granted", {"by_requester": True}, "requester"),
    (Found("pending"), "denied", {"by_requester": True}, "record"),
    (Found("pending"), "granted", {"may_answer": False}, "stranger"),
    (Found("pending"), "denied", {"may_answer": False}, "stranger"),
    (Found("pending"), "granted", {"before": {"granted"}}, "same"),
    (Found("granted"), "granted", {"before": {"granted"}}, "same"),
    (Found("consumed"), "granted", {"before": {"granted"}}, "same"),
    (Found("revoked"), "granted", {"before": {"granted"}}, "closed"),
    (Found("granted"), "granted", {}, "closed"),
    (Found("denied"), "denied", {"before": {"denied"}}, "same"),
    (Found("denied"), "denied", {}, "closed"),
    (Found("granted"), "denied", {}, "closed"),
    (Found("granted"), "revoked", {"may_answer": False, "by_requester": True}, "record"),
    (Found("pending"), "revoked", {}, "record"),
    (Found("consumed"), "revoked", {}, "closed"),
    (Found("consumed", "run"), "revoked", {}, "record"),
    (Found("pending", expires_at_ms=100), "granted", {}, "expire"),
    (Found("expired"), "granted", {}, "closed"),
    (Found("pending"), "granted", {"run_ended": True}, "ended"),
    (Found("granted"), "revoked", {"run_ended": True}, "record"),
    (Found("consumed"), "granted", {"run_ended": True, "before": {"granted"}}, "same"),
]


@pytest.mark.parametrize("found,answer,given,then", ANSWERS, ids=str)
def test_whether_an_answer_counts(found, answer, given, then):
    settings = {"before": set(), "by_requester": False, "may_answer": True, "run_ended": False} | given
    assert judge_answer(found, answer, now_ms=100, **settings) == then
