"""What moved out of an event keeps what its operation was permitted by, and reading it back asks for that anew."""

from __future__ import annotations

import asyncio

import pytest

import counterfoil
from counterfoil.access import AccessDecision, Role, RoleAuthorizer
from counterfoil.core.event_types import CLASSES
from counterfoil.effects.registry import own_tools
from counterfoil.errors import AccessRefused, ContentUnavailable

LARGE = "x" * 300_000
ALL = frozenset(CLASSES)
ROLES = {
    "clerk": Role({"read": ALL}, frozenset({"orders.*"})),
    "writer": Role({"read": ALL}, frozenset({"letters.*"})),
}


@pytest.fixture(autouse=True)
def _tools():
    with own_tools():
        yield


@pytest.fixture
def ledger(world):
    return world.worker()


def listing():
    @counterfoil.effect("orders.list", version="1", touches=set(), doubt=counterfoil.by_repeating())
    def orders() -> str:
        return LARGE

    return orders


def run_orders(ledger, principal=None, conversation="c"):
    with ledger.run("shop", conversation=conversation, principal=principal) as run:
        assert listing()() == LARGE
    return run.id


def spilled(ledger, conversation="c"):
    return [dict(event.data) for event in ledger.events(conversation, types=["artifact.spilled"])]


def observed(events):
    (event,) = [event for event in events if event.type == "effect.observed"]
    return event


def test_a_spilled_result_records_the_tool_and_the_principal(ledger):
    run_orders(ledger, "ann")
    (data,) = spilled(ledger)
    assert data["permission"] == "orders.list"
    assert data["principal"] == ledger.ports.subject_key(ledger.stream_of("c"), "ann").key_id
    assert "effect_id" in data


def test_a_run_for_nobody_in_particular_records_no_principal(ledger):
    run_orders(ledger)
    assert "principal" not in spilled(ledger)[0]


def test_a_step_and_a_model_are_operations_too(ledger):
    def model(request):
        return LARGE

    model.provider, model.name = "acme", "acme-large"
    with ledger.run("shop", conversation="c") as run:
        run.step("load", lambda: LARGE)
        run.ask(model, [{"role": "user", "content": "hi"}])
    assert spilled(ledger)[0]["permission"] == "load"
    assert len(spilled(ledger)) >= 2


def test_a_name_that_was_not_declared_is_not_recorded_in_the_open(ledger):
    with ledger.run("shop", conversation="c") as run:
        run.step("load orders of ann", lambda: LARGE)
    assert all("permission" not in data for data in spilled(ledger))


def test_a_task_records_the_same(ledger):
    async def main():
        async with ledger.run("shop", conversation="c", principal="ann"):
            assert await asyncio.to_thread(lambda: 1) == 1
            tool = counterfoil.effect(
                "orders.list", version="1", touches=set(), doubt=counterfoil.by_repeating()
            )

            async def orders() -> str:
                return LARGE

            assert await tool(orders)() == LARGE

    asyncio.run(main())
    assert spilled(ledger)[0]["permission"] == "orders.list"
    assert "principal" in spilled(ledger)[0]


@pytest.mark.parametrize("role, shown", [("clerk", True), ("writer", False)])
def test_reading_asks_for_the_permission_of_the_operation(ledger, role, shown):
    run_orders(ledger)
    ledger.authorizer = RoleAuthorizer({"pat": [role]}, ROLES)
    with ledger.reading("c", actor="pat", purpose="a complaint") as reader:
        event = observed(reader.events())
        if shown:
            assert event.content["result"] == LARGE
            return
        with pytest.raises(ContentUnavailable) as refusal:
            _ = event.content
        assert refusal.value.state == "withheld"
        assert isinstance(refusal.value.__cause__, AccessRefused)
        # What did not move is shown, and the refusal is on record beside the decision on the session.
        assert "$spilled" in event.outline["result"]
    lines = [(line.allowed, line.rule, line.by) for line in ledger.access.decisions()]
    assert lines == [(True, "writer", "pat"), (False, "permission", "pat")]


def test_a_run_resumes_on_what_it_was_given_itself(world, ledger):
    ledger.authorizer = RoleAuthorizer()
    run_id = run_orders(ledger, "ann")
    other = world.worker()
    other.authorizer = RoleAuthorizer()
    with other.run("shop", conversation="c", resume=run_id):
        assert listing()() == LARGE


