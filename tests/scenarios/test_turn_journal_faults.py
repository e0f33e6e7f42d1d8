"""A failing, slow, full or missing journal never changes, holds up or fails a turn: faults at every call, for every depth."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import contextmanager

import pytest

from counterfoil.journal import JournalSettings, MemoryJournal, ResultMarkers, TurnJournals
from counterfoil.journal import recorder as recorder_module
from counterfoil.journal import tools as tools_module
from counterfoil.journal import turns as turns_module
from tests.journals import NOW_MS, Failing, Gated

FAULTS = (OSError("disk"), RuntimeError("bug"), MemoryError(), RecursionError(), ConnectionError("down"))


class Agent:
    """A small agent: a guarded message, a model, tools that work, break and wait, a check, an answer; streamed too."""

    def __init__(self, journals):
        self.journals = journals
        self.markers = journals.markers
        self.seen = []

    def lookup(self, order):
        self.seen.append(("lookup", order))
        return {"order": order, "state": "lost"}

    def broken(self):
        raise ValueError("no such order")

    def parked(self):
        return self.markers.register("Please wait.", "approval_parked", request="apr-7")

    def delegate(self, question):
        with self.journals.begin("research", message=question) as turn:
            return turn.answer(f"looked for {question}")

    def serve(self, message):
        """The sync depth."""
        with self.journals.begin(
            "support", message=message, session="s", decided={"apr-1": "denied"}
        ) as turn:
            turn.guard("tone", "pass", reason="fine")
            model = turn.model(lambda text: f"call for {text}", provider="acme", model="acme-1")
            lookup, broken, parked, delegate = turn.tools(
                [self.lookup, self.broken, self.parked, self.delegate]
            )
            said = [model(message), lookup("O-1"), parked(), delegate("why")]
            try:
                broken()
            except ValueError as error:
                said.append(str(error))
            turn.verify("addresses", ok=True)
            turn.failed_over(ConnectionError("down"), message)
            said.append(turn.answer("done"))
            return said

    def stream(self, message):
        """The streamed depth."""
        turn = self.journals.begin("support", message=message)
        return list(turn.stream(iter(["On ", "its way."])))

    async def aserve(self, message):
        """The async depth."""
        async with self.journals.begin("support", message=message) as turn:

            async def fetch(order):
                return {"order": order}

            async def chunks():
                yield "a"

            found = await turn.tool(fetch)("O-1")
            return [found, [chunk async for chunk in turn.astream(chunks())]]

    def everything(self):
        """What all depths give, whatever the journal does."""
        return [self.serve("hello"), self.stream("hello"), asyncio.run(self.aserve("hello")), list(self.seen)]


def expected():
    return Agent(TurnJournals(None, JournalSettings())).everything()


def made(journal, **options):
    return TurnJournals(journal, JournalSettings(enabled=True), **({"now_ms": lambda: NOW_MS} | options))


def test_the_agent_gives_the_same_with_a_journal_and_without():
    journals = made(MemoryJournal())
    assert Agent(journals).everything() == expected()
    assert journals.flush(60)
    assert len(journals.journal.turns("default")) == 4
    assert journals.lost == 0


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize("mode", ["queued", "synchronous"])
def test_a_journal_that_fails_changes_nothing(fault, mode):
    journals = made(Failing(fault), mode=mode)
    assert Agent(journals).everything() == expected()
    assert journals.flush(60)
    assert journals.lost > 0


class FailingAt(MemoryJournal):
    """Fails at one append and at no other."""

    def __init__(self, number):
        super().__init__()
        self.calls = itertools.count()
        self.number = number

    def append(self, notes):
        if next(self.calls) == self.number:
            raise OSError("disk")
        return super().append(notes)


def test_a_journal_that_fails_once_at_any_of_its_calls_changes_nothing_and_shows_the_gap():
    numbers = itertools.count()
    while True:
        journals = made(FailingAt(next(numbers)), mode="synchronous", capacity=1000)
        assert Agent(journals).everything() == expected()
        assert journals.flush(60)
        if journals.lost == 0:
            break
        turns = [
            journals.journal.events("default", info.turn_id) for info in journals.journal.turns("default")
        ]
        told = [event for events in turns for event in events if "gap=" in event.summary]
        # A COMMIT that was lost has nothing after it that could say so: an attempt is left without its end.
        ends = [[event.type for event in events].count("COMMIT") for events in turns]
        attempts = [[event.type for event in events].count("INTAKE") for events in turns]
        assert told or sum(ends) < sum(attempts)


def test_a_journal_that_answers_to_nobody_holds_nothing_up():
    journal = Gated()
    journals = made(journal)
    assert Agent(journals).everything() == expected()
    assert journals.journal.turns("default") == []
    journal.gate.set()
    assert journals.flush(60)
    assert len(journals.journal.turns("default")) == 4


def test_a_synchronous_journal_that_answers_to_nobody_is_waited_for_no_longer_than_its_bound(monkeypatch):
    waits = []
    journal = Gated()
    journals = made(journal, mode="synchronous")
    done = journals.writer._done
    monkeypatch.setattr(done, "wait_for", lambda ready, patience_s: waits.append(patience_s) or ready())
    assert Agent(journals).everything() == expected()
    assert set(waits) == {0.25}
    monkeypatch.undo()
    journal.gate.set()
    assert journals.flush(60)


@pytest.mark.parametrize("capacity", [0, 1, 3])
def test_a_queue_that_is_full_holds_nothing_up(capacity):
    journal = Gated()
    journals = made(journal, capacity=capacity)
    assert Agent(journals).everything() == expected()
    assert journals.lost > 0
    journal.gate.set()
    assert journals.flush(60)


def test_no_journal_changes_nothing():
    assert Agent(made(None)).everything() == expected()


def test_a_journal_closed_under_a_turn_changes_nothing():
    journals = made(MemoryJournal())
    assert journals.close(60)
    assert Agent(journals).everything() == expected()


# ---- faults inside the recorder itself, at every call of every part it is made of -----------------------------------

PARTS = {
    "the digest of a payload": (recorder_module, "payload_hash"),
    "the summary": (recorder_module, "summary"),
    "the digest of arguments": (tools_module, "arguments_hash"),
    "the digest of a result": (tools_module, "result_digest"),
    "the id of a turn": (turns_module, "make_id"),
    "the digest of a session": (turns_module, "session_digest"),
    "the tenant": (turns_module, "current_tenant"),
    "the turn around it": (turns_module, "current_turn"),
    "the name of an agent": (turns_module, "agent_name"),
}


@contextmanager
def breaking(monkeypatch, module, name, number):
    """The ``number``-th call of a function raises; says whether it came to that."""
    real, calls, broke = getattr(module, name), itertools.count(), []

    def call(*args, **kwargs):
        if next(calls) == number:
            broke.append(number)
            raise RuntimeError("bug")
        return real(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(module, name, call)
        yield broke


@pytest.mark.parametrize("part", PARTS)
def test_a_fault_in_the_recorder_changes_nothing_at_any_call_of(part, monkeypatch):
    wanted = expected()
    for number in itertools.count():
        journals = made(MemoryJournal())
        with breaking(monkeypatch, *PARTS[part], number) as broke:
            assert Agent(journals).everything() == wanted
        journals.close(60)
        if not broke:
            break
    assert number > 0


@pytest.mark.parametrize("name", ["find"])
def test_a_fault_in_the_markers_changes_nothing(name, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("bug")

    wanted = expected()
    monkeypatch.setattr(ResultMarkers, name, broken)
    assert Agent(made(MemoryJournal())).everything() == wanted


def test_a_clock_that_fails_changes_nothing():
    def broken():
        raise OSError("no clock")

    assert Agent(made(MemoryJournal(), now_ms=broken)).everything() == expected()


class Hostile:
    """Raises whatever is asked of it."""

    def __getattribute__(self, name):
        raise RuntimeError("hostile")

    def __eq__(self, other):
        raise RuntimeError("hostile")

    __hash__ = None


def test_values_that_raise_when_they_are_looked_at_go_through():
    journals = made(MemoryJournal())
    thing = Hostile()
    with journals.begin("support", message=thing) as turn:
        assert turn.tool(lambda value: value, name="same")(thing) is thing
        assert turn.answer(thing) is thing
        chunks = list(turn.stream([thing]))
    assert chunks[0] is thing
    assert journals.flush(60)


def test_an_exception_whose_class_is_odd_goes_through():
    journals = made(MemoryJournal())
    odd = type("Odd\n\x1b[2J" + "x" * 500, (Exception,), {})
    with pytest.raises(odd), journals.begin("support") as turn:
        raise odd
    assert journals.flush(60)
    (info,) = journals.journal.turns("default")
    assert (info.turn_id, info.status) == (turn.turn_id, "error:error")
