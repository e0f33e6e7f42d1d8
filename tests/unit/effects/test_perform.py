"""One call of a tool: intention before, observation after, and what the caller gets (CONTRACTS, Tool result)."""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
from decimal import Decimal

import pytest

from counterfoil.artifacts import Vault
from counterfoil.effects import Absent, by_key, by_lookup, by_repeating, by_review, effect
from counterfoil.errors import (
    ContentTooLarge,
    NotDone,
    NotEncodable,
    Rejected,
    ResultNotKept,
    RunWaiting,
    ToolInvalid,
)


def declare(fn, **more):
    return effect("pay", **({"version": "2026-08", "touches": {"money"}, "doubt": by_review()} | more))(fn)


def run(ledger, dedupe="m1"):
    return ledger.run("agent", conversation="case", message="please", dedupe=dedupe)


def test_an_intention_stands_before_the_call_and_an_observation_after(ledger, told):
    seen = []

    def pay(order):
        seen.append(told())
        return {"paid": order}

    pay = declare(pay)
    with run(ledger):
        assert pay("o-1") == {"paid": "o-1"}
    assert seen == [["effect.intended"]]
    assert told() == ["effect.intended", "effect.observed"]


def test_the_intention_says_what_was_meant(ledger):
    def pay(order, amount=Decimal("1.10"), *, idempotency_key):
        return None

    pay = declare(pay, touches={"money", "external"}, doubt=by_key())
    with run(ledger):
        pay("o-1")
    intended = next(ledger.events("case", types={"effect.intended"}))
    effect_id = intended.data["effect_id"]
    assert intended.header.attempt == 1
    assert {name: intended.data[name] for name in ("tool", "tool_version", "doubt")} == {
        "tool": "pay",
        "tool_version": "2026-08",
        "doubt": "key",
    }
    assert intended.content == {
        "arguments": {"amount": {"$decimal": "1.10"}, "order": "o-1"},
        "idempotency_key": effect_id,
        "target": {"touches": ["external", "money"]},
    }


def test_the_deadline_lies_before_the_end_of_the_lease(ledger, world):
    leases = []

    def pay():
        leases.append(ledger.store.head(ledger.stream_of("case")).lease)

    pay = declare(pay, timeout_s=120)
    with run(ledger):
        pay()
    (row,) = ledger.effects()
    assert row["deadline_ms"] == world.clock.now_ms() + 120_000
    assert leases[0].expires_at_ms >= row["deadline_ms"] + 5_000


def test_the_observation_is_caused_by_its_intention(ledger):
    pay = declare(lambda: {"id": "re_9"}, provider_id=lambda result: result["id"])
    with run(ledger):
        pay()
    intended, observed = ledger.events("case", types={"effect.intended", "effect.observed"})
    assert observed.header.causation_event_id == intended.event_id
    assert (observed.data["outcome"], observed.data["source"]) == ("succeeded", "call")
    assert observed.content == {"result": {"id": "re_9"}, "provider_effect_id": "re_9"}


@pytest.mark.parametrize("pick", [lambda result: result["id"], lambda result: result.id, lambda result: None])
def test_a_result_without_the_providers_id_is_a_success_all_the_same(ledger, pick):
    pay = declare(lambda: {"other": 1}, provider_id=pick)
    with run(ledger):
        assert pay() == {"other": 1}
    observed = next(ledger.events("case", types={"effect.observed"}))
    assert "provider_effect_id" not in observed.content


def test_the_key_goes_to_a_tool_that_asks_for_it(ledger):
    keys = []

    def pay(order, *, idempotency_key):
        keys.append(idempotency_key)

    named = effect("named", version="1", touches={"money"}, doubt=by_key(), key=lambda order: f"pay:{order}")(
        pay
    )
    unnamed = effect("unnamed", version="1", touches={"money"}, doubt=by_key())(pay)
    with run(ledger):
        named("o-1")
        unnamed("o-1")
    effects = {row["tool"]: row["effect_id"] for row in ledger.effects()}
    assert keys == ["pay:o-1", effects["unnamed"]]


# ---- outcomes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error,outcome", [(Rejected("no", limit=5), "rejected"), (NotDone("not now"), "failed")]
)
def test_what_a_tool_says_about_its_effect_is_recorded_and_raised(ledger, error, outcome):
    def pay():
        raise error

    pay = declare(pay)
    with run(ledger):
        with pytest.raises(type(error)) as raised:
            pay()
        assert raised.value is error
    observed = next(ledger.events("case", types={"effect.observed"}))
    assert (observed.data["outcome"], observed.data["error_class"]) == (outcome, type(error).__name__)
    assert observed.content["error"]["message"] == error.message
    assert ledger.effects()[0]["state"] == outcome


@pytest.mark.parametrize("field", [object(), "x" * (5 * 1024 * 1024), float("nan"), open])
def test_an_error_with_fields_that_cannot_be_recorded_is_recorded_without_them(ledger, world, field):
    def pay():
        raise Rejected("no", odd=field, limit=5)

    pay = declare(pay)
    for worker in (ledger, world.open()):
        with run(worker), pytest.raises(Rejected) as raised:
            pay()
    assert raised.value.fields == {"limit": 5}


