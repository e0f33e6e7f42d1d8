"""Asking a model: the request before the call, the response before its use, and neither twice (DESIGN 2.5)."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal

import pytest

import counterfoil
from counterfoil.errors import Divergence, InputError, InvalidForm, ModelFailed, NotEncodable
from counterfoil.runtime.model import response_from_json
from tests.running import ScriptedModel, facts, types_of, vanish


def never(request):
    pytest.fail("a recorded response was asked for again")


def test_the_request_is_durable_before_the_model_sees_it(ledger):
    seen = []

    def model(request):
        seen.append((ledger.request(request.call_id).body, request.body))
        return "hi"

    with ledger.run("a", conversation="c") as run:
        assert run.ask(model, "hello").text == "hi"
    assert seen[0][0] == seen[0][1]
    assert json.loads(seen[0][1]) == {"model": "model", "messages": [{"role": "user", "content": "hello"}]}


def test_the_recorded_request_is_the_plain_json_that_a_provider_gets(ledger):
    seen = []
    schema = {"$ref": "#/$defs/order", "$defs": {"order": {"type": "string"}}}
    with ledger.run("a", conversation="c") as run:
        run.ask(
            lambda r: seen.append(r.body) or "x", "hi", tools=[{"schema": schema}], temperature=1.0, top_p=0.5
        )
    sent = json.loads(seen[0])
    assert sent["tools"] == [{"schema": schema}]
    assert sent["parameters"] == {"temperature": 1, "top_p": 0.5}


def test_a_request_of_values_beyond_json_is_told_from_one_of_their_tags(ledger):
    model = ScriptedModel("for the decimal", "for the object")
    with ledger.run("a", conversation="c", dedupe="1") as run:
        assert run.ask(model, [Decimal("1.10")]).text == "for the decimal"
        assert run.ask(model, [{"$decimal": "1.10"}]).text == "for the object"
    with ledger.run("a", conversation="c", dedupe="1") as run:
        assert run.ask(model, [{"$decimal": "1.10"}]).text == "for the object"
        assert run.ask(model, [Decimal("1.10")]).text == "for the decimal"


def test_request_and_response_are_recorded_in_one_unit_each(ledger):
    with ledger.run("a", conversation="c") as run:
        run.ask(ScriptedModel("hi"), [{"role": "user", "content": "hello"}])
    assert types_of(ledger, "c")[3:-1] == [
        "step.started",
        "provider.message_recorded",
        "provider.requested",
        "provider.responded",
        "step.finished",
    ]


def test_the_public_fields_say_who_was_asked_and_nothing_of_what(ledger):
    with ledger.run("a", conversation="c") as run:
        run.ask(ScriptedModel("hi"), "hello", purpose="fallback", temperature=0.5)
    (requested,) = facts(ledger, "c", "provider.requested")
    assert (requested["provider"], requested["model"], requested["purpose"]) == (
        "scripted",
        "scripted-1",
        "fallback",
    )
    assert requested["bodies"] == 1
    assert len(requested["tip"]) == 64
    assert len(requested["request"]) == 64


def test_a_response_is_recorded_whole(ledger):
    response = counterfoil.Response(
        "hi",
        tool_calls=[{"name": "refund", "arguments": {"amount": Decimal("40.00")}}],
        finish="tool_calls",
        id="resp_1",
        provider="outside",
        model="served-1",
        input_tokens=10,
        output_tokens=2,
        cached_tokens=8,
        cost=Decimal("0.0042"),
        currency="USD",
    )
    with ledger.run("a", conversation="c", dedupe="1") as run:
        assert run.ask(lambda request: response, "hello") == response
    with ledger.run("a", conversation="c", dedupe="1") as again:
        assert again.ask(never, "hello", name="model") == response
    (event,) = ledger.events("c", types=["provider.responded"])
    assert event.content["response"] == {"id": "resp_1", "provider": "outside"}
    assert event.content["model"] == "served-1"
    assert (event.data["finish"], event.data["cost"], event.data["cached_tokens"]) == ("tools", "0.0042", 8)
    (finished,) = ledger.events("c", types=["step.finished"])
    assert finished.content["response"] == event.content["response"]


def test_a_resumed_run_gets_the_recorded_response_and_asks_only_what_is_new(world, ledger):
    first = ScriptedModel("one")
    vanish(ledger.run("a", conversation="c", dedupe="1"), lambda run: run.ask(first, "q1"))
    world.expire_leases()
    second = ScriptedModel("two")
    with world.worker().run("a", conversation="c", dedupe="1") as again:
        assert [again.ask(second, "q1").text, again.ask(second, "q2").text] == ["one", "two"]
    assert len(second.requests) == 1


def test_the_same_request_twice_is_two_calls(world, ledger):
    model = ScriptedModel("one", "two")
    with ledger.run("a", conversation="c", dedupe="1") as run:
        assert [run.ask(model, "q").text for _ in range(2)] == ["one", "two"]
    with ledger.run("a", conversation="c", dedupe="1") as again:
        assert [again.ask(model, "q").text for _ in range(2)] == ["one", "two"]
    assert len(model.requests) == 2


def test_a_call_whose_answer_was_lost_is_another_attempt_at_the_same_step(world, ledger):
    class Gone(BaseException):
        pass

    def dies(run):
        with pytest.raises(Gone):
            run.ask(ScriptedModel(Gone()), "q")

    vanish(ledger.run("a", conversation="c", dedupe="1"), dies)
    world.expire_leases()
    with world.worker().run("a", conversation="c", dedupe="1") as again:
        assert again.ask(ScriptedModel("yes"), "q").text == "yes"
    first, second = ledger.events("c", types=["provider.requested"])
    assert first.header.step_id == second.header.step_id
    assert (first.header.attempt, second.header.attempt) == (1, 2)


def test_another_request_where_the_record_has_one_is_a_divergence(world, ledger):
    vanish(ledger.run("a", conversation="c", dedupe="1"), lambda run: run.ask(ScriptedModel("x"), "q1"))
    world.expire_leases()
    with pytest.raises(Divergence), world.worker().run("a", conversation="c", dedupe="1") as again:
        again.ask(ScriptedModel("y"), "q2")


def test_a_model_that_raises_is_recorded_as_failed_and_fails_again_on_resume(world, ledger):
    def fails(run):
        with pytest.raises(ModelFailed, match="overloaded") as caught:
            run.ask(ScriptedModel(ConnectionError("overloaded")), "q")
        assert isinstance(caught.value.__cause__, ConnectionError)

    vanish(ledger.run("a", conversation="c", dedupe="1"), fails)
    assert facts(ledger, "c", "provider.failed")[0]["error_class"] == "ConnectionError"
    assert facts(ledger, "c", "provider.failed")[0]["retryable"] is True
    world.expire_leases()
    with world.worker().run("a", conversation="c", dedupe="1") as again:
        with pytest.raises(ModelFailed, match="overloaded"):
            again.ask(ScriptedModel("never"), "q")
        assert again.ask(ScriptedModel("better"), "q").text == "better"


def test_an_interrupted_call_is_recorded_and_asked_again(world, ledger):
    def interrupted(run):
        with pytest.raises(KeyboardInterrupt):
            run.ask(ScriptedModel(KeyboardInterrupt()), "q")

    vanish(ledger.run("a", conversation="c", dedupe="1"), interrupted)
    assert types_of(ledger, "c")[-2:] == ["provider.failed", "step.finished"]
    world.expire_leases()
    with world.worker().run("a", conversation="c", dedupe="1") as again:
        assert again.ask(ScriptedModel("yes"), "q").text == "yes"


class Untold(Exception):
    """An error whose text cannot be had."""

    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "answer",
    [
        None,
        5,
        {"text": 5},
        {"text": "t", "tool_calls": 5},
        {"cost": 0.1},
        {"input_tokens": -1},
        {"input_tokens": 1.5},
        {"usage": {"input_tokens": 10**30}},
        {"usage": {"output_tokens": "5"}},
        {"usage": "x"},
        {"data": {"x": object()}},
        {"provider": 7},
    ],
    ids=range(12),
)
def test_an_answer_that_cannot_be_recorded_is_a_failed_call_and_stays_one(world, ledger, answer):
    with pytest.raises(ModelFailed) as failed, ledger.run("a", conversation="c", dedupe="1") as run:
        run.ask(ScriptedModel(answer), "q", name="m")
    assert isinstance(failed.value.__cause__, InputError | TypeError)
    assert types_of(ledger, "c")[-3:] == ["provider.failed", "step.finished", "run.finished"]
    assert facts(ledger, "c", "step.finished")[0]["outcome"] == "error"
    (told,) = ledger.events("c", types=["provider.failed"])
    assert 0 < len(told.content["message"]) <= 4096
    with pytest.raises(ModelFailed), world.worker().run("a", conversation="c", dedupe="1") as again:
        again.ask(never, "q", name="m")


def kept_answer(ledger):
    (failed,) = ledger.events("c", types=["provider.failed"])
    return failed.content["answer"]


@pytest.mark.parametrize("cost", ["-1", Decimal("-0.5"), -3])
def test_a_cost_below_nothing_is_refused_and_the_answer_is_kept(world, ledger, cost):
    for _ in range(2):
        with world.worker().run("a", conversation="c", dedupe="m") as run:
            with pytest.raises(ModelFailed, match="a decimal from 0, not a negative one"):
                run.ask(lambda _: {"text": "paid for", "cost": cost}, "hi", name="m")
            run.step("look", str.title, "on")
    assert kept_answer(ledger)["text"] == "paid for"


@pytest.mark.parametrize(
    "answer, kept",
    [
        (
            {"text": "paid for", "usage": {"input_tokens": -3}},
            {"text": "paid for", "usage": {"input_tokens": -3}},
        ),
        (
            {"text": "paid for", "output_tokens": 2.5, "data": {"of": object}},
            {"text": "paid for", "output_tokens": 2.5, "data": None},
        ),
        (counterfoil.Response("paid for", data={"of": object}), {"text": "paid for"}),
        (17, 17),
        (object(), {"type": "object"}),
        ({"text": "x" * 1_048_577, "input_tokens": -1}, {"type": "dict"}),
    ],
)
def test_an_answer_that_is_no_response_is_kept_with_the_failure(ledger, answer, kept):
    with ledger.run("a", conversation="c") as run, pytest.raises(ModelFailed):
        run.ask(lambda _: answer, "hi", name="m")
    found = kept_answer(ledger)
    assert found == kept or {name: found[name] for name in kept} == kept


def test_nothing_is_nothing_with_whichever_sign(ledger):
    assert [counterfoil.Response(cost=cost).cost for cost in ("-0", Decimal("-0.00"), "0")] == [
        "0",
        "0.00",
        "0",
    ]


def test_a_cost_below_nothing_that_was_recorded_once_comes_back_as_it_was():
    assert response_from_json({"text": "x", "cost": "-1"}).cost == "-1"


def test_a_response_that_cannot_be_made_inside_the_model_is_a_failed_call_too(ledger):
    with pytest.raises(ModelFailed, match="InvalidForm"), ledger.run("a", conversation="c") as run:
        run.ask(lambda request: counterfoil.Response(input_tokens=-1), "q")
    assert facts(ledger, "c", "run.finished")[0]["terminal"] == "provider_failure"


@pytest.mark.parametrize(
    "error", [Untold(1, 2), ValueError("x" * 9_000_000), ModelFailed(123)], ids=lambda it: type(it).__name__
)
def test_a_model_may_raise_whatever_it_likes(ledger, error):
    with pytest.raises(ModelFailed) as failed, ledger.run("a", conversation="c") as run:
        run.ask(ScriptedModel(error), "q")
    assert failed.value.__cause__ is error or failed.value is error
    assert facts(ledger, "c", "run.finished")[0]["terminal"] == "provider_failure"


def test_an_async_model_in_a_sync_run_is_refused_before_anything_is_written(ledger):
    async def model(request):
        return "never"

    with ledger.run("a", conversation="c") as run:
        with pytest.raises(InputError, match="aask"):
            run.ask(model, "q")
        assert "step.started" not in types_of(ledger, "c")


@pytest.mark.parametrize(
    "argument,given",
    [
        ("messages", {"messages": None}),
        ("messages", {"messages": b"hello"}),
        ("messages", {"messages": {"role": "user"}}),
        ("tools", {"tools": None}),
        ("name", {"name": 5}),
        ("purpose", {"purpose": []}),
        ("model", {"model": 5}),
    ],
)
def test_an_odd_argument_of_ask_is_named_before_anything_is_written(ledger, argument, given):
    with ledger.run("a", conversation="c") as run:
        with pytest.raises(InvalidForm) as refused:
            run.ask(**({"model": never, "messages": "q"} | given))
        assert refused.value.argument == argument
        assert "step.started" not in types_of(ledger, "c")


@pytest.mark.parametrize(
    "answer, expected",
    [
        ("text", counterfoil.Response("text")),
        ({"content": "text"}, counterfoil.Response("text")),
        (
            {"text": "t", "usage": {"prompt_tokens": 3, "completion_tokens": 5}},
            counterfoil.Response("t", input_tokens=3, output_tokens=5),
        ),
        ({"text": "t", "finish": "max_tokens"}, counterfoil.Response("t", finish="length")),
        ({"text": "t", "finish": "novel"}, counterfoil.Response("t", finish="other")),
        ({"text": "t", "logprobs": [1]}, counterfoil.Response("t", data={"logprobs": [1]})),
        ({"text": "t", "usage": {"units": 3}}, counterfoil.Response("t", data={"usage": {"units": 3}})),
    ],
)
def test_text_and_mappings_are_answers(ledger, answer, expected):
    with ledger.run("a", conversation="c", dedupe="1") as run:
        assert run.ask(ScriptedModel(answer), "q") == expected
    with ledger.run("a", conversation="c", dedupe="1") as again:
        assert again.ask(ScriptedModel(), "q") == expected


def test_a_message_that_has_no_form_is_refused_by_its_path_before_anything_is_written(ledger):
    with ledger.run("a", conversation="c") as run:
        with pytest.raises(NotEncodable, match=r"request\.messages\[0\]\.content"):
            run.ask(never, [{"role": "user", "content": object()}])
        with pytest.raises(NotEncodable):
            run.ask(never, [{"score": float("nan")}])
        with pytest.raises(InvalidForm):
            run.ask(never, "q", purpose="fun")
    assert "step.started" not in types_of(ledger, "c")


def test_lone_surrogates_and_nul_in_messages_come_back_as_they_were(ledger):
    text = "half \ud99c, nul \x00, whole \U0001f600"
    with ledger.run("a", conversation="c", dedupe="1") as run:
        assert run.ask(ScriptedModel(text), [{"content": text}]).text == text
    with ledger.run("a", conversation="c", dedupe="1") as again:
        assert again.ask(ScriptedModel(), [{"content": text}]).text == text


def test_a_model_named_by_its_user_is_hidden_unless_it_is_a_label(ledger):
    with ledger.run("a", conversation="c") as run:
        run.ask(ScriptedModel("x"), "q", name="Jane's fine-tune")
    assert facts(ledger, "c", "provider.requested")[0]["model"].startswith("~")
    assert facts(ledger, "c", "provider.requested")[0]["provider"] == "scripted"


def test_async_models_are_awaited_and_sync_ones_go_to_a_thread(ledger):
    async def amodel(request):
        await asyncio.sleep(0)
        return f"async {request.messages[0]['content']}"

    async def main():
        async with ledger.run("a", conversation="c", dedupe="1") as run:
            return [(await run.aask(amodel, "q")).text, (await run.aask(ScriptedModel("sync"), "q")).text]

    async def again():
        async with ledger.run("a", conversation="c", dedupe="1") as run:
            return [(await run.aask(amodel, "q")).text, (await run.aask(ScriptedModel(), "q")).text]

    assert asyncio.run(main()) == asyncio.run(again()) == ["async q", "sync"]


def test_an_async_model_in_a_sync_run_is_refused_with_a_hint(ledger):
    async def amodel(request):
        return "never"

    with ledger.run("a") as run, pytest.raises(InputError, match="async"):
        run.ask(amodel, "q")
