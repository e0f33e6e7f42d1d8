"""Values that raise whatever is asked of them, at every call of a recorder: none of it reaches the turn, on or off."""

from __future__ import annotations

import sys
import types
import uuid

import pytest

from counterfoil.errors import InvalidForm
from counterfoil.journal import (
    JournalSettings,
    MemoryJournal,
    TurnJournals,
    check_chain,
    journaled,
    open_journal,
)
from counterfoil.journal.digests import arguments_hash
from counterfoil.journal.off import NO_TURN
from counterfoil.journal.recorder import status_of
from tests.journals import NOW_MS, journals, stages, written


class Evil:
    """Raises at everything but a call."""

    def __getattribute__(self, name):
        raise RuntimeError(name)

    def __str__(self):
        raise RuntimeError("str")

    def __bool__(self):
        raise RuntimeError("bool")

    def __eq__(self, other):
        raise RuntimeError("eq")

    def __hash__(self):
        raise RuntimeError("hash")

    def __gt__(self, other):
        raise RuntimeError("gt")

    def __call__(self):
        return 7


EVIL = Evil()

CALLS = {
    "intake": lambda turn: turn.intake(EVIL, parent=EVIL, attempt=EVIL),
    "guard": lambda turn: turn.guard(EVIL, EVIL, reason=EVIL, side=EVIL),
    "model_call": lambda turn: turn.model_call(
        EVIL, EVIL, route=EVIL, status=EVIL, ms=EVIL, error=KeyError()
    ),
    "tool_call": lambda turn: turn.tool_call(EVIL, EVIL, arguments=EVIL, result=EVIL, kind=EVIL, ms=EVIL),
    "approval_pending": lambda turn: turn.approval_pending(EVIL, tool=EVIL),
    "approval_decided": lambda turn: turn.approval_decided(EVIL, EVIL),
    "verify": lambda turn: turn.verify(EVIL, EVIL, found=EVIL),
    "failed_over": lambda turn: turn.failed_over(KeyError(), EVIL, attempt=EVIL),
    "answer": lambda turn: turn.answer(EVIL),
    "commit": lambda turn: turn.commit(EVIL, EVIL),
    "leaving twice": lambda turn: turn.__exit__(None, None, None),
}


@pytest.mark.parametrize("name", CALLS)
def test_no_value_reaches_the_turn(name):
    made = journals()
    turn = made.begin("support", message=EVIL)
    CALLS[name](turn)
    turn.commit()
    events = written(made, turn.turn_id)
    assert check_chain(events).intact
    assert events[-1].type == "COMMIT" or made.lost


@pytest.mark.parametrize("name", CALLS)
def test_no_value_reaches_the_turn_while_the_journal_is_off(name):
    CALLS[name](NO_TURN)


def test_a_turn_that_is_not_journaled_has_all_that_one_has():
    NO_TURN.approval_decided("apr-7", "perhaps")
    NO_TURN.missed(KeyError())
    public = [name for name in dir(NO_TURN) if not name.startswith("_")]
    assert all(getattr(NO_TURN, name) is not None for name in public)


@pytest.mark.parametrize("around", ["tool", "named tool", "model"])
def test_a_tool_that_will_not_be_looked_at_is_called_all_the_same(around):
    made = journals()
    with made.begin("support") as turn:
        wrapped = {
            "tool": lambda: turn.tool(EVIL),
            "named tool": lambda: turn.tool(EVIL, name=EVIL),
            "model": lambda: turn.model(EVIL, provider="p", model="m"),
        }[around]()
        assert wrapped() == 7
    assert next(event.type for event in written(made, turn.turn_id)) == "INTAKE"


