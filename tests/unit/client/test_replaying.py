"""Replays of runs whose effects people and policies had a say in: the same code behaves the same, and nothing is done."""

from __future__ import annotations

from contextlib import suppress

import pytest
from msgspec.structs import replace

import counterfoil
from counterfoil.artifacts import keep
from counterfoil.effects.registry import own_tools
from counterfoil.errors import (
    AgentNotFound,
    ApprovalDenied,
    Divergence,
    EffectFailed,
    PolicyDenied,
    RunBusy,
    RunWaiting,
)
from counterfoil.runtime.agents import own_agents
from tests.approving import policy
from tests.running import World, vanish


@pytest.fixture(autouse=True)
def _own():
    with own_tools(), own_agents():
        yield


class Counter:
    """A refund tool that counts its calls, and an agent whose code may be changed between record and replay."""

    def __init__(self, rules=None, doubt=None):
        self.world = World()
        self.ledger = self.world.worker()
        self.ledger.policy = rules
        self.calls = 0
        self.asked = 0
        self.code = self.serve

        @counterfoil.effect(
            "shop.refund", version="1", touches={"money"}, doubt=doubt or counterfoil.by_review()
        )
        def refund(order: str, amount: int):
            self.calls += 1
            if amount == 13:
                raise ConnectionError("broken off")
            return {"order": order, "amount": amount}

        self.refund = refund

        @counterfoil.agent("clerk")
        def clerk(run):
            self.code(run)

        self.clerk = clerk

    def model(self, request):
        self.asked += 1
        return "Refund it."

    def serve(self, run):
        said = run.ask(self.model, str(run.message), name="acme-1").text
        run.guard("tone", "pass")
        run.finish([said, self.refund("o-1", run.message)])

    def run(self, amount, code=None):
        """Serve one message live, again and again until the run has ended; its id."""
        self.code = code or self.code
        with (
            suppress(RunWaiting, PolicyDenied, ApprovalDenied, EffectFailed),
            self.ledger.run("clerk", conversation="case", message=amount, dedupe=str(amount)) as run,
        ):
            self.clerk(run)
        return run.id

    def replay(self, run_id):
        """Replay; nothing may be recorded, called or asked meanwhile, nor any lease taken."""
        before = self.state()
        done = self.ledger.replay(run_id)
        assert self.state() == before
        return done

    def state(self):
        stream_id = self.ledger.stream_of("case")
        events = [event.event_id for event in self.ledger.events("case")]
        head = self.ledger.ports.store.head(stream_id)
        return events, self.calls, self.asked, head.token, len(self.ledger.conversations())


@pytest.mark.parametrize("amount", [15, 30, 5000], ids=["allowed", "constrained", "denied"])
def test_a_run_under_a_policy_is_replayed_with_its_rulings(amount):
    shop = Counter(policy())
    run_id = shop.run(amount)
    shop.ledger.policy = policy(revision="another")
    done = shop.replay(run_id)
    assert (done.same, done.asked) == (True, 3)


@pytest.mark.parametrize("answer", ["approve", "deny"])
def test_a_run_that_people_were_asked_about_is_replayed_with_their_answer(answer):
    shop = Counter(policy())
    run_id = shop.run(80)
    with pytest.raises(RunBusy):
        shop.ledger.replay(run_id)
    (asked,) = shop.ledger.approvals()
    getattr(shop.ledger, answer)(asked["approval_id"], by="Ines Arvold")
    assert shop.run(80) == run_id
    assert shop.replay(run_id).same


@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
def test_a_run_whose_review_was_settled_is_replayed_with_the_settlement(outcome):
    shop = Counter()
    run_id = shop.run(13)
    (review,) = shop.ledger.reviews()
    result = {"order": "o-1", "amount": 13} if outcome == "succeeded" else None
    shop.ledger.settle(
        review["review_id"], outcome, by="Ines Arvold", reason="seen in the book", result=result
    )
    assert shop.run(13) == run_id
    assert shop.ledger.run_row(run_id)["state"] == "finished"
    assert shop.replay(run_id).same


def test_artifacts_and_results_that_moved_to_artifacts_are_read_and_not_stored_again():
    shop = Counter()

    def big(run):
        kept = run.artifact(b"x" * 5000, name="scan.pdf")
        text = run.step("read", lambda: "long " * 300_000)
        run.finish([shop.refund("o-1", len(text)), kept.size if hasattr(kept, "size") else 0])

    run_id = shop.run(15, big)
    assert shop.replay(run_id).same


def test_an_artifact_that_the_record_does_not_hold_is_not_stored():
    shop = Counter()
    run_id = shop.run(15)

    def more(run):
        run.artifact(b"y" * 100)
        shop.serve(run)

    shop.code = more
    assert not shop.replay(run_id).same


def test_facts_and_checks_that_the_record_does_not_hold_are_not_recorded():
    shop = Counter()
    run_id = shop.run(15)

    def checked(run):
        shop.serve(run)
        run.verify("urls", ok=True)

    shop.code = checked
    done = shop.replay(run_id)
    assert not done.same


def test_a_difference_is_raised_with_both_sides_on_request():
    shop = Counter()
    run_id = shop.run(15)
    shop.ledger.replay(run_id).check()

    def other(run):
        run.ask(shop.model, str(run.message), name="acme-1")
        run.guard("tone", "pass")
        run.finish(shop.refund("o-2", 15))

    shop.code = other
    with pytest.raises(Divergence) as raised:
        shop.ledger.replay(run_id).check()
    assert raised.value.recorded["name"] == raised.value.replayed["name"] == "shop.refund"
    assert raised.value.recorded["digest"] != raised.value.replayed["digest"]
    assert "o-2" not in str(raised.value)


