"""The importers' view of a ledger: one conversation for a name, each event once."""

from __future__ import annotations

import pytest

from counterfoil.client.imports import LedgerImports
from counterfoil.core.event import Draft, Part
from counterfoil.core.forms import time_text
from counterfoil.errors import PartialDuplicate, PublicFieldRefused
from tests.running import World, types_of


@pytest.fixture
def world():
    return World()


@pytest.fixture
def ledger(world):
    return world.worker()


@pytest.fixture
def imports(ledger):
    return LedgerImports(ledger)


def record(ledger, event_id, number):
    return Draft(
        event_id,
        "record.imported",
        time_text(ledger.ports.now_ms()),
        {"type": "system", "id": "importer"},
        {"kind": "line"},
        (Part({"number": number}),),
    )


def test_a_name_is_one_conversation_of_imported_origin(ledger, imports):
    first, again = imports.conversation("pi:1", "pi"), imports.conversation("pi:1", "pi")
    assert first.stream_id == again.stream_id
    (info,) = ledger.conversations()
    assert (info.name, info.origin, info.state) == ("pi:1", "import", "open")


def test_the_same_drafts_again_add_nothing(world, ledger, imports):
    conversation = imports.conversation("pi:1", "pi")
    drafts = [record(ledger, ledger.ports.new_id("evt"), number) for number in range(3)]
    assert [(placed.sequence, placed.added) for placed in imports.append(conversation, drafts)] == [
        (2, True),
        (3, True),
        (4, True),
    ]
    world.clock.advance(1000)
    other = [record(ledger, draft.event_id, "mapped otherwise") for draft in drafts]
    assert [(placed.sequence, placed.added) for placed in imports.append(conversation, other)] == [
        (2, False),
        (3, False),
        (4, False),
    ]


def test_only_what_is_new_is_added(ledger, imports):
    conversation = imports.conversation("pi:1", "pi")
    drafts = [record(ledger, ledger.ports.new_id("evt"), number) for number in range(3)]
    imports.append(conversation, drafts[:2])
    assert [placed.added for placed in imports.append(conversation, drafts)] == [False, False, True]
    assert len(types_of(ledger, conversation.stream_id)) == 4


def test_an_id_that_comes_twice_is_added_once(ledger, imports):
    conversation = imports.conversation("pi:1", "pi")
    draft = record(ledger, ledger.ports.new_id("evt"), 1)
    placed = imports.append(conversation, [draft, draft])
    assert [(one.sequence, one.added) for one in placed] == [(2, True), (2, False)]


def test_another_import_that_was_quicker_is_looked_at_again(ledger, imports, monkeypatch):
    conversation = imports.conversation("pi:1", "pi")
    drafts = [record(ledger, ledger.ports.new_id("evt"), number) for number in range(2)]
    append = ledger.ports.append
    other = LedgerImports(ledger)

    def quicker(unit, claim=None):
        monkeypatch.setattr(ledger.ports, "append", append)
        other.append(conversation, drafts[:1])
        return append(unit, claim)

    monkeypatch.setattr(ledger.ports, "append", quicker)
    assert [placed.added for placed in imports.append(conversation, drafts)] == [False, True]


def test_nothing_of_a_call_is_recorded_when_one_draft_is_refused(ledger, imports):
    conversation = imports.conversation("pi:1", "pi")
    good = record(ledger, ledger.ports.new_id("evt"), 1)
    bad = record(ledger, ledger.ports.new_id("evt"), 2)
    bad.data = {"kind": "free text is refused"}
    with pytest.raises(PublicFieldRefused):
        imports.append(conversation, [good, bad])
    assert types_of(ledger, conversation.stream_id) == ["conversation.opened"]


def test_a_race_that_never_ends_is_given_up_with_its_reason(ledger, imports, monkeypatch):
    conversation = imports.conversation("pi:1", "pi")

    def always(unit, claim=None):
        raise PartialDuplicate("somebody was quicker")

    monkeypatch.setattr(ledger.ports, "append", always)
    with pytest.raises(PartialDuplicate):
        imports.append(conversation, [record(ledger, ledger.ports.new_id("evt"), 1)])