@pytest.mark.parametrize(
    "request_id",
    [
        "550e8400-e29b-41d4-a716-446655440000",
        uuid.UUID(int=7).hex,
        "appr_5aa47bbb2047",
        "12345678",
        "r 1",
        "r" * 300,
    ],
)
def test_both_turns_of_an_approval_name_the_same_request_whatever_its_form(request_id):
    made = journals()
    with made.begin("support") as parked:
        parked.approval_pending(request_id, tool="refund")
    with made.begin("support", decided={request_id: "completed"}) as decided:
        pass
    words = [
        word
        for turn in (parked, decided)
        for event in written(made, turn.turn_id)
        if event.type == "APPROVAL"
        for word in event.summary.split()
        if word.startswith("request=")
    ]
    assert words[0] == words[1] != "request=***"
    assert request_id not in words[0]


def test_an_approval_request_with_a_readable_name_is_named():
    made = journals()
    with made.begin("support", decided={"apr-7": "denied"}) as turn:
        pass
    assert "APPROVAL decision=decided:denied request=apr-7" in stages(written(made, turn.turn_id))


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "sync"},
        {"capacity": -1},
        {"capacity": True},
        {"session_key": "key"},
        {"markers": {"text": "guard"}},
        {"settings": {"enabled": True}},
        {"journal": "turns.db"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_what_is_made_wrongly_is_said_at_once(wrong):
    with pytest.raises(InvalidForm) as refused:
        TurnJournals(**{"journal": MemoryJournal(), **wrong})
    assert refused.value.fields["argument"] == next(iter(wrong))


@pytest.mark.parametrize("place", [None, 5, "", b"turns.db", "mysql://user:geheim@host/db"])
def test_what_is_no_place_is_said_at_once(place):
    with pytest.raises(InvalidForm) as refused:
        open_journal(place)
    assert "geheim" not in str(refused.value)


def test_a_clock_of_fractions_gives_whole_milliseconds(tmp_path):
    made = TurnJournals(
        open_journal(tmp_path / "turns.db"), JournalSettings(enabled=True), now_ms=lambda: NOW_MS + 0.75
    )
    with made.begin("support") as turn:
        pass
    assert made.flush(60)
    events, chain = made.journal.checked("default", turn.turn_id)
    assert [event.created_at_ms for event in events] == [NOW_MS, NOW_MS]
    assert chain.intact
    made.close()


def test_an_agent_whose_name_is_no_name_does_not_fill_the_journal():
    made = journals()
    turns = [made.begin("a" * size) for size in (200, 10_000_000, 10_000_001)]
    names = [written(made, turn.turn_id)[0].agent_id for turn in turns]
    assert names[0] == "a" * 200
    assert len(set(names)) == 3
    assert max(map(len, names)) < 220


@pytest.mark.parametrize("streamed", ["stream", "astream"])
def test_what_is_no_stream_leaves_the_turn_to_its_block(streamed):
    made = journals()
    with made.begin("support") as turn:
        with pytest.raises(TypeError):
            getattr(turn, streamed)(5)
        turn.answer("a")
    assert stages(written(made, turn.turn_id))[1:] == ["COMMIT status=completed"]


class Tools:
    """Tools as methods."""

    @journaled
    def look_up(self, order):
        return order

    @staticmethod
    def at_hand(order):
        return order


def test_the_object_of_a_method_is_no_argument():
    made = journals()
    with made.begin("support") as turn:
        Tools().look_up("O-1042")
        turn.tool(Tools().look_up.__wrapped__.__get__(Tools()))(order="O-1042")
    hashes = [event.payload_hash for event in written(made, turn.turn_id) if event.type == "TOOL_CALL"]
    assert hashes[0] == hashes[1] == arguments_hash(Tools.at_hand, ("O-1042",), {})


def test_a_function_whose_argument_is_called_self_has_it_hashed():
    def tool(self):
        return self

    assert arguments_hash(tool, ("a",), {}) != arguments_hash(tool, ("b",), {})


def test_trio_cancels_with_a_class_of_its_own(monkeypatch):
    trio = types.ModuleType("trio")
    trio.Cancelled = type("Cancelled", (BaseException,), {})
    assert status_of(trio.Cancelled()) == "error:Cancelled"
    monkeypatch.setitem(sys.modules, "trio", trio)
    assert status_of(trio.Cancelled()) == "cancelled"
