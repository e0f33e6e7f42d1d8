from __future__ import annotations

import asyncio
import gc
import hashlib

import pytest

from tests.journals import journals, stages, written


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def ended(made, turn):
    last = written(made, turn.turn_id)[-1]
    return stages([last])[0], last.payload_hash


def chunks(error=None):
    yield "On "
    yield "its way."
    if error is not None:
        raise error


async def achunks(error=None):
    for chunk in chunks(error):
        yield chunk


def test_a_stream_commits_on_its_last_chunk_with_the_digest_of_all():
    made = journals()
    turn = made.begin("support")
    assert list(turn.stream(chunks())) == ["On ", "its way."]
    assert ended(made, turn) == ("COMMIT status=completed", sha("On its way."))


def test_a_stream_that_breaks_commits_its_error_and_raises_it():
    made = journals()
    turn = made.begin("support")
    with pytest.raises(ConnectionError):
        list(turn.stream(chunks(ConnectionError("down"))))
    assert ended(made, turn) == ("COMMIT status=error:ConnectionError", None)


def test_a_stream_that_is_closed_is_cancelled_and_closes_what_it_comes_from():
    made = journals()
    turn = made.begin("support")
    source = chunks()
    stream = turn.stream(source)
    next(stream)
    stream.close()
    assert ended(made, turn) == ("COMMIT status=cancelled", None)
    assert list(source) == []


@pytest.mark.parametrize("taken", [0, 1])
def test_a_stream_that_is_let_go_is_cancelled(taken):
    made = journals()
    turn = made.begin("support")
    stream = turn.stream(chunks())
    for _ in range(taken):
        next(stream)
    del stream
    gc.collect()
    assert ended(made, turn) == ("COMMIT status=cancelled", None)


def test_a_stream_handed_out_of_its_block_is_what_commits():
    made = journals()
    with made.begin("support") as turn:
        stream = turn.stream(chunks())
    assert [event.type for event in written(made, turn.turn_id)] == ["INTAKE"]
    list(stream)
    assert ended(made, turn)[0] == "COMMIT status=completed"


def test_a_stream_reads_text_out_of_its_chunks():
    made = journals()
    turn = made.begin("support")
    list(turn.stream([{"t": "a"}, {"t": "b"}], text=lambda chunk: chunk["t"]))
    assert ended(made, turn) == ("COMMIT status=completed", sha("ab"))


def test_chunks_without_text_go_through_and_leave_no_digest():
    made = journals()
    turn = made.begin("support")
    assert list(turn.stream([1, 2], text=lambda chunk: chunk.nothing)) == [1, 2]
    assert ended(made, turn) == ("COMMIT status=completed", None)


def test_async_streams_are_the_same():
    made = journals()

    async def body():
        whole, broken, closed = made.begin("a"), made.begin("a"), made.begin("a")
        assert [chunk async for chunk in whole.astream(achunks())] == ["On ", "its way."]
        with pytest.raises(ConnectionError):
            async for _ in broken.astream(achunks(ConnectionError("down"))):
                pass
        stream = closed.astream(achunks())
        await anext(stream)
        await stream.aclose()
        return whole, broken, closed

    whole, broken, closed = asyncio.run(body())
    assert ended(made, whole) == ("COMMIT status=completed", sha("On its way."))
    assert ended(made, broken)[0] == "COMMIT status=error:ConnectionError"
    assert ended(made, closed)[0] == "COMMIT status=cancelled"


def test_a_task_cancelled_while_it_reads_a_stream_is_a_cancelled_turn():
    made = journals()

    async def never():
        yield "a"
        await asyncio.Event().wait()

    async def body():
        turn = made.begin("support")

        async def read():
            async for _ in turn.astream(never()):
                reached.set()

        reached = asyncio.Event()
        task = asyncio.create_task(read())
        await reached.wait()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return turn

    assert ended(made, asyncio.run(body()))[0] == "COMMIT status=cancelled"


def test_an_async_stream_that_is_let_go_is_cancelled():
    made = journals()

    async def body():
        turn = made.begin("support")
        stream = turn.astream(achunks())
        await anext(stream)
        del stream
        gc.collect()
        return turn

    assert ended(made, asyncio.run(body()))[0] == "COMMIT status=cancelled"
