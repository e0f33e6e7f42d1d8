"""A call that a policy puts to people: asked once, answered anywhere, used once."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import counterfoil
from counterfoil import ApprovalDenied, RunWaiting
from counterfoil.errors import AnsweredAlready, ApprovalMismatched, RunClosed
from counterfoil.flow.drive import watched
from counterfoil.testing.crash import Life
from tests.approving import Shop, policy


def test_people_are_asked_before_anything_is_intended(shop):
    with pytest.raises(RunWaiting) as waiting:
        shop.serve()
    assert shop.types() == ["decision.proposed", "policy.evaluated", "approval.requested"]
    (row,) = shop.ledger.approvals()
    assert waiting.value.cause == "approval"
    assert waiting.value.waits_for == (row["approval_id"],)
    assert shop.provider.requests == []


def test_a_run_that_waits_holds_no_lease_and_asks_nothing_again(shop):
    shop.waits()
    head = shop.ledger.store.head(shop.ledger.stream_of("case"))
    assert head.lease is None
    with pytest.raises(RunWaiting, match="counterfoil approve"):
        shop.serve()
    assert shop.ledger.store.head(head.stream_id) == head


def test_what_was_granted_is_sent_once_and_the_grant_is_used_with_the_intention(shop):
    approval = shop.waits()
    shop.ledger.approve(approval, by="Ines")
    assert shop.serve()["amount"] == 80
    assert shop.serve()["amount"] == 80
    assert shop.provider.booked() == 1
    assert shop.types()[3:] == [
        "approval.granted",
        "approval.consumed",
        "effect.intended",
        "effect.observed",
    ]
    assert shop.states() == ["consumed"]


def test_decision_approval_and_intention_carry_the_same_binding(shop):
    shop.ledger.approve(shop.waits(), by="Ines")
    shop.serve()
    events = list(shop.ledger.events("case"))
    bound = {event.data["binding"] for event in events if "binding" in event.data}
    (intended,) = [event for event in events if event.type == "effect.intended"]
    assert len(bound) == 1
    assert intended.data["approval_id"] == shop.ledger.approvals(None)[0]["approval_id"]


def test_a_denial_is_an_ordinary_exception_and_the_same_whenever_the_run_is_resumed(shop):
    shop.ledger.deny(shop.waits(), by="Ines", comment="not this customer")
    for _ in range(2):
        with (
            pytest.raises(counterfoil.errors.StoreBusy),
            shop.ledger.run("agent", conversation="case", message="o-1", dedupe="o-1"),
        ):
            for _ in range(2):
                with pytest.raises(ApprovalDenied) as denied:
                    shop.refund("o-1", 80)
                assert denied.value.outcome == "denied"
            raise counterfoil.errors.StoreBusy("the run stays open")
    assert shop.types().count("approval.requested") == 1
    assert shop.provider.requests == []


def test_a_run_that_lets_a_denial_through_ends_as_stopped_by_policy(shop):
    shop.ledger.deny(shop.waits(), by="Ines")
    with pytest.raises(ApprovalDenied):
        shop.serve()
    assert shop.ledger.runs()[0]["terminal"] == "policy_stop"
    with pytest.raises(ApprovalDenied):
        shop.serve()


def test_a_grant_that_was_taken_back_is_not_used(shop):
    approval = shop.waits()
    shop.ledger.approve(approval, by="Ines")
    shop.ledger.revoke(approval, by="Tom")
    with pytest.raises(ApprovalDenied) as denied:
        shop.serve()
    assert denied.value.outcome == "revoked"
    assert shop.states() == ["revoked"]


def test_a_call_with_other_arguments_is_refused_and_said_so(shop):
    shop.ledger.approve(shop.waits(), by="Ines")
    shop.hook = lambda amount: amount * 10
    with pytest.raises(ApprovalMismatched):
        shop.serve()
    (event,) = shop.ledger.events("case", types=["approval.mismatched"])
    assert event.data["approved"] != event.data["found"]
    assert event.content["arguments"]["amount"] == 800
    assert shop.provider.requests == []


def test_the_call_that_was_approved_may_still_be_made_after_another_one_was_refused(shop):
    shop.ledger.approve(shop.waits(), by="Ines")
    with shop.ledger.run("agent", conversation="case", message="o-1", dedupe="o-1"):
        with pytest.raises(ApprovalMismatched):
            shop.refund("o-1", 800)
        assert shop.refund("o-1", 80)["amount"] == 80
    assert shop.provider.booked() == 1


def test_a_mismatch_is_handed_out_again_on_resume_and_recorded_once(shop):
    shop.ledger.approve(shop.waits(), by="Ines")
    for _ in range(2):
        with (
            pytest.raises(counterfoil.errors.StoreBusy),
            shop.ledger.run("agent", conversation="case", message="o-1", dedupe="o-1"),
        ):
            with pytest.raises(ApprovalMismatched):
                shop.refund("o-1", 800)
            raise counterfoil.errors.StoreBusy("the run stays open")
    assert shop.types().count("approval.mismatched") == 1


def test_an_approval_that_nobody_gave_in_time_expires_on_the_stores_clock(world):
    shop = Shop(world.open(), policy(expires_s=3600))
    shop.waits()
    world.clock.advance(3_600_000)
    with pytest.raises(ApprovalDenied) as denied:
        shop.serve()
    assert denied.value.outcome == "expired"
    assert shop.states() == ["expired"]


def test_a_grant_expires_too_when_it_is_not_used(world):
    shop = Shop(world.open(), policy(expires_s=3600))
    shop.ledger.approve(shop.waits(), by="Ines")
    world.clock.advance(3_600_000)
    with pytest.raises(ApprovalDenied):
        shop.serve()
    assert shop.provider.requests == []


def test_after_an_expiry_the_next_call_asks_again_and_a_resumed_run_knows_both(world):
    shop = Shop(world.open(), policy(expires_s=3600))

    def twice():
        with shop.ledger.run("agent", conversation="case", message="o-1", dedupe="o-1"):
            try:
                return shop.refund("o-1", 80)
            except ApprovalDenied:
                return shop.refund("o-1", 80)

    for _ in range(2):
        with pytest.raises(RunWaiting):
            twice()
        world.clock.advance(3_600_000 if shop.states() == ["pending"] else 0)
    assert shop.states() == ["expired", "pending"]
    shop.ledger.approve(str(shop.ledger.approvals()[0]["approval_id"]), by="Ines")
    assert twice()["amount"] == 80
    assert shop.states() == ["expired", "consumed"]


def test_another_attempt_of_the_effect_needs_no_second_approval(shop):
    shop.ledger.approve(shop.waits(), by="Ines")
    shop.provider.plan("not_done")
    with shop.ledger.run("agent", conversation="case", message="o-1", dedupe="o-1"):
        with pytest.raises(counterfoil.NotDone):
            shop.refund("o-1", 80)
        assert shop.refund("o-1", 80)["amount"] == 80
    assert shop.types().count("approval.consumed") == 1
    assert shop.ledger.effects()[0]["attempt"] == 2


def test_an_ended_run_asks_nobody(shop):
    shop.serve(10)
    with (
        pytest.raises(RunClosed),
        shop.ledger.run("agent", conversation="case", message="o-1", dedupe="o-1"),
    ):
        shop.refund("o-2", 80)
    assert shop.ledger.approvals(None) == []


def test_an_approval_that_was_asked_for_still_counts_when_the_policy_is_gone(shop):
    approval = shop.waits()
    shop.ledger.policy = None
    with pytest.raises(RunWaiting):
        shop.serve()
    shop.ledger.approve(approval, by="Ines")
    assert shop.serve()["amount"] == 80


def test_one_permission_for_the_run_covers_every_call_with_the_same_arguments(world):
    shop = Shop(world.open(), policy(scope="run"))

    @counterfoil.effect(
        "shop.mail", version="1", touches={"messages"}, doubt=counterfoil.by_review(), repeatable=True
    )
    def mail(amount: int) -> int:
        return amount

    def agent():
        with shop.ledger.run("agent", conversation="case", message="m", dedupe="m"):
            return [mail(80), mail(80), mail(81)]

    for _ in range(2):
        with pytest.raises(RunWaiting):
            agent()
        shop.ledger.approve(str(shop.ledger.approvals()[0]["approval_id"]), by="Ines")
    assert agent() == [80, 80, 81]
    assert shop.types().count("approval.requested") == 2
    assert shop.types().count("approval.consumed") == 3


def test_other_bytes_in_a_file_that_the_call_refers_to_are_another_call(world, tmp_path):
    script = tmp_path / "script.sql"
    script.write_text("select 1")
    shop = Shop(world.open())
    shop.ledger.policy = policy()
    ran = []

    @counterfoil.effect(
        "db.run",
        version="1",
        touches={"data"},
        key=lambda path, **_: f"run:{path}",
        doubt=counterfoil.by_review(),
        artifacts=lambda path, **_: [tmp_path / path],
    )
    def run_script(path: str, amount: int) -> None:
        ran.append(script.read_text())

    def agent():
        with shop.ledger.run("agent", conversation="case", message="m", dedupe="m"):
            run_script("script.sql", 80)

    with pytest.raises(RunWaiting):
        agent()
    shop.ledger.approve(str(shop.ledger.approvals()[0]["approval_id"]), by="Ines")
    script.write_text("drop table customers")
    with pytest.raises(ApprovalMismatched):
        agent()
    assert ran == []


def unkeyed(shop):
    """A tool without a business key: a call with other arguments is another effect."""

    @counterfoil.effect("shop.note", version="1", touches={"messages"}, doubt=counterfoil.by_review())
    def note(amount: int) -> int:
        shop.provider.send(idempotency_key=str(amount), amount=amount)
        return amount

    return note


def test_a_hook_cannot_put_another_call_in_the_place_of_the_one_that_was_approved(shop):
    note = unkeyed(shop)

    def agent(*amounts):
        with shop.ledger.run("agent", conversation="case", message="m", dedupe="m"):
            return [note(amount) for amount in amounts]

    with pytest.raises(RunWaiting):
        agent(1, 80)
    shop.ledger.approve(str(shop.ledger.approvals()[0]["approval_id"]), by="Ines")
    with pytest.raises(ApprovalMismatched):
        agent(1, 800)
    assert shop.types().count("approval.mismatched") == 1
    assert [dict(entry.what)["amount"] for entry in shop.provider.book] == [1]


def test_a_call_refused_in_anothers_place_is_refused_again_on_resume_and_recorded_once(shop):
    note = unkeyed(shop)
    shop.refund = lambda _, amount: note(amount)
    shop.ledger.approve(shop.waits(), by="Ines")
    for _ in range(2):
        with (
            pytest.raises(counterfoil.errors.StoreBusy),
            shop.ledger.run("agent", conversation="case", message="o-1", dedupe="o-1"),
        ):
            with pytest.raises(ApprovalMismatched):
                note(800)
            raise counterfoil.errors.StoreBusy("the run stays open")
    assert shop.types().count("approval.mismatched") == 1
    assert shop.serve() == 80


def test_calls_of_threads_under_way_together_each_ask_for_their_own_approval(shop):
    together = threading.Barrier(3)
    rules = policy()

    class Together:
        name, revision, snapshot = rules.name, rules.revision, rules.snapshot

        def evaluate(self, proposal):
            together.wait(30)
            return rules.evaluate(proposal)

    def agent():
        with (
            shop.ledger.run("agent", conversation="case", message="m", dedupe="m") as run,
            ThreadPoolExecutor(3) as pool,
        ):
            return list(pool.map(run.bind(lambda order: shop.refund(order, 80)), ["a", "b", "c"]))

    shop.use(shop.ledger, Together())
    with pytest.raises(RunWaiting) as waiting:
        agent()
    assert len(set(waiting.value.waits_for)) == 3
    for approval in waiting.value.waits_for:
        shop.ledger.approve(approval, by="Ines")
    assert [receipt["order"] for receipt in agent()] == ["a", "b", "c"]
    assert shop.provider.booked() == 3


class Meddler(Life):
    """Does something at the last moment before a request."""

    def __init__(self, what, then):
        super().__init__()
        self._what, self._then = what, then

    def before(self, request):
        super().before(request)
        if self._then is not None and self.requests[-1].startswith(self._what):
            then, self._then = self._then, None
            then()


def test_a_grant_that_is_taken_back_between_looking_and_writing_is_not_used(world, shop):
    approval = shop.waits()
    shop.ledger.approve(approval, by="Ines")
    meddler = Meddler("append approval.consumed", lambda: world.open().revoke(approval, by="Tom"))
    with watched(meddler), pytest.raises(ApprovalDenied) as denied:
        shop.serve()
    assert denied.value.outcome == "revoked"
    assert shop.provider.requests == []
    assert "effect.intended" not in shop.types()


def test_an_answer_that_comes_while_another_is_being_written_is_counted_once(world, shop):
    approval = shop.waits()
    meddler = Meddler("append approval.granted", lambda: world.open().deny(approval, by="Tom"))
    with watched(meddler), pytest.raises(AnsweredAlready):
        shop.ledger.approve(approval, by="Ines")
    assert shop.states() == ["denied"]


def test_a_ruling_is_not_taken_as_recorded_when_its_intention_was_refused(world, shop):
    def taken():
        other = Shop.__new__(Shop)
        vars(other).update(vars(shop))
        other.use(world.open(), policy())
        other.provider.plan("not_done")
        with pytest.raises(counterfoil.NotDone):
            other.serve(10, conversation="other", message="x", dedupe="x")

    with watched(Meddler("append decision.proposed, policy.evaluated, effect.intended", taken)):
        assert shop.serve(10)["amount"] == 10
    assert shop.types() == ["decision.proposed", "policy.evaluated", "effect.intended", "effect.observed"]


def test_a_caller_that_is_cancelled_while_the_policy_thinks_leaves_no_trace(shop):
    begun, go_on = threading.Event(), threading.Event()
    rules = policy()

    class Slow:
        name, revision, snapshot = rules.name, rules.revision, rules.snapshot

        def evaluate(self, proposal):
            begun.set()
            go_on.wait(30)
            return rules.evaluate(proposal)

    shop.use(shop.ledger, Slow())

    async def agent():
        async with shop.ledger.run("agent", conversation="case", message="m", dedupe="m"):
            call = asyncio.create_task(shop.refund.acall("o-1", 80))
            await asyncio.to_thread(begun.wait, 30)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            go_on.set()

    asyncio.run(agent())
    assert shop.types() == []
    assert shop.ledger.runs()[0]["terminal"] == "success"
