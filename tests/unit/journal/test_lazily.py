"""Work that is still to be done when a tool returns is journaled when it ends; odd tools, errors and journals harm no turn."""

from __future__ import annotations

import asyncio
import threading

import pytest

from counterfoil.journal import TurnJournals
from counterfoil.journal.digests import ITEMS_MAX, payload_hash
from counterfoil.journal.event import TurnNote
from counterfoil.journal.memory import MemoryJournal
from counterfoil.journal.writer import JournalWriter, TurnLane


@pytest.fixture
def made():
    journals = TurnJournals(MemoryJournal())
    yield journals
    journals.close()


def told(made, turn):
    made.flush()
    return [event.summary for event in made.journal.events("default", turn.turn_id)]


def calls(made, turn, word="tool="):
    return [summary for summary in told(made, turn) if word in summary]


def test_a_generator_is_recorded_by_how_it_ends(made):
    def rows():
        yield 1
        raise ConnectionError

    with made.begin("agent") as turn:
        found = turn.tool(rows)()
        assert next(found) == 1
        assert calls(made, turn) == []
        with pytest.raises(ConnectionError):
            next(found)
    (summary,) = calls(made, turn)
    assert "status=error" in summary
    assert "error=ConnectionError" in summary


def test_a_generator_is_sent_to_thrown_at_and_gives_its_value_as_without_the_journal(made):
    def talk():
        heard = yield "what?"
        try:
            yield heard
        except KeyError:
            yield "caught"
        return "bye"

    def held():
        return (yield from turn.tool(talk)())

    with made.begin("agent") as turn:
        speaking = held()
        said = [next(speaking), speaking.send("hello"), speaking.throw(KeyError())]
        with pytest.raises(StopIteration) as end:
            next(speaking)
    assert (said, end.value.value) == (["what?", "hello", "caught"], "bye")
    assert "status=ok" in calls(made, turn)[0]


def test_an_async_generator_is_recorded_by_how_it_ends_and_hears_what_it_is_sent(made):
    async def rows():
        heard = yield 1
        try:
            yield heard
        except KeyError:
            yield "caught"
        raise ConnectionError

    async def use(turn):
        found = turn.tool(rows)()
        got = [await found.asend(None), await found.asend("hello"), await found.athrow(KeyError())]
        with pytest.raises(ConnectionError):
            await found.asend(None)
        return got

    with made.begin("agent") as turn:
        assert asyncio.run(use(turn)) == [1, "hello", "caught"]
    assert "error=ConnectionError" in calls(made, turn)[0]


def test_a_generator_that_somebody_has_had_enough_of_is_closed_and_no_failure(made):
    closed = []

    async def rows():
        try:
            while True:
                yield 1
        finally:
            closed.append("async")

    def lines():
        try:
            while True:
                yield 1
        finally:
            closed.append("sync")

    async def use(turn):
        found = turn.tool(rows)()
        await found.asend(None)
        await found.aclose()

    with made.begin("agent") as turn:
        asyncio.run(use(turn))
        found = turn.tool(lines)()
        next(found)
        found.close()
    assert closed == ["async", "sync"]
    assert ["status=ok" in summary for summary in calls(made, turn)] == [True, True]


@pytest.mark.parametrize("outcome", ["ok", "error"])
def test_a_coroutine_that_a_plain_function_gives_is_recorded_when_it_was_awaited(made, outcome):
    async def inner():
        if outcome == "error":
            raise ConnectionError
        return 5

    def pay():
        return inner()

    with made.begin("agent") as turn:
        waiting = turn.tool(pay)()
        assert calls(made, turn) == []
        if outcome == "ok":
            assert asyncio.run(waiting) == 5
        else:
            with pytest.raises(ConnectionError):
                asyncio.run(waiting)
    assert f"status={outcome}" in calls(made, turn)[0]


def test_a_model_that_streams_is_recorded_when_its_last_chunk_came_or_it_broke_off(made):
    def chunks():
        yield "a"
        raise ConnectionError

    with made.begin("agent") as turn:
        streaming = turn.model(chunks, provider="p", model="m")()
        assert next(streaming) == "a"
        with pytest.raises(ConnectionError):
            next(streaming)
    (summary,) = calls(made, turn, "route=")
    assert "status=error" in summary


class Unbound:
    """As a proxy that is bound to nothing: it raises however it is looked at."""

    @property
    def __class__(self):
        raise RuntimeError


def test_a_result_that_cannot_be_looked_at_is_a_call_all_the_same(made):
    with made.begin("agent") as turn:
        turn.tool(Unbound, name="pay")()
    assert "tool=pay status=ok" in calls(made, turn)[0]


def test_an_event_that_could_not_be_made_is_counted_and_leaves_a_gap(made):
    with made.begin("agent") as turn:
        turn.missed(RuntimeError())
        turn.guard("g", "pass")
    assert "gap=1" in calls(made, turn, "guard=g")[0]
    assert made.lost == 1


def test_a_status_that_is_no_text_still_ends_the_turn(made):
    with made.begin("agent") as turn:
        turn.commit(5)
    assert calls(made, turn, "status=") == ["status=error:error"]


class Odd(type):
    @property
    def __name__(cls):
        raise RuntimeError


class OddError(Exception, metaclass=Odd):
    pass


def test_an_error_whose_class_will_not_tell_its_name_leaves_the_turn_as_itself(made):
    with pytest.raises(OddError), made.begin("agent") as turn:
        raise OddError
    assert calls(made, turn, "status=") == ["status=error:OddError"]


class Endless(dict):
    def __iter__(self):
        raise AssertionError("the application's code was run")

    items = keys = values = __iter__


