"""Read sessions: decided once, on record before anything is shown, and what they show and for how long."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from msgspec.structs import replace

import counterfoil
from counterfoil.access import AccessDecision, Actor, RoleAuthorizer
from counterfoil.errors import (
    AccessRefused,
    ContentUnavailable,
    InvalidForm,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StreamNotFound,
)
from counterfoil.testing.faulty import Fail, FailAfter, FaultyStore


def decided(ledger):
    return [(line.action, line.allowed, line.rule, line.by) for line in ledger.access.decisions()]


def test_one_decision_is_recorded_for_a_session_however_much_it_reads(ledger):
    with ledger.reading("c", actor="ann", purpose="a complaint") as reader:
        assert [event.content_state for event in reader.events(types=["step.finished"])] == ["present"]
        assert next(reader.events()).content["name"] == "c"
        assert decided(ledger) == [("read", True, "auditor", "ann")]
    (line,) = ledger.access.decisions()
    assert (line.stream_id, line.klass, line.purpose) == (
        ledger.stream_of("c"),
        "confidential",
        "a complaint",
    )


def test_the_header_of_a_decision_names_nobody(ledger):
    with ledger.reading("c", actor="ann", purpose="a complaint") as reader:
        stored = ledger.store.find(ledger.streams.id_of("access"), [reader.decision.event_id])
    (event,) = stored
    assert b"ann" not in event.header
    assert b"complaint" not in event.header
    header = ledger.ports.event(event).header
    assert header.actor["type"] == "human"
    assert header.actor["id"].startswith("dk_")
    assert header.content[1].key == header.actor["id"]


def test_the_decision_is_durable_before_the_session_begins(world, ledger):
    reading = ledger.reading("c", actor="ann", purpose="a complaint")
    assert decided(ledger) == []
    with reading:
        assert decided(world.worker()) == [("read", True, "auditor", "ann")]


def test_each_block_is_decided_anew(ledger):
    reading = ledger.reading("c", actor="ann", purpose="a complaint")
    for _ in range(2):
        with reading as reader:
            assert list(reader.events())
    assert len(decided(ledger)) == 2


@pytest.mark.parametrize("who, rule", [("olga", "not-in-role"), ("nobody", "no-role")])
def test_a_refusal_is_raised_and_recorded(ledger, who, rule):
    with pytest.raises(AccessRefused) as refusal, ledger.reading("c", actor=who, purpose="curiosity"):
        pytest.fail("the session began")
    assert (refusal.value.rule, refusal.value.action) == (rule, "read")
    assert who not in str(refusal.value)
    assert decided(ledger) == [("read", False, rule, who)]


def test_a_session_that_ended_opens_nothing_more(ledger):
    with ledger.reading("c", actor="ann", purpose="a complaint") as reader:
        events = list(reader.events())
    assert {event.content_state for event in events if event.header.content} == {"withheld"}
    with pytest.raises(ContentUnavailable, match="has ended"):
        _ = events[0].content
    with pytest.raises(AccessRefused, match="ended"):
        list(reader.events())


def test_a_session_shows_no_class_above_the_one_it_was_opened_for(ledger):
    with ledger.reading("c", actor="olga", purpose="routine", classification="internal") as reader:
        events = [event for event in reader.events() if event.header.content]
        assert {event.content_state for event in events} == {"withheld"}
        assert "internal at most" in events[0].opened.reason


def test_a_session_is_for_its_conversation_alone(ledger):
    with ledger.run("shop", conversation="other"):
        pass
    with ledger.reading("c", actor="ann", purpose="a complaint") as reader:
        with pytest.raises(AccessRefused, match="another conversation"):
            list(reader.events("other"))
        (other,) = ledger.store.read(ledger.stream_of("other"), 0, 1)
        event = ledger.ports.event(other, reader.session)
        assert event.content_state == "withheld"


def test_a_session_for_all_conversations_names_the_one_to_read(ledger):
    with ledger.reading(actor="ann", purpose="yearly audit") as reader:
        assert next(reader.events("c")).content["name"] == "c"
        with pytest.raises(InvalidForm, match="name the one"):
            list(reader.events())


def test_a_range_and_a_single_event_are_kept_to(ledger):
    everything = list(ledger.events("c"))
    with ledger.reading("c", actor="ann", purpose="a part", after=1, up_to=2) as reader:
        assert [event.sequence for event in reader.events()] == [2]
    one = everything[1].event_id
    with ledger.reading("c", actor="ann", purpose="one", event_id=one) as reader:
        shown = [event.event_id for event in reader.events() if event.content_state == "present"]
    assert shown == [one]
    first, second = ledger.events(ledger.streams.id_of("access"))
    assert first.content["range"] == {"after": 1, "up_to": 2}
    assert second.data["event_id"] == one


@pytest.mark.parametrize(
    "answer",
    [
        RuntimeError("the directory service is down"),
        None,
        True,
        AccessDecision(1, "r"),
        AccessDecision(True, "two words"),
    ],
)
def test_an_authorizer_that_fails_or_answers_nonsense_refuses(ledger, answer):
    class Failing:
        def decide(self, request):
            if isinstance(answer, Exception):
                raise answer
            return answer

    ledger.authorizer = Failing()
    with pytest.raises(AccessRefused), ledger.reading("c", actor="ann", purpose="a complaint"):
        pytest.fail("the session began")
    assert decided(ledger) == [("read", False, "authorizer-failed", "ann")]


def test_content_is_not_shown_while_the_store_is_down(world, ledger):
    store = FaultyStore(world.parts.store)
    world.parts = replace(world.parts, store=store)
    reader_side = world.worker()
    reader_side.streams.ensure("access")
    store.faults.next("append", Fail())
    with pytest.raises(StoreError), reader_side.reading("c", actor="ann", purpose="a complaint"):
        pytest.fail("the session began")
    assert decided(ledger) == []


def test_content_is_not_shown_where_the_answer_of_the_store_was_lost(world, ledger):
    store = FaultyStore(world.parts.store)
    world.parts = replace(world.parts, store=store)
    reader_side = world.worker()
    reader_side.streams.ensure("access")
    store.faults.next("append", FailAfter())
    with pytest.raises(StoreError), reader_side.reading("c", actor="ann", purpose="a complaint"):
        pytest.fail("the session began")
    # The decision is on record all the same: a record without a reading, never a reading without a record.
    assert decided(ledger) == [("read", True, "embedded", "ann")]


def test_content_is_not_shown_on_a_full_disk(world, ledger):
    store = FaultyStore(world.parts.store)
    world.parts = replace(world.parts, store=store)
    reader_side = world.worker()
    reader_side.streams.ensure("access")
    store.faults.next("append", Fail(lambda: StoreFull("no space left")))
    with pytest.raises(StoreFull), reader_side.reading("c", actor="ann", purpose="a complaint"):
        pytest.fail("the session began")


def test_a_ledger_that_is_only_read_shows_nothing_in_a_session(tmp_path):
    with counterfoil.open(tmp_path / "l") as ledger, ledger.run("a", conversation="c"):
        pass
    with counterfoil.open(tmp_path / "l", read_only=True) as ledger, pytest.raises(StoreReadOnly):
        ledger.reading("c", actor="ann", purpose="a complaint").__enter__()


@pytest.mark.parametrize(
    "name",
    [
        "a\x1b[31mnn",
        "ann\n",
        "'; DROP TABLE glasses; --",
        "\ud83d",
        "\u202eann",
        "ann\x00",
        "<b>ann</b>",
        "a" * 1_000,
    ],
)
def test_hostile_names_and_purposes_are_kept_as_they_are(ledger, name):
    ledger.authorizer = RoleAuthorizer({name: ["auditor"]})
    with ledger.reading("c", actor=name, purpose=name * 2) as reader:
        assert list(reader.events())
    (line,) = ledger.access.decisions()
    assert (line.by, line.purpose) == (name, name * 2)


@pytest.mark.parametrize(
    "actor, purpose, argument",
    [
        ("", "why", "actor"),
        (" ", "why", "actor"),
        ("ann", "", "purpose"),
        ("ann", "x" * 4_001, "purpose"),
        ("a" * 1_001, "why", "actor"),
        (Actor("two words", "service"), "why", "actor"),
    ],
)
def test_who_and_why_are_said(ledger, actor, purpose, argument):
    with pytest.raises(InvalidForm) as refusal, ledger.reading("c", actor=actor, purpose=purpose):
        pytest.fail("the session began")
    assert refusal.value.argument == argument
    assert decided(ledger) == []


def test_classes_and_conversations_that_there_are_not_are_refused(ledger):
    with pytest.raises(InvalidForm), ledger.reading("c", actor="ann", purpose="x", classification="all"):
        pytest.fail("the session began")
    with pytest.raises(StreamNotFound):
        ledger.reading("no such", actor="ann", purpose="x")


def test_a_program_is_named_by_its_label_in_the_header(ledger):
    ledger.authorizer = RoleAuthorizer({"gateway": ["auditor"]})
    with ledger.reading("c", actor=Actor("gateway", "service"), purpose="a page") as reader:
        pass
    (event,) = ledger.store.find(ledger.streams.id_of("access"), [reader.decision.event_id])
    assert ledger.ports.event(event).header.actor == {"type": "service", "id": "gateway"}
    assert decided(ledger) == [("read", True, "auditor", "gateway")]


def test_tasks_read_in_a_session_too(ledger):
    async def look():
        async with ledger.reading("c", actor="ann", purpose="a complaint") as reader:
            return [event.content_state for event in reader.events(limit=1)]

    assert asyncio.run(look()) == ["present"]


def test_artifacts_open_in_the_session_and_not_after_it(ledger):
    with ledger.run("shop", conversation="c") as run:
        plain = run.artifact(b"letter")
        secret = run.artifact(b"pin", classification="secret")
    with ledger.reading("c", actor="ann", purpose="a complaint") as reader:
        found = reader.artifact(plain.sha256)
        assert found.read() == b"letter"
        with pytest.raises(AccessRefused, match="secret"):
            reader.artifact(secret.sha256).read()
    with pytest.raises(AccessRefused, match="has ended"):
        found.read()


def test_two_processes_record_their_sessions_in_one_stream(tmp_path):
    place = tmp_path / "l"
    with counterfoil.open(place) as ledger, ledger.run("a", conversation="c"):
        pass
    code = (
        "import sys, counterfoil\n"
        "with counterfoil.open(sys.argv[1]) as ledger:\n"
        "    for _ in range(5):\n"
        "        with ledger.reading('c', actor=sys.argv[2], purpose='both') as reader:\n"
        "            assert list(reader.events())\n"
    )
    workers = [subprocess.Popen([sys.executable, "-c", code, str(place), who]) for who in ("ann", "bob")]
    assert [worker.wait(120) for worker in workers] == [0, 0]
    with counterfoil.open(place) as ledger:
        assert sorted(line.by for line in ledger.access.decisions()) == ["ann"] * 5 + ["bob"] * 5