def test_an_error_with_an_endless_message_is_cut(ledger):
    def pay():
        raise NotDone("x" * (5 * 1024 * 1024))

    pay = declare(pay)
    with run(ledger), pytest.raises(NotDone):
        pay()
    observed = next(ledger.events("case", types={"effect.observed"}))
    assert len(observed.content["error"]["message"]) == 2000


class Untold(Exception):
    """What a provider's library may raise: its text cannot be had."""

    def __str__(self):
        raise RuntimeError("no text")


class Declined(Rejected):
    """An application's own, which forgets to call what it inherits."""

    def __init__(self, code):
        self.code_of_provider = code


@pytest.mark.parametrize(
    "error,message",
    [
        (Rejected(ConnectionError("insufficient funds")), "insufficient funds"),  # type: ignore[arg-type]
        (Rejected(402), "402"),  # type: ignore[arg-type]
        (Rejected(Untold(1, 2)), "<Untold whose text raised RuntimeError>"),  # type: ignore[arg-type]
        (Rejected(), "Rejected"),
        (Rejected, "Rejected"),
        (Declined("card"), "card"),
        (Rejected("x" * 5_000_000, hint="y" * 5_000_000), "x" * 2000),
        (Rejected("no", **{f"field_{n}": "z" * 15_000 for n in range(1000)}), "no"),
    ],
    ids=["exception", "number", "untold", "nothing", "class", "own", "endless", "many fields"],
)
def test_whatever_a_refusal_is_made_of_it_is_recorded_as_one(ledger, world, error, message):
    def pay():
        raise error

    pay = declare(pay)
    for worker in (ledger, world.open()):
        with run(worker), pytest.raises(Rejected) as raised:
            pay()
        assert raised.value.message[:2000] == message
    (row,) = ledger.effects()
    assert row["state"] == "rejected"


@pytest.mark.parametrize("error", [Untold(1, 2), type("E" * 1000, (Exception,), {})("x" * 9_000_000)])
def test_an_error_of_any_kind_leaves_its_effect_unknown_and_nothing_worse(ledger, error):
    def pay():
        raise error

    with pytest.raises(RunWaiting), run(ledger):
        declare(pay)()
    assert ledger.effects()[0]["state"] == "in_review"


@pytest.mark.parametrize("picked", [Untold(1, 2), "x" * 9_000_000, 5, "\ud800"], ids=lambda it: str(type(it)))
def test_an_odd_provider_id_does_not_hide_that_the_effect_happened(ledger, picked):
    pay = declare(lambda: "paid", provider_id=lambda _: picked)
    with run(ledger):
        assert pay() == "paid"
    (observed,) = ledger.events("case", types={"effect.observed"})
    assert 0 < len(observed.content["provider_effect_id"]) <= 1000


def test_any_other_error_leaves_the_outcome_unknown_and_parks_the_run(ledger, told):
    def pay():
        raise ConnectionResetError("the line broke")

    pay = declare(pay)
    with pytest.raises(RunWaiting) as waiting, run(ledger):
        pay()
    assert told() == ["effect.intended", "effect.observed", "effect.review_requested"]
    (review,) = ledger.reviews()
    assert waiting.value.waits_for == (review["review_id"],)
    assert ledger.runs()[0]["state"] == "suspended"


def test_a_tool_that_touches_nothing_fails_with_its_own_error(ledger):
    def look(order):
        raise KeyError(order)

    look = effect("look", version="1", touches=set(), doubt=by_repeating())(look)
    with run(ledger), pytest.raises(KeyError):
        look("o-1")
    observed = next(ledger.events("case", types={"effect.observed"}))
    assert (observed.data["outcome"], observed.data["error_class"]) == ("failed", "KeyError")


def test_a_call_that_gives_no_answer_in_time_is_unknown(ledger, provider):
    provider.plan("slow")
    pay = declare(lambda *, idempotency_key: provider.send(idempotency_key=idempotency_key), timeout_s=0.2)
    with pytest.raises(RunWaiting), run(ledger):
        pay()
    observed = next(ledger.events("case", types={"effect.observed"}))
    assert (observed.data["outcome"], observed.data["error_class"]) == ("unknown", "TimeoutError")
    provider.answer_now()


def test_a_look_that_gives_no_answer_in_time_has_failed(ledger, provider):
    provider.plan("slow")
    look = effect("look", version="1", touches=set(), doubt=by_repeating(), timeout_s=0.2)(
        lambda: provider.send(idempotency_key="k")
    )
    with run(ledger), pytest.raises(TimeoutError, match="look"):
        look()
    provider.answer_now()
    assert ledger.effects()[0]["state"] == "failed"


# ---- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value,path",
    [({"a": [1, {2j}]}, "arguments"), (float("nan"), "arguments"), (object(), "arguments.order")],
)
def test_an_argument_without_a_form_is_refused_by_path_before_anything_is_written(ledger, told, value, path):
    pay = declare(lambda order: None)
    with run(ledger):
        with pytest.raises(NotEncodable) as refused:
            pay(value)
        assert refused.value.path.startswith(path)
    assert told() == []