def noting(shop, *notes):
    """Code that asks a model, notes these things in this order, and asks it again."""

    def code(run):
        run.ask(shop.model, "begin", name="acme-1")
        for note in notes:
            note(run)
        run.ask(shop.model, "end", name="acme-1")

    return code


def paid(run):
    run.record("shop.paid", {"of": "o-1"}, ignorable=True)


def scanned(run):
    run.artifact(b"a scan", kind="scan")


def checked(run):
    run.verify("urls", ok=True)


@pytest.mark.parametrize(
    "notes, at, recorded, replayed",
    [
        ([paid, scanned], 3, ("fact", "turn.checked"), ("model", "acme-1")),
        ([scanned, checked], 1, ("fact", "shop.paid"), ("artifact", "scan")),
        ([paid, checked], 2, ("artifact", "scan"), ("fact", "turn.checked")),
        ([scanned, paid, checked], 1, ("fact", "shop.paid"), ("artifact", "scan")),
        ([paid, scanned, scanned], 3, ("fact", "turn.checked"), ("artifact", "scan")),
        (
            [paid, lambda run: run.artifact(b"another", kind="scan")],
            2,
            ("artifact", "scan"),
            ("artifact", "scan"),
        ),
    ],
    ids=["no check", "no fact", "no artifact", "another order", "one more", "other bytes"],
)
def test_facts_and_artifacts_are_compared_and_the_two_sides_are_those_of_the_difference(
    notes, at, recorded, replayed
):
    shop = Counter()
    run_id = shop.run(15, noting(shop, paid, scanned, checked))
    assert shop.replay(run_id).same
    shop.code = noting(shop, *notes)
    done = shop.replay(run_id)
    sides = tuple((side.kind, side.name) for side in (done.recorded, done.replayed))
    assert (done.at, *sides) == (at, recorded, replayed)


def test_what_steps_tools_and_models_keep_and_record_inside_of_them_is_not_asked_for_by_the_code():
    shop = Counter()

    @counterfoil.effect("shop.scan", version="1", touches=set(), doubt=counterfoil.by_review())
    def scan(order: str):
        return keep(order.encode())

    def code(run):
        def looking(request):
            run.artifact(b"seen")
            paid(run)
            return "Look."

        run.ask(looking, "begin", name="acme-1")
        run.step("inside", lambda: paid(run))
        scanned(run)
        run.finish(scan("o-1").size)

    run_id = shop.run(15, code)
    assert shop.replay(run_id).same


def test_what_the_code_records_while_it_reads_a_stream_is_compared_in_order():
    shop = Counter()

    def code(run):
        with run.stream(lambda request: iter(["one", "two"]), "begin", name="acme-1") as stream:
            for _ in stream:
                paid(run)
        scanned(run)

    run_id = shop.run(15, code)
    assert shop.replay(run_id).same


def test_a_run_that_vanished_and_was_resumed_is_replayed_as_one():
    shop = Counter()
    run_id = vanish(
        shop.ledger.run("clerk", conversation="case", message=15, dedupe="15"),
        lambda run: run.ask(shop.model, "15", name="acme-1"),
    )
    shop.world.expire_leases()
    assert shop.run(15) == run_id
    assert shop.replay(run_id).same


def test_an_agent_that_is_not_registered_is_a_typed_error_with_the_way_out():
    shop = Counter()
    run_id = shop.run(15)
    with own_agents(), pytest.raises(AgentNotFound) as raised:
        shop.ledger.replay(run_id)
    assert raised.value.agent == "clerk"
    assert "counterfoil.agent" in raised.value.hint


def everything(shop):
    """Code that does all that a run offers, save effects."""

    def code(run):
        run.ask(shop.model, str(run.message), name="acme-1")
        run.state["plan"] = ["look", "refund"]
        plan = run.state.get("plan")
        del run.state["plan"]
        run.record("shop.noted", {"of": "note"}, ignorable=True)
        run.guard("tone", "pass")
        run.verify("urls", ok=True, found=0)
        run.compact(from_sequence=1, to_sequence=2, summary="begun")
        run.checkpoint_draft("so far", chunks=1)
        probed = run.probe()
        kept = run.artifact(b"z" * 10_000, name="scan.pdf")
        inputs = run.inputs()
        run.finish([plan, str(probed), str(kept.sha256), inputs])

    return code


def test_whatever_else_a_run_does_is_replayed_from_its_record():
    shop = Counter()
    run_id = shop.run(15, everything(shop))
    assert shop.ledger.run_row(run_id)["terminal"] == "success"
    asked = []
    shop.ledger.host = replace(shop.ledger.host, sandbox=asked.append)
    assert shop.replay(run_id).same
    assert asked == []


@pytest.mark.parametrize(
    "more",
    [
        lambda run: run.state.set("other", 1),
        lambda run: run.record("shop.noted", {"of": "another"}, ignorable=True),
        lambda run: run.verify("more", ok=True),
        lambda run: run.compact(from_sequence=1, to_sequence=1, summary="more"),
        lambda run: run.checkpoint_draft("more", chunks=2),
        lambda run: run.probe("other"),
        lambda run: run.artifact(b"more"),
        lambda run: run.step("more", len, "more"),
    ],
    ids=["state", "fact", "check", "compaction", "draft", "probe", "artifact", "step"],
)
def test_one_thing_more_of_any_kind_is_stopped_before_it_is_done(more):
    shop = Counter()
    code = everything(shop)
    run_id = shop.run(15, code)

    def longer(run):
        more(run)
        code(run)

    shop.code = longer
    assert not shop.replay(run_id).same
