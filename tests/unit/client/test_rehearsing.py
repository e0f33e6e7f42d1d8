"""Rehearsals: a new run with another model or policy, whose effects come from the record or are blocked."""

from __future__ import annotations

import asyncio
import inspect

import pytest

import counterfoil
from counterfoil.effects.registry import own_tools
from counterfoil.errors import (
    AgentNotFound,
    ContentUnavailable,
    EffectBlocked,
    InputError,
    InvalidForm,
    PolicyDenied,
    RehearsalOnly,
    RunBusy,
    RunNotFound,
    RunWaiting,
)
from counterfoil.policy import RuleList, ask, constrain, deny
from counterfoil.replay.rehearsal import RehearsalRun
from counterfoil.runtime.agents import own_agents
from counterfoil.runtime.run import Run
from counterfoil.testing.truth import check_truth
from tests.running import World, facts, types_of, vanish


@pytest.fixture(autouse=True)
def _own():
    with own_tools(), own_agents():
        yield


class Shop:
    """An agent that asks a model which order to refund, looks it up, refunds it and answers."""

    def __init__(self, *, asynchronous=False, rules=None, key=None):
        self.world = World()
        self.ledger = self.world.worker()
        self.ledger.policy = rules
        self.calls = []
        self.asked = []
        self.looked = []
        self.caught = []
        self.asynchronous = asynchronous

        @counterfoil.effect(
            "shop.refund", version="1", touches={"money"}, key=key, doubt=counterfoil.by_review()
        )
        def refund(order: str, amount: int):
            self.calls.append((order, amount))
            return {"refunded": order, "amount": amount}

        self.refund = refund

        if asynchronous:

            @counterfoil.agent("clerk")
            async def clerk(run):
                order = (await run.aask(self.model, run.message, name="small-1")).text
                found = await run.astep("look", self.look, order)
                try:
                    done = await refund.acall(order, found)
                except (EffectBlocked, PolicyDenied) as error:
                    self.caught.append(error)
                    done = type(error).__name__
                run.finish([order, done])
        else:

            @counterfoil.agent("clerk")
            def clerk(run):
                order = run.ask(self.model, run.message, name="small-1").text
                found = run.step("look", self.look, order)
                try:
                    done = refund(order, found)
                except (EffectBlocked, PolicyDenied) as error:
                    self.caught.append(error)
                    done = type(error).__name__
                run.finish([order, done])

        self.clerk = clerk

    def model(self, request):
        self.asked.append(request.messages[-1]["content"])
        return counterfoil.Response("o-1", input_tokens=100, output_tokens=5, cost="0.02", currency="EUR")

    def look(self, order):
        self.looked.append(order)
        return 40

    def run(self, message="Refund it.", **given):
        settings = {"conversation": "case", "message": message, "dedupe": message} | given
        if self.asynchronous:

            async def work():
                async with self.ledger.run("clerk", **settings) as run:
                    await self.clerk(run)
                return run.id

            run_id = asyncio.run(work())
        else:
            with self.ledger.run("clerk", **settings) as run:
                self.clerk(run)
            run_id = run.id
        self.calls.clear(), self.asked.clear(), self.looked.clear()
        return run_id

    def rehearse(self, run_id, **how):
        """Rehearse; the original's conversation, tools, keys, approvals and doubt must be as they were."""
        before = self.real()
        done = self.ledger.rehearse(run_id, **how)
        assert self.real() == before
        assert self.calls == []
        check_truth(self.ledger)
        return done

    def real(self):
        ports = self.ledger.ports
        events = [event.event_id for event in self.ledger.events("case")]
        effects = [dict(row) for row in self.ledger.effects(None)]
        keys = [dict(row) for row in ports.store.select("effect_keys", None, ())]
        return events, effects, keys, self.ledger.approvals(None), self.ledger.reviews(None)


def other_model(text):
    def another(request):
        return counterfoil.Response(text, input_tokens=7, output_tokens=3)

    return another


def kinds(difference):
    return [(pair.left or pair.right).kind for pair in difference.different]


BOTH = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])