def test_a_run_for_another_person_does_not_read_what_was_made_for_the_first(ledger):
    run_orders(ledger, "ann")
    ledger.authorizer = RoleAuthorizer()
    for principal, shown in (("ann", True), ("bob", False), (None, False)):
        with ledger.run("shop", conversation="c", principal=principal):
            event = observed(ledger.events("c"))
            assert (event.content_or_none() is not None) is shown
    refusals = [(line.rule, line.by) for line in ledger.access.decisions() if not line.allowed]
    assert refusals == [("other-principal", "shop")] * 2


def test_the_authorizer_is_told_what_the_operation_had(ledger):
    run_orders(ledger, "ann")
    asked = []

    class Listening:
        def decide(self, request):
            asked.append(request)
            return AccessDecision(allowed=True, rule="all")

    ledger.authorizer = Listening()
    with ledger.reading("c", actor="pat", purpose="a complaint") as reader:
        assert observed(reader.events()).content["result"] == LARGE
    session, reading = asked
    assert (session.permission, session.principal) == (None, None)
    data = spilled(ledger)[0]
    assert (reading.permission, reading.principal) == (data["permission"], data["principal"])
    assert (reading.actor.name, reading.purpose, reading.klass) == ("pat", "a complaint", "confidential")


def test_an_authorizer_that_fails_while_reading_withholds(ledger):
    run_orders(ledger)

    class Failing:
        def decide(self, request):
            raise RuntimeError("down")

    ledger.authorizer = Failing()
    event = observed(ledger.events("c"))
    assert event.content_or_none() is None
    assert [line.rule for line in ledger.access.decisions()] == ["authorizer-failed"]


def test_values_whose_record_is_gone_are_withheld(world, ledger):
    run_orders(ledger)
    (told,) = ledger.events("c", types=["artifact.spilled"])
    ledger.authorizer = RoleAuthorizer()
    find = ledger.store.find
    ledger.ports.store = type(
        "Gone", (), {"__getattr__": lambda self, name: getattr(world.parts.store, name)}
    )()
    ledger.ports.store.find = lambda stream, ids: [
        one for one in find(stream, ids) if one.event_id != told.event_id
    ]
    event = observed(ledger.events("c"))
    with pytest.raises(ContentUnavailable, match="nobody can say"):
        _ = event.content


def test_a_kept_file_that_needs_a_permission_is_asked_for_it(ledger):
    with ledger.run("shop", conversation="c") as run:
        letter = run.artifact(b"dear ann", permission="letters.read")
        plain = run.artifact(b"open to who may read")
    ledger.authorizer = RoleAuthorizer({"pat": ["clerk"], "wim": ["writer"]}, ROLES)
    with ledger.reading("c", actor="pat", purpose="a complaint") as reader:
        assert reader.artifact(plain.sha256).read() == b"open to who may read"
        with pytest.raises(AccessRefused, match="permission"):
            reader.artifact(letter.sha256).read()
    with ledger.reading("c", actor="wim", purpose="a complaint") as reader:
        assert reader.artifact(letter.sha256).read() == b"dear ann"


def test_an_artifact_that_no_row_names_is_refused(world, ledger):
    with ledger.run("shop", conversation="c") as run:
        kept = run.artifact(b"dear ann")
    ledger.authorizer = RoleAuthorizer()
    assert kept.read() == b"dear ann"
    inner = world.parts.store
    ledger.ports.store = type("Bare", (), {"__getattr__": lambda self, name: getattr(inner, name)})()
    ledger.ports.store.select = lambda *asked, **how: []
    with pytest.raises(AccessRefused, match="nobody can say"):
        kept.read()


def test_broken_glass_opens_spilled_values_too(ledger):
    run_orders(ledger)
    roles = {"on-call": Role({"read": frozenset(), "glass": frozenset()})}
    ledger.authorizer = RoleAuthorizer({"olga": ["on-call"]}, roles)
    ledger.access.break_glass("olga", "payments fail")
    with ledger.reading("c", actor="olga", purpose="an incident") as reader:
        assert observed(reader.events()).content["result"] == LARGE


def test_a_ledger_that_is_only_read_refuses_without_a_record(tmp_path):
    with counterfoil.open(tmp_path / "l") as ledger:
        run_orders(ledger)
    with counterfoil.open(
        tmp_path / "l", read_only=True, authorizer=RoleAuthorizer({"counterfoil": []})
    ) as ledger:
        assert observed(ledger.events("c")).content_or_none() is None