def test_digests_run_no_code_of_the_application_and_have_an_end():
    assert payload_hash({"a": Endless()}) is None
    assert payload_hash(Endless()) is None
    assert payload_hash(list(range(ITEMS_MAX))) is not None
    assert payload_hash(list(range(ITEMS_MAX + 1))) is None
    assert payload_hash([[0] * 200] * 51) is None


def test_a_synchronous_journal_that_does_not_answer_is_waited_for_once_until_it_does(monkeypatch):
    class Stuck(MemoryJournal):
        def __init__(self):
            super().__init__()
            self.free = threading.Event()

        def append(self, notes):
            self.free.wait(20)
            return super().append(notes)

    stuck = Stuck()
    writer = JournalWriter(stuck, synchronous=True, synchronous_s=0.01)
    waits = []
    real = writer._done.wait_for
    monkeypatch.setattr(writer._done, "wait_for", lambda *args: waits.append(1) or real(*args))
    lane = TurnLane()
    note = TurnNote("default", "trn_01J9ZC3Y3V7W2R5T8QK4M6N0PT", "agent", "GUARD", "guard=g outcome=pass", 1)
    for _ in range(5):
        assert writer.put(lane, note)
    assert len(waits) == 1
    stuck.free.set()
    monkeypatch.undo()
    assert writer.flush()
    assert not writer._behind
    assert writer.close()


@pytest.mark.parametrize("kind", [asyncio.CancelledError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_whatever_a_journal_raises_the_next_event_is_written(kind):
    class Raising(MemoryJournal):
        raised = False

        def append(self, notes):
            if not self.raised:
                self.raised = True
                raise kind
            return super().append(notes)

    journals = TurnJournals(Raising())
    with journals.begin("agent") as turn:
        assert journals.flush()
        turn.guard("g", "pass")
    assert journals.flush()
    assert journals.lost == 1
    assert any("gap=1" in event.summary for event in journals.journal.events("default", turn.turn_id))
    assert journals.close()


# ---- with the journal on, everything is as without it -------------------------------------------------------------


class Evasive(Exception):
    @property
    def __class__(self):
        raise ZeroDivisionError


def evades():
    yield 1
    raise Evasive


@pytest.mark.parametrize("way", ["stream", "tool", "model", "block"])
def test_an_error_that_will_not_be_looked_at_leaves_as_itself(made, way):
    with pytest.raises(Exception) as left, made.begin("agent") as turn:  # noqa: PT011 - `raises` would ask the error
        match way:
            case "stream":
                list(turn.stream(evades()))
            case "tool":
                list(turn.tool(evades)())
            case "model":
                list(turn.model(evades, provider="p", model="m")())
            case _:
                raise Evasive
    assert type(left.value) is Evasive
    assert "status=error:Evasive" in calls(made, turn, "status=error:")[0]


def test_a_stream_is_sent_to_and_thrown_at_as_what_it_comes_from(made):
    def talk():
        heard = yield "what?"
        try:
            yield heard
        except KeyError:
            yield "caught"

    with made.begin("agent") as turn:
        stream = turn.stream(talk())
        assert [next(stream), stream.send("hello"), stream.throw(KeyError())] == ["what?", "hello", "caught"]
        assert list(stream) == []
        assert not hasattr(turn.stream(iter([1])), "send")
    assert "status=completed" in calls(made, turn, "status=")[0]


def test_an_async_stream_is_sent_to_and_thrown_at_as_what_it_comes_from(made):
    async def talk():
        heard = yield "what?"
        try:
            yield heard
        except KeyError:
            yield "caught"

    async def use(turn):
        stream = turn.astream(talk())
        got = [await anext(stream), await stream.asend("hello"), await stream.athrow(KeyError())]
        return got + [chunk async for chunk in stream]

    with made.begin("agent") as turn:
        assert asyncio.run(use(turn)) == ["what?", "hello", "caught"]
    assert "status=completed" in calls(made, turn, "status=")[0]


class Sdk:
    """As a provider's stream: chunks, attributes and a block."""

    request_id = "req_1"

    def __init__(self):
        self.blocks = []

    def __iter__(self):
        return iter(["a", "b"])

    def __enter__(self):
        self.blocks.append("in")
        return self

    def __exit__(self, *left):
        self.blocks.append("out")


def test_a_provider_s_stream_keeps_its_attributes_and_its_block(made):
    source = Sdk()
    with made.begin("agent") as turn, turn.stream(source) as stream:
        assert stream.request_id == "req_1"
        got = list(stream)
    assert (source.blocks, got) == (["in", "out"], ["a", "b"])
    assert "status=completed" in calls(made, turn, "status=")[0]


def test_a_stream_whose_block_is_left_before_its_end_is_a_cancelled_turn(made):
    with made.begin("agent") as turn, turn.stream(Sdk()) as stream:
        next(stream)
    assert "status=cancelled" in calls(made, turn, "status=")[0]


class OwnText(str):
    __slots__ = ()

    def encode(self, *_):
        raise AssertionError("the application's code was run")


def test_a_text_of_a_class_of_its_own_is_digested_as_its_characters():
    assert payload_hash(OwnText("abc")) == payload_hash("abc")


def test_a_text_beyond_bounds_has_no_digest(monkeypatch):
    monkeypatch.setattr("counterfoil.journal.digests.SIZE_MAX", 10)
    assert payload_hash("x" * 10) is not None
    assert payload_hash("x" * 11) is None
    assert payload_hash(["x" * 6, {"a": "y" * 6}]) is None
    assert payload_hash({"x" * 6: b"y" * 6}) is None