@BOTH
def test_the_same_model_and_policy_behave_the_same_from_the_record(asynchronous):
    shop = Shop(asynchronous=asynchronous)
    run_id = shop.run()
    done = shop.rehearse(run_id)
    assert (done.terminal, done.error_class, done.counts.blocked) == ("success", None, [])
    assert (shop.asked, shop.looked) == ([], [])
    assert (done.counts.answers_recorded, done.counts.steps_recorded, done.counts.calls_answered) == (1, 1, 1)
    assert done.difference.same, done.difference.different


def test_a_rehearsal_is_a_run_of_its_own_that_names_the_original():
    shop = Shop()
    run_id = shop.run()
    done = shop.rehearse(run_id)
    assert done.stream_id != shop.ledger.stream_of("case")
    (started,) = facts(shop.ledger, done.stream_id, "run.started")
    assert started["rehearsal_of"] == run_id
    assert shop.ledger.rehearsals(run_id) == [done.run_id]
    assert shop.ledger.run_row(done.run_id)["terminal"] == "success"


@BOTH
def test_a_rehearsal_of_a_rehearsal_is_answered_from_the_run_that_made_the_calls(asynchronous):
    shop = Shop(asynchronous=asynchronous)
    with shop.ledger.run("other", conversation="case") as run:
        run.state["plan"] = "as it was"
    first = shop.rehearse(shop.run())
    again = shop.rehearse(first.run_id)
    third = shop.rehearse(again.run_id)
    for done, of in ((again, first), (third, again)):
        assert (done.terminal, done.counts.blocked, done.counts.calls_answered) == ("success", [], 1)
        assert done.counts.answers_live == 0
        assert done.difference.same, done.difference.different
        assert shop.ledger.rehearsals(of.run_id) == [done.run_id]
        assert [(slot.name, slot.value) for slot in shop.ledger.slots(done.stream_id)] == [
            ("plan", "as it was")
        ]
    assert shop.caught == []


def test_what_the_first_run_did_not_make_stays_blocked_however_often_it_is_rehearsed():
    shop = Shop()
    other = shop.rehearse(shop.run(), model=other_model("o-2"))
    again = shop.rehearse(other.run_id, model=other_model("o-2"))
    for done in (other, again):
        assert [blocked.name for blocked in done.counts.blocked] == ["shop.refund"]
    back = shop.rehearse(other.run_id, model=other_model("o-1"))
    assert (back.counts.blocked, back.counts.calls_answered) == ([], 1)


def test_a_rehearsal_is_not_replayed_since_its_calls_were_answered_from_another_record():
    shop = Shop()
    done = shop.rehearse(shop.run())
    with pytest.raises(RehearsalOnly, match="not replayed"):
        shop.ledger.replay(done.run_id)


@pytest.mark.parametrize("wrong", [{"model": 3}, {"policy": 3}], ids=["model", "policy"])
def test_what_is_no_model_or_policy_is_refused_before_a_run_is_begun(wrong):
    shop = Shop()
    run_id = shop.run()
    with pytest.raises(InvalidForm):
        shop.ledger.rehearse(run_id, **wrong)
    assert shop.ledger.rehearsals(run_id) == []


@BOTH
def test_no_effect_is_intended_and_no_key_is_taken(asynchronous):
    shop = Shop(asynchronous=asynchronous, key=lambda order, **_: f"refund:{order}")
    run_id = shop.run()
    done = shop.rehearse(run_id)
    types = types_of(shop.ledger, done.stream_id)
    assert not [name for name in types if name.startswith("effect.")]
    (call,) = [
        event
        for event in shop.ledger.events(done.stream_id, types=["step.finished"])
        if event.data["kind"] == "tool"
    ]
    assert call.content["simulated"]["answer"] == "recorded"
    assert call.content["result"] == {"amount": 40, "refunded": "o-1"}


