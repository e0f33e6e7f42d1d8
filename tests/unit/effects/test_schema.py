"""Schemas of arguments: made of type hints alike everywhere, recorded with the intention, and seen when they change."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import pytest

from counterfoil.effects import Absent, Found, by_key, by_lookup, effect
from counterfoil.effects.registry import own_tools
from counterfoil.effects.schema import DEPTH_MAX, digest_of, of_hint
from counterfoil.errors import IdempotencyConflict, ToolInvalid
from counterfoil.testing.crash import LifeUntil, live
from counterfoil.testing.truth import check_truth


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Line:
    article: str
    count: int = 1
    tags: list[str] = field(default_factory=list)


class Place(NamedTuple):
    row: int
    seat: int = 1


class Customer(TypedDict):
    name: str
    mail: NotRequired[str]


class Model:
    """Looks like a pydantic model."""

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        return {"type": "object", "properties": {"x": {"type": "integer"}}}


LINE = {
    "title": "Line",
    "type": "object",
    "properties": {
        "article": {"type": "string"},
        "count": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["article"],
}
HINTS = [
    (str, {"type": "string"}),
    (Any, {}),
    (Decimal, {"type": "string", "format": "decimal"}),
    (datetime, {"type": "string", "format": "date-time"}),
    (UUID, {"type": "string", "format": "uuid"}),
    (bytes, {"type": "string", "contentEncoding": "base64"}),
    (Path, {"type": "string", "format": "path"}),
    (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
    (Literal["a", 1], {"enum": ["a", 1]}),
    (Annotated[int, "of the order"], {"type": "integer"}),
    (list[int], {"type": "array", "items": {"type": "integer"}}),
    (Sequence[str], {"type": "array", "items": {"type": "string"}}),
    (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
    (
        tuple[int, str],
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "minItems": 2,
            "maxItems": 2,
        },
    ),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
    (Mapping[str, Any], {"type": "object", "additionalProperties": {}}),
    (Colour, {"title": "Colour", "enum": ["red", "blue"]}),
    (Line, LINE),
    (
        Place,
        {
            "title": "Place",
            "type": "object",
            "properties": {"row": {"type": "integer"}, "seat": {"type": "integer"}},
            "required": ["row"],
        },
    ),
    (Model, {"type": "object", "properties": {"x": {"type": "integer"}}}),
    (object, {"title": "object"}),
]


@pytest.mark.parametrize("hint, schema", HINTS, ids=lambda value: str(value)[:40])
def test_a_hint_is_described(hint, schema):
    assert of_hint(hint) == schema


def test_a_typed_dictionary_says_what_it_needs():
    described = of_hint(Customer)
    assert described["required"] == ["name"]
    assert described["properties"]["mail"] == {"type": "string"}


@dataclass
class Node:
    value: int
    next: Node | None = None


def test_a_class_that_holds_itself_is_described_to_a_depth():
    described, depth = of_hint(Node), 0
    while "properties" in described:
        described, depth = described["properties"]["next"]["anyOf"][0], depth + 1
    assert (described, depth) == ({"title": "Node"}, DEPTH_MAX)


def declare(fn, **more):
    settings = {"version": "1", "touches": {"money"}, "doubt": by_key()} | more
    return effect("pay", **settings)(fn)


def pay(order: str, amount: Decimal, *, urgent: bool = False, idempotency_key: str = ""):
    return idempotency_key


def test_a_tool_describes_its_arguments_and_not_the_key():
    assert declare(pay).parameters.described == {
        "type": "object",
        "properties": {
            "order": {"type": "string"},
            "amount": {"type": "string", "format": "decimal"},
            "urgent": {"type": "boolean"},
        },
        "required": ["amount", "order"],
        "additionalProperties": False,
    }


def test_a_hint_that_names_what_is_not_there_stands_for_anything():
    def odd(order: NotThere, *, idempotency_key: str = ""):  # noqa: F821 - on purpose
        return order

    assert declare(odd).parameters.described["properties"] == {"order": {}}


def test_a_schema_may_be_declared():
    given = {"type": "object", "properties": {"order": {"type": "string", "pattern": "^O-"}}}
    tool = declare(pay, schema=given)
    assert tool.parameters.described == given
    assert tool.parameters.schema == digest_of(given)


def test_the_intention_records_the_digest(ledger):
    tool = declare(pay)
    with ledger.run("agent", conversation="case", dedupe="m1"):
        tool("o-1", Decimal(1))
    (intended,) = ledger.events("case", types={"effect.intended"})
    assert intended.data["schema"] == tool.parameters.schema == digest_of(tool.parameters.described)


# ---- changed between intention and recovery ---------------------------------------------------------------------------


def new_hint(order: str, amount: int, *, urgent: bool = False, idempotency_key: str = ""):
    raise AssertionError("not to be called")


def new_option(
    order: str, amount: Decimal, *, urgent: bool = False, note: str = "", idempotency_key: str = ""
):
    raise AssertionError("not to be called")


def new_name(order: str, sum: Decimal, *, urgent: bool = False, idempotency_key: str = ""):
    raise AssertionError("not to be called")


@pytest.fixture
def doubted(world):
    """An effect whose worker died around its call."""
    tool = declare(pay)

    def agent(ledger):
        with ledger.run("agent", conversation="case", message="m", dedupe="m1"):
            tool("o-1", Decimal("40.00"))

    live(world, LifeUntil("call pay", "after"), agent)
    world.time_passes()
    return world.open()


@pytest.mark.parametrize(
    "changed, unfit",
    [
        (new_hint, {"missing": [], "not_taken": []}),
        (new_option, {"missing": [], "not_taken": []}),
        (new_name, {"missing": ["sum"], "not_taken": ["amount"]}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.parametrize("version", ["1", "2"])
def test_a_call_is_not_sent_again_under_a_schema_that_has_changed(doubted, changed, unfit, version):
    with own_tools():
        tool = declare(changed, version=version)
        report = doubted.recover()
    assert [(entry.done, entry.state) for entry in report.effects] == [("review", "in_review")]
    (asked,) = doubted.events("case", types={"effect.review_requested"})
    (intended,) = doubted.events("case", types={"effect.intended"})
    assert asked.data["cause"] == "schema_changed"
    assert asked.content["schema"] == {"recorded": intended.data["schema"], "now": tool.parameters.schema}
    assert asked.content["arguments"] == unfit
    assert asked.content["tool_version_now"] == version
    check_truth(doubted)


def test_a_new_version_that_takes_the_same_arguments_sends_again(doubted):
    with own_tools():
        declare(pay, version="2")
        assert doubted.recover().effects[0].state == "succeeded"


@pytest.mark.parametrize("answer, state", [(Found("succeeded", 1), "succeeded"), (Absent(), "in_review")])
def test_asking_the_provider_is_safe_under_any_schema_that_can_be_read(world, answer, state):
    def agent(ledger):
        with ledger.run("agent", conversation="case", message="m", dedupe="m1"):
            tool("o-1", Decimal("40.00"))

    tool = declare(pay, doubt=by_lookup(lambda order: answer, then=by_key()))
    live(world, LifeUntil("call pay", "after"), agent)
    world.time_passes()
    with own_tools():
        declare(new_option, doubt=by_lookup(lambda order: answer, then=by_key()))
        assert world.open().recover().effects[0].state == state


# ---- what tells calls apart ------------------------------------------------------------------------------------------


def test_identity_arguments_tell_calls_of_a_run_apart_and_the_rest_must_agree(ledger):
    sent = []

    def note(order: str, text: str):
        sent.append((order, text))
        return len(sent)

    tool = declare(note, doubt=by_lookup(Absent), identity={"order"})

    def agent():
        with ledger.run("agent", conversation="case", message="m", dedupe="m1"):
            first, second = tool("o-1", "hello"), tool("o-2", "hello")
            with pytest.raises(IdempotencyConflict):
                tool("o-1", "good day")
            return first, second

    assert agent() == (1, 2)
    assert sent == [("o-1", "hello"), ("o-2", "hello")]
    with ledger.run("agent", conversation="other", message="m", dedupe="m2"):
        assert tool("o-1", "good day") == 3
    ledger.rebuild()
    check_truth(ledger)


def test_a_content_key_is_one_effect_of_the_tenant_for_equal_arguments(ledger):
    keys = []

    def send(order: str, amount: float, *, idempotency_key: str):
        keys.append(idempotency_key)
        return idempotency_key

    tool = declare(send, key="content")
    for name in ("m1", "m2"):
        with ledger.run("agent", conversation=name, message="m", dedupe=name):
            tool("o-1", 40.0)
    with ledger.run("agent", conversation="m3", message="m", dedupe="m3"):
        tool("o-1", 41.0)
    assert len(keys) == len(set(keys)) == 2
    assert all(key.startswith("pay:") for key in keys)
    ledger.rebuild()
    check_truth(ledger)


@pytest.mark.parametrize(
    "wrong",
    [
        {"identity": {"colour"}},
        {"identity": ()},
        {"identity": {"order"}, "key": "content"},
        {"key": "contents"},
        {"key": 3},
    ],
    ids=str,
)
def test_what_cannot_tell_calls_apart_is_refused(wrong):
    with pytest.raises(ToolInvalid):
        declare(pay, **wrong)


def test_doubt_of_an_effect_known_by_some_arguments_is_recovered(world):
    tool = declare(pay, identity=["order"])

    def agent(ledger):
        with ledger.run("agent", conversation="case", message="m", dedupe="m1"):
            return tool("o-1", Decimal("40.00"))

    live(world, LifeUntil("call pay", "before"), agent)
    world.time_passes()
    ledger = world.open()
    assert not ledger.recover().undecided
    assert agent(ledger) == ledger.effects()[0]["effect_id"]


# ---- what a digest stands for ----------------------------------------------------------------------------------------


def test_tools_are_put_on_record_once_and_their_schemas_found_by_digest(world, ledger):
    tool = declare(pay)
    assert ledger.record_tools() == ["pay 1"]
    assert world.open().record_tools() == []
    found = ledger.recorded_schema("pay", "1", tool.parameters.schema)
    assert found == tool.parameters.described
    with own_tools():
        declare(new_option)
        assert ledger.record_tools() == ["pay 1"]
    assert ledger.recorded_schema("pay", "1", "0" * 64) is None
    before = ledger.store.select("declared_tools", None, ("default",), None, 10)
    ledger.rebuild()
    after = ledger.store.select("declared_tools", None, ("default",), None, 10)
    assert [row["schema"] for row in after] == [row["schema"] for row in before]
    assert len(before) == 2