def test_arguments_beyond_the_limit_of_an_event_move_to_an_artifact(ledger):
    pay = declare(lambda order: {"characters": len(order)})
    with run(ledger):
        assert pay("x" * (5 * 1024 * 1024)) == {"characters": 5 * 1024 * 1024}


def test_where_nothing_can_move_such_arguments_are_refused_before_anything_is_written(ledger, told):
    ledger.ports.vault = Vault(None, ledger.keyring.material)
    pay = declare(lambda order: None)
    with run(ledger), pytest.raises(ContentTooLarge):
        pay("x" * (5 * 1024 * 1024))
    assert told() == []


@pytest.mark.parametrize("key", [None, "", 7, "x" * 1001])
def test_a_key_that_is_no_usable_text_is_refused_before_anything_is_written(ledger, told, key):
    pay = declare(lambda order: None, key=lambda order: key)
    if key is None:
        with run(ledger), pytest.raises(ToolInvalid):
            pay("o-1")
    else:
        with run(ledger), pytest.raises(ToolInvalid, match="key"):
            pay("o-1")
    assert told() == []


@dataclasses.dataclass
class Receipt:
    """A result that nobody registered, so it has no recordable form."""

    number: int


@pytest.mark.parametrize("result", [Receipt(7), {"f": open}, float("inf")])
def test_a_result_that_cannot_be_recorded_does_not_hide_that_the_effect_happened(ledger, result):
    pay = declare(lambda: result)
    with run(ledger):
        assert pay() is result
    observed = next(ledger.events("case", types={"effect.observed"}))
    assert observed.data["outcome"] == "succeeded"
    kept = observed.content["result_not_kept"]
    assert kept["type"] == type(result).__name__
    assert len(kept["repr"]) <= 1000


def test_a_resumed_run_is_told_that_the_result_was_not_kept_and_nothing_is_sent_again(ledger, world):
    calls = []

    def pay():
        calls.append(1)
        return Receipt(7)

    pay = declare(pay)
    with run(ledger):
        pay()
    with run(world.open()), pytest.raises(ResultNotKept, match="Receipt"):
        pay()
    assert len(calls) == 1


def test_a_result_whose_repr_fails_is_described_all_the_same(ledger):
    class Odd:
        def __repr__(self):
            raise ValueError

    pay = declare(lambda order=None: Odd())
    with run(ledger):
        pay()
    observed = next(ledger.events("case", types={"effect.observed"}))
    assert "Odd" in observed.content["result_not_kept"]["repr"]


@pytest.mark.parametrize(
    "result", [Decimal("1.10"), b"\xff\xfe", {1, 2}, ("a", 1), {"deep": [None, 2**80]}, None, 40.0, "\ud99c"]
)
def test_a_result_comes_back_as_it_was(ledger, world, result):
    pay = declare(lambda: result)
    with run(ledger):
        pay()
    with run(world.open()):
        again = pay()
    assert again == result
    assert type(again) is type(result)


def test_the_lookup_of_a_call_that_went_well_is_never_asked(ledger, provider):
    pay = declare(lambda: 1, doubt=by_lookup(lambda **_: Absent()))
    with run(ledger):
        pay()
    assert ledger.effects()[0]["lookups"] == 0


# ---- functions that are async in disguise --------------------------------------------------------------------------------


async def later(order):
    return order


def disguised(order):
    return later(order)


async def agen():
    yield 1


def promises():
    """What stands for a result that is not there yet."""
    loop = asyncio.new_event_loop()
    loop.close()
    return {
        "coroutine": lambda: later("o-1"),
        "generator": lambda: (order for order in ["o-1"]),
        "async generator": agen,
        "future of a pool": concurrent.futures.Future,
        "future of a loop": lambda: asyncio.Future(loop=loop),
    }


@pytest.mark.parametrize("kind", promises())
def test_a_tool_that_hands_out_a_promise_may_or_may_not_have_acted(ledger, kind):
    def pay():
        return promises()[kind]()

    pay = declare(pay)
    with pytest.raises(RunWaiting), run(ledger):
        pay()
    (observed,) = ledger.events("case", types={"effect.observed"})
    assert observed.data["outcome"] == "unknown"
    assert "which nobody awaits" in observed.content["error"]["message"]


def test_a_look_that_hands_out_a_promise_has_failed(ledger):
    look = declare(lambda: later("o-1"), touches=set(), doubt=by_repeating())
    with run(ledger), pytest.raises(ToolInvalid, match="awaits"):
        look()
    assert ledger.effects()[0]["state"] == "failed"


def test_a_lookup_of_a_sync_tool_that_hands_out_a_coroutine_cannot_tell(ledger, provider):
    def pay(order):
        raise ConnectionError

    pay = declare(pay, doubt=by_lookup(disguised))
    with pytest.raises(RunWaiting), run(ledger):
        pay("o-1")
    assert [review["cause"] for review in ledger.reviews()] == ["cannot_tell"]