@BOTH
def test_another_model_that_calls_otherwise_is_blocked_and_the_two_are_shown(asynchronous):
    shop = Shop(asynchronous=asynchronous)
    run_id = shop.run()
    done = shop.rehearse(run_id, model=other_model("o-2"))
    assert [(blocked.kind, blocked.name) for blocked in done.counts.blocked] == [("tool", "shop.refund")]
    assert isinstance(shop.caught[0], EffectBlocked)
    assert shop.looked == ["o-2"]
    assert kinds(done.difference) == ["request", "response", "step", "effect", "end"]
    told = {pair.right.kind: pair.right.told for pair in done.difference.different if pair.right}
    assert told["effect"].startswith("blocked")
    assert (done.difference.left_used["input_tokens"], done.difference.right_used["input_tokens"]) == (100, 7)
    (call,) = [
        event
        for event in shop.ledger.events(done.stream_id, types=["step.finished"])
        if event.data["kind"] == "tool"
    ]
    assert (call.data["outcome"], call.content["simulated"]) == ("error", {"answer": "blocked"})


def test_a_blocked_call_that_nobody_catches_ends_the_rehearsal_alone():
    shop = Shop()
    run_id = shop.run()

    with own_agents():

        @counterfoil.agent("clerk")
        def clerk(run):
            run.finish(shop.refund("o-9", 1))

        done = shop.rehearse(run_id)
    assert (done.terminal, done.error_class) == ("runtime_failure", "EffectBlocked")


def test_steps_that_the_record_does_not_hold_are_blocked_on_request():
    shop = Shop()
    run_id = shop.run()
    done = shop.rehearse(run_id, model=other_model("o-2"), steps="block")
    assert shop.looked == []
    assert [(blocked.kind, blocked.name) for blocked in done.counts.blocked] == [("step", "look")]
    with pytest.raises(InvalidForm):
        shop.ledger.rehearse(run_id, steps="none")


# ---- policies -------------------------------------------------------------------------------------------------------


def rules(*rules, otherwise="allow"):
    return RuleList("trial", revision="7", otherwise=otherwise, rules=list(rules))


def test_a_policy_that_denies_is_obeyed_and_recorded():
    shop = Shop()
    run_id = shop.run()
    done = shop.rehearse(run_id, policy=rules(deny("no-money", when=lambda call: "money" in call.touches)))
    assert isinstance(shop.caught[0], PolicyDenied)
    assert done.counts.calls_denied == 1
    (ruling,) = facts(shop.ledger, done.stream_id, "policy.evaluated")
    assert (ruling["outcome"], ruling["policy"], ruling["rules"]) == ("deny", "trial", ["no-money"])
    assert kinds(done.difference) == ["effect", "decision", "end"]


def test_a_policy_that_would_ask_asks_nobody_and_shows_that_it_would():
    shop = Shop()
    run_id = shop.run()
    done = shop.rehearse(run_id, policy=rules(ask("large", when=lambda call: call.arguments["amount"] > 10)))
    assert done.terminal == "success"
    assert shop.ledger.approvals(None) == []
    (pair,) = done.difference.different
    assert (pair.left, pair.right.kind, pair.right.told) == (None, "decision", "ask: large (trial 7)")


def test_a_policy_that_constrains_calls_for_what_the_record_does_not_hold():
    shop = Shop()
    run_id = shop.run()
    capped = constrain("capped", to=lambda call: {**call.arguments, "amount": 20}, when=lambda call: True)
    done = shop.rehearse(run_id, policy=rules(capped))
    assert len(done.counts.blocked) == 1
    original = Shop(rules=rules(capped))
    constrained = original.run()
    done = original.rehearse(constrained)
    assert (done.counts.blocked, done.difference.same) == ([], True)


def test_a_call_that_the_original_was_denied_is_blocked_under_a_laxer_policy():
    shop = Shop(rules=rules(deny("no-money", when=lambda call: True)))
    run_id = shop.run()
    shop.caught.clear()
    done = shop.rehearse(run_id, policy=rules())
    assert [blocked.why for blocked in done.counts.blocked] == [
        "the rehearsed run asked for it, and it was not permitted there"
    ]
    assert isinstance(shop.caught[0], EffectBlocked)


def test_a_policy_in_shadow_is_recorded_and_hinders_nothing():
    shop = Shop()
    run_id = shop.run()
    trial = counterfoil.policy.shadow(rules(deny("no-money", when=lambda call: True)))
    done = shop.rehearse(run_id, policy=trial)
    assert (done.terminal, done.counts.calls_answered) == ("success", 1)
    (ruling,) = facts(shop.ledger, done.stream_id, "policy.evaluated")
    assert ruling["enforced"] is False


def test_a_call_that_people_had_approved_is_answered_from_the_record():
    asking = rules(ask("large", when=lambda call: True))
    shop = Shop(rules=asking)
    with pytest.raises(RunWaiting):
        shop.run()
    (asked,) = shop.ledger.approvals()
    shop.ledger.approve(asked["approval_id"], by="Ines Arvold")
    run_id = shop.run()
    done = shop.rehearse(run_id)
    assert (done.terminal, done.counts.calls_answered, done.difference.same) == ("success", 1, True)


# ---- what is taken over from the original ---------------------------------------------------------------------------


def test_message_configuration_person_and_state_are_those_of_the_original():
    shop = Shop()
    seen = []

    @counterfoil.agent("reader")
    def reader(run):
        seen.append((run.message, run.state.get("plan"), run.state.get("odd | name")))
        run.state["plan"] = "another"
        run.finish("read")

    with shop.ledger.run("reader", conversation="case", message="first") as first:
        run_state = {"plan": ["a", "b"], "odd | name": 3}
        for name, value in run_state.items():
            first.state[name] = value
    with shop.ledger.run(
        "reader", conversation="case", message="m", subject="ines", configuration={"k": 1}
    ) as run:
        reader(run)
    done = shop.rehearse(run.id)
    assert seen == [("m", ["a", "b"], 3)] * 2
    accepted = next(shop.ledger.events(done.stream_id, types=["admission.accepted"]))
    key_id = next(part.key for part in accepted.header.content if part.key)
    assert key_id == shop.ledger.keyring.subject_key(done.stream_id, "ines").key_id
    started = next(shop.ledger.events(done.stream_id, types=["run.started"]))
    assert started.content["configuration"] == {"k": 1}
    assert next(shop.ledger.events("case", types=["state.set"])).stream_id != done.stream_id


def test_a_failure_of_a_model_is_given_again():
    shop = Shop()
    tried = []

    @counterfoil.agent("patient")
    def patient(run):
        def flaky(request):
            tried.append(1)
            if len(tried) == 1:
                raise ConnectionError("down")
            return "up"

        try:
            said = run.ask(flaky, "m", name="small-1").text
        except counterfoil.errors.ModelFailed:
            said = run.ask(flaky, "m", name="small-1").text
        run.finish(said)

    with shop.ledger.run("patient", conversation="case", message="m") as run:
        patient(run)
    done = shop.rehearse(run.id)
    assert len(tried) == 2
    assert (done.counts.answers_recorded, done.difference.same) == (2, True)


def test_an_answer_from_the_record_is_marked_and_uses_nothing():
    shop = Shop()
    done = shop.rehearse(shop.run())
    (answer,) = facts(shop.ledger, done.stream_id, "provider.responded")
    assert (answer["provider"], answer["input_tokens"], "cost" in answer) == ("recorded", 0, False)
    assert (done.difference.left_used["cost"], done.difference.right_used.get("cost")) == ("0.02", None)


class Streaming:
    """A model that streams; its stream breaks off the first time where it is told to."""

    name, provider = "stream-1", "acme"

    def __init__(self, *, breaks=False, asynchronous=False):
        self.breaks, self.asynchronous, self.asked = breaks, asynchronous, 0

    def __call__(self, request):
        self.asked += 1
        return self.later() if self.asynchronous else self.now()

    def now(self):
        yield "On "
        if self.breaks:
            raise ConnectionError("broken off")
        yield {"text": "its way."}
        yield counterfoil.Response(finish="end_turn", input_tokens=9, output_tokens=3)

    async def later(self):
        for chunk in self.now():
            yield chunk


@pytest.mark.parametrize("breaks", [False, True], ids=["whole", "broken off"])
@BOTH
def test_a_stream_is_given_again_chunk_by_chunk(asynchronous, breaks):
    shop = Shop()
    model = Streaming(breaks=breaks, asynchronous=asynchronous)
    seen = []

    def sync(run):
        try:
            with run.stream(model, run.message) as stream:
                seen.append(list(stream))
        except counterfoil.errors.ModelFailed as failed:
            seen.append(failed.error_class)
        run.finish("done")

    async def later(run):
        try:
            async with run.astream(model, run.message) as stream:
                seen.append([chunk async for chunk in stream])
        except counterfoil.errors.ModelFailed as failed:
            seen.append(failed.error_class)
        run.finish("done")

    agent = counterfoil.agent("streamer")(later if asynchronous else sync)

    async def live():
        async with shop.ledger.run("streamer", conversation="case", message="m") as run:
            await agent(run)
        return run.id

    if asynchronous:
        run_id = asyncio.run(live())
    else:
        with shop.ledger.run("streamer", conversation="case", message="m") as run:
            agent(run)
        run_id = run.id
    done = shop.rehearse(run_id)
    assert (model.asked, seen[1]) == (1, seen[0])
    assert (done.counts.answers_recorded, done.difference.same) == (1, True)
    assert shop.ledger.replay(run_id).same


def test_a_failure_that_the_models_policy_tried_again_costs_a_rehearsal_no_pause():
    shop = Shop()
    tried = []

    def flaky(request):
        tried.append(1)
        if len(tried) == 1:
            raise ConnectionError("down")
        return "up"

    @counterfoil.agent("patient")
    def patient(run):
        retry = counterfoil.effects.Retry(attempts=3, first_delay_s=20, jitter=0, on=ConnectionError)
        run.finish(run.ask(flaky, "m", name="small-1", retry=retry).text)

    with shop.ledger.run("patient", conversation="case", message="m") as run:
        patient(run)
    began_ms = shop.world.clock.now_ms()
    done = shop.rehearse(run.id)
    assert shop.world.clock.now_ms() - began_ms < 20_000
    assert (len(tried), done.counts.answers_recorded, done.difference.same) == (2, 1, True)


def test_outcomes_without_success_are_raised_again():
    shop = Shop()

    @counterfoil.effect("shop.cancel", version="1", touches={"data"}, doubt=counterfoil.by_review())
    def cancel(order):
        raise counterfoil.Rejected("no such order")

    @counterfoil.agent("canceller")
    def canceller(run):
        try:
            cancel("o-1")
        except counterfoil.Rejected as rejected:
            run.finish(str(rejected))

    with shop.ledger.run("canceller", conversation="case", message="m") as run:
        canceller(run)
    assert shop.rehearse(run.id).difference.same


# ---- what may never happen ------------------------------------------------------------------------------------------


def left_open(shop, run_id):
    """A rehearsal whose worker vanished in the middle; its run."""
    with own_agents():

        @counterfoil.agent("clerk")
        def clerk(run):
            raise KeyboardInterrupt

        real, ids = counterfoil.runtime.block.leave, []

        def gone(host, spec, scope, *rest):
            ids.append(scope.run_id)
            host.heartbeat.remove(scope)

        counterfoil.runtime.run.leave = gone
        try:
            with pytest.raises(KeyboardInterrupt):
                shop.ledger.rehearse(run_id)
        finally:
            counterfoil.runtime.run.leave = real
    shop.world.expire_leases()
    return ids[0]


def test_nobody_goes_on_with_a_rehearsal_as_if_its_effects_were_real():
    shop = Shop()
    run_id = shop.run()
    rehearsal = left_open(shop, run_id)
    assert shop.ledger.run_row(rehearsal)["state"] == "running"
    assert (list(shop.ledger.ready()), shop.ledger.recover().open_runs) == ([], [])
    told = []
    shop.ledger.worker(tell=told.append).look()
    assert (told, shop.calls) == ([], [])
    with pytest.raises(RehearsalOnly) as refused, shop.ledger.run("clerk", resume=rehearsal) as run:
        shop.clerk(run)
    assert (refused.value.rehearsal_of, shop.calls) == (run_id, [])
    shop.ledger.cancel(rehearsal, by="Ines Arvold", reason="left open")
    assert shop.ledger.run_row(rehearsal)["state"] == "finished"
    check_truth(shop.ledger)


def test_a_tool_that_may_be_called_while_the_ledger_is_down_is_not(monkeypatch):
    shop = Shop()
    called = []

    @counterfoil.effect("shop.read", version="1", touches=set(), doubt=counterfoil.by_repeating())
    def read(order):
        called.append(order)
        return order

    @counterfoil.agent("reader")
    def reader(run):
        run.finish(read("o-1"))

    with shop.ledger.run("reader", conversation="case", message="m") as run:
        reader(run)
    called.clear()
    real = shop.ledger.ports.append

    def failing(unit, claim=None):
        if any(draft.event_type == "step.started" for entry in unit.entries for draft in entry.drafts):
            raise counterfoil.errors.StoreIO("no disk")
        return real(unit, claim)

    monkeypatch.setattr(shop.ledger.ports, "append", failing)
    with pytest.raises(counterfoil.errors.StoreIO):
        shop.ledger.rehearse(run.id)
    assert called == []


def test_a_call_ahead_asks_nobody():
    shop = Shop(rules=rules(ask("large", when=lambda call: True)))
    run_id = None

    @counterfoil.agent("planner")
    def planner(run):
        run.propose(shop.refund, "o-1", 40)
        run.finish("planned")

    with shop.ledger.run("planner", conversation="case", message="m") as run:
        planner(run)
    run_id = run.id
    before = len(shop.ledger.approvals(None))
    shop.rehearse(run_id)
    assert len(shop.ledger.approvals(None)) == before


def test_what_cannot_be_rehearsed_is_said():
    shop = Shop()
    run_id = shop.run()
    open_run = vanish(shop.ledger.run("clerk", conversation="other", message="m"))
    with pytest.raises(RunBusy):
        shop.ledger.rehearse(open_run)
    with pytest.raises(RunNotFound):
        shop.ledger.rehearse("run_01J9ZC3Y3V7W2R5T8QK4M6N0PN")
    with own_agents(), pytest.raises(AgentNotFound):
        shop.ledger.rehearse(run_id)
    with pytest.raises(RunNotFound):
        shop.world.worker("elsewhere").rehearse(run_id)


def test_an_async_agent_is_not_run_again_from_inside_an_event_loop():
    shop = Shop(asynchronous=True)
    run_id = shop.run()
    before = len(shop.ledger.conversations())

    async def inside():
        for again in (shop.ledger.replay, shop.ledger.rehearse):
            with pytest.raises(InputError, match="event loop"):
                again(run_id)
        return await asyncio.to_thread(shop.ledger.replay, run_id)

    assert asyncio.run(inside()).same
    assert len(shop.ledger.conversations()) == before


def test_where_the_input_is_gone_nothing_is_rehearsed():
    shop = Shop()
    run_id = shop.run(subject="ines")
    key_id = shop.ledger.keyring.subject_key(shop.ledger.stream_of("case"), "ines").key_id
    shop.ledger.keyring.store.delete([key_id])
    shop.ledger.keyring.forget()
    before = len(shop.ledger.conversations())
    with pytest.raises(ContentUnavailable):
        shop.ledger.rehearse(run_id)
    assert len(shop.ledger.conversations()) == before


@BOTH
def test_children_give_their_recorded_results_and_none_is_begun(asynchronous):
    shop = Shop()
    wanted = ["cost"]
    began = []

    @counterfoil.agent("researcher")
    def research(run):
        began.append(run.message)
        if run.message == "fail":
            raise ValueError("no such question")
        run.finish({"question": run.message, "order": shop.refund(run.message, 1)["refunded"]})

    def said(run, told):
        run.finish(told)

    def sync(run):
        told = []
        for question in wanted:
            try:
                told.append(run.wait(run.spawn("researcher", question)))
            except (EffectBlocked, counterfoil.errors.ChildFailed) as error:
                told.append(type(error).__name__)
        said(run, told)

    async def later(run):
        told = []
        for question in wanted:
            try:
                told.append(await run.await_(await run.aspawn("researcher", question)))
            except (EffectBlocked, counterfoil.errors.ChildFailed) as error:
                told.append(type(error).__name__)
        said(run, told)

    agent = counterfoil.agent("writer")(later if asynchronous else sync)
    wanted[:] = ["cost", "fail"]

    async def live():
        async with shop.ledger.run("writer", conversation="case", message="m") as run:
            await agent(run)
        return run.id

    if asynchronous:
        run_id = asyncio.run(live())
    else:
        with shop.ledger.run("writer", conversation="case", message="m") as run:
            agent(run)
        run_id = run.id
    assert began == ["cost", "fail"]
    began.clear(), shop.calls.clear()
    children = len(shop.ledger.conversations())
    assert shop.ledger.replay(run_id).same
    assert (began, len(shop.ledger.conversations())) == ([], children)
    done = shop.rehearse(run_id)
    assert (began, done.counts.children_answered, done.difference.same) == ([], 2, True)
    assert len(shop.ledger.conversations()) == children + 1
    wanted[:] = ["cost", "risk"]
    done = shop.rehearse(run_id)
    assert (began, [(blocked.kind, blocked.name) for blocked in done.counts.blocked]) == (
        [],
        [("child", "researcher")],
    )
    assert kinds(done.difference) == ["child", "end"]
    assert not shop.ledger.replay(run_id).same
    assert began == []


@BOTH
def test_a_rehearsal_sleeps_through_nothing(asynchronous):
    shop = Shop()

    def sync(run):
        run.sleep(1)
        run.sleep(86_400)
        run.finish("awake")

    async def later(run):
        await run.asleep(1)
        await run.asleep(86_400)
        run.finish("awake")

    agent = counterfoil.agent("sleeper")(later if asynchronous else sync)

    def live():
        async def work():
            async with shop.ledger.run("sleeper", conversation="case", message="m", dedupe="m") as run:
                await agent(run)
            return run.id

        if asynchronous:
            return asyncio.run(work())
        with shop.ledger.run("sleeper", conversation="case", message="m", dedupe="m") as run:
            agent(run)
        return run.id

    with pytest.raises(RunWaiting):
        live()
    shop.world.clock.advance(90_000_000)
    run_id = live()
    assert shop.ledger.replay(run_id).same
    began_ms = shop.world.clock.now_ms()
    done = shop.rehearse(run_id)
    assert (done.terminal, shop.world.clock.now_ms() - began_ms < 1000) == ("success", True)
    assert done.difference.same


def test_a_rehearsal_ends_no_other_run():
    shop = Shop()

    @counterfoil.agent("absorber")
    def absorber(run):
        try:
            run.finish(run.absorb("run_01J9ZC3Y3V7W2R5T8QK4M6N0PN"))
        except (EffectBlocked, counterfoil.errors.RunNotFound) as error:
            run.finish(type(error).__name__)

    with shop.ledger.run("absorber", conversation="case", message="m") as run:
        absorber(run)
    done = shop.rehearse(run.id)
    assert [blocked.kind for blocked in done.counts.blocked] == ["run"]


HARMLESS = {
    *(
        "artifact",
        "aartifact",
        "bind",
        "cancel",
        "checkpoint_draft",
        "acheckpoint_draft",
        "compact",
        "acompact",
    ),
    *("finish", "guard", "aguard", "inputs", "ainputs", "probe", "aprobe", "record", "arecord"),
    *("verify", "averify", "propose", "apropose"),
}
"""What a rehearsal does as any run: it records in its own conversation, or asks the part that stands in for tools."""


def test_whatever_a_run_offers_is_answered_in_a_rehearsal_or_known_to_reach_nothing_outside():
    offered = {
        name for name, found in inspect.getmembers(Run, inspect.isfunction) if not name.startswith("_")
    }
    answered = {name for name in offered if getattr(RehearsalRun, name) is not getattr(Run, name)}
    assert offered - answered == HARMLESS


def test_names_that_are_no_labels_are_the_same_in_every_conversation():
    shop = Shop()

    @counterfoil.agent("namer")
    def namer(run):
        run.ask(lambda request: "x", "m", name="a model | of ours")
        run.finish(run.step("look it up", len, "pen"))

    with shop.ledger.run("namer", conversation="case", message="m") as run:
        namer(run)
    done = shop.rehearse(run.id)
    assert done.difference.same
    assert {pair.left.name for pair in done.difference.pairs} == {
        "a model | of ours",
        "look it up",
        "success",
    }


# ---- two runs side by side ------------------------------------------------------------------------------------------


def test_two_runs_of_one_agent_are_compared():
    shop = Shop()
    first, second = shop.run(), shop.run("Refund it, please.")
    told = shop.ledger.diff(first, second)
    assert kinds(told) == ["request"]
    assert shop.ledger.diff(first, first).same
    with pytest.raises(RunNotFound):
        shop.ledger.diff(first, "run_01J9ZC3Y3V7W2R5T8QK4M6N0PN")


def paid(run, order="o-1"):
    run.record("shop.paid", {"of": order}, ignorable=True)


def scanned(run, scan=b"a scan"):
    run.artifact(scan, kind="scan")


def checked(run, outcome="pass"):
    run.guard("the tone of it", outcome, reason="It is kind.")


def noting(shop, *notes, conversation="case"):
    """The id of a run that does nothing but note these things in this order."""
    with shop.ledger.run("noter", conversation=conversation) as run:
        for note in notes:
            note(run)
    return run.id


ELSEWHERE = pytest.mark.parametrize("conversation", ["case", "another"])


@ELSEWHERE
def test_runs_that_recorded_the_same_are_the_same_in_any_conversation(conversation):
    shop = Shop()
    first = noting(shop, paid, scanned, checked)
    told = shop.ledger.diff(first, noting(shop, paid, scanned, checked, conversation=conversation))
    assert told.same
    assert [(pair.left.kind, pair.left.name) for pair in told.pairs] == [
        ("fact", "shop.paid"),
        ("artifact", "scan"),
        ("check", "the tone of it"),
        ("end", "success"),
    ]


@ELSEWHERE
@pytest.mark.parametrize(
    "notes, different",
    [
        ([scanned, checked], ["fact"]),
        ([paid, checked], ["artifact"]),
        ([paid, scanned], ["check"]),
        ([lambda run: paid(run, "o-2"), scanned, checked], ["fact"]),
        ([paid, lambda run: scanned(run, b"b scan"), checked], ["artifact"]),
        ([paid, lambda run: scanned(run, b"another"), checked], ["artifact"]),
        ([paid, scanned, lambda run: checked(run, "blocked")], ["check"]),
        ([paid, paid, scanned, checked], ["fact"]),
    ],
    ids=[
        *("no fact", "no artifact", "no check", "another fact", "other bytes of one size", "other bytes"),
        *("another outcome", "one more"),
    ],
)
def test_runs_that_differ_in_what_they_recorded_alone_are_different(notes, different, conversation):
    shop = Shop()
    first = noting(shop, paid, scanned, checked)
    told = shop.ledger.diff(first, noting(shop, *notes, conversation=conversation))
    assert kinds(told) == different


def test_bytes_that_anyone_may_read_are_compared_with_bytes_under_a_key():
    shop = Shop()
    first = noting(shop, lambda run: run.artifact(b"a scan", kind="scan", classification="public"))
    second = noting(shop, scanned)
    assert kinds(shop.ledger.diff(first, second)) == ["artifact"]
    assert shop.ledger.diff(
        first, noting(shop, lambda run: run.artifact(b"a scan", kind="scan", classification="public"))
    ).same


def test_what_steps_and_models_recorded_inside_of_them_is_no_difference_of_a_rehearsal():
    shop = Shop()

    @counterfoil.agent("noter")
    def noter(run):
        def looking(request):
            scanned(run)
            return "Look."

        run.ask(looking, "begin", name="acme-1")
        run.step("inside", lambda: paid(run))
        checked(run)

    with shop.ledger.run("noter", conversation="case") as run:
        noter(run)
    assert shop.rehearse(run.id).difference.same


def test_artifacts_whose_bytes_are_gone_equal_themselves_alone():
    shop = Shop()
    first, second = noting(shop, scanned), noting(shop, scanned, conversation="another")
    store = shop.ledger.artifacts.store
    for row in shop.ledger.artifacts.rows():
        store.delete(str(row["sha256"]))
    assert kinds(shop.ledger.diff(first, second)) == ["artifact"]
    assert shop.ledger.diff(first, first).same


def test_where_content_is_gone_a_difference_says_so():
    shop = Shop()
    first = shop.run()
    stream_id = shop.ledger.stream_of("case")
    shop.ledger.keyring.store.delete([shop.ledger.ports.genesis(stream_id).key])
    shop.ledger.keyring.forget()
    told = shop.ledger.diff(first, first)
    assert "content cannot be read" in [pair.left.told for pair in told.pairs]
