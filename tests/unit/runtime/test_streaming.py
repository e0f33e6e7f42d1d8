"""Streams: chunks are handed on as they come, and the record keeps what was delivered, however it ended."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

import counterfoil
from counterfoil.effects import Retry
from counterfoil.errors import InputError, ModelFailed, RunClosed
from tests.running import facts, types_of, vanish

WORDS = ["Your ", "order ", "is ", "on ", "its ", "way."]


def never(request):
    pytest.fail("a recorded stream was asked for again")


def streaming(*chunks, then=None):
    """A model that streams, and raises at the end if it is told to."""

    def model(request):
        yield from chunks
        if then is not None:
            raise then

    return model


def partial(ledger):
    """What was kept of the stream that failed, and its public fields."""
    (event,) = ledger.events("c", types=["provider.failed"])
    return event.content.get("partial"), event.data


# ---- whole ---------------------------------------------------------------------------------------------------------


def test_chunks_are_handed_on_as_they_come_and_the_whole_is_recorded_at_the_end(ledger):
    seen = []

    def model(request):
        for word in WORDS:
            seen.append(("sent", word))
            yield word

    with ledger.run("a", conversation="c") as run:
        stream = run.stream(model, "Where is my order?", name="m")
        for chunk in stream:
            seen.append(("read", chunk))
            assert not facts(ledger, "c", "provider.responded")
        assert stream.response == counterfoil.Response("".join(WORDS))
    assert seen == [(what, word) for word in WORDS for what in ("sent", "read")]
    (responded,) = facts(ledger, "c", "provider.responded")
    assert responded["chunks"] == 6
    assert types_of(ledger, "c")[3:-1] == [
        "step.started",
        "provider.message_recorded",
        "provider.requested",
        "provider.responded",
        "step.finished",
    ]


def test_the_request_is_durable_before_the_first_chunk_is_asked_for(ledger):
    def model(request):
        yield ledger.request(request.call_id).body == request.body

    with ledger.run("a", conversation="c") as run, pytest.raises(ModelFailed, match="streamed bool"):
        list(run.stream(model, "q"))


def test_a_resumed_run_gets_the_recorded_chunks_and_the_response_without_a_call(world, ledger):
    chunks = ["a", {"tool_calls": [{"name": "refund"}]}, "b", {"usage": {"input_tokens": 7}}]
    vanish(
        ledger.run("a", conversation="c", dedupe="1"),
        lambda run: list(run.stream(streaming(*chunks), "q", name="m")),
    )
    world.expire_leases()
    with world.worker().run("a", conversation="c", dedupe="1") as again:
        stream = again.stream(never, "q", name="m")
        assert list(stream) == chunks
        assert stream.response == counterfoil.Response("ab", tool_calls=[{"name": "refund"}], input_tokens=7)
        assert again.ask(streaming("new"), "q2", name="m").text == "new"


def test_a_response_at_the_end_of_a_stream_says_the_whole(ledger):
    whole = counterfoil.Response(finish="end_turn", id="resp_1", input_tokens=3, output_tokens=2, cost="0.01")
    with ledger.run("a", conversation="c", dedupe="1") as run:
        stream = run.stream(streaming("Hel", "lo", whole), "q", name="m")
        assert list(stream) == ["Hel", "lo"]
        assert (stream.response.text, stream.response.id) == ("Hello", "resp_1")
    with ledger.run("a", conversation="c", dedupe="1") as again:
        assert list(again.stream(never, "q", name="m")) == ["Hel", "lo"]
    assert facts(ledger, "c", "run.finished")[0]["output_tokens"] == 2


def test_half_characters_at_the_edges_of_chunks_come_back_as_they_were(ledger):
    chunks = ["\ud83d", "\ude00", "x", "é"]
    with ledger.run("a", conversation="c", dedupe="1") as run:
        assert list(run.stream(streaming(*chunks), "q", name="m")) == chunks
    with ledger.run("a", conversation="c", dedupe="1") as again:
        assert list(again.stream(never, "q", name="m")) == chunks


def test_a_model_that_answers_at_once_is_a_stream_of_its_text(ledger):
    with ledger.run("a", conversation="c") as run:
        stream = run.stream(lambda request: "at once", "q")
        assert (list(stream), stream.response.text) == (["at once"], "at once")


def test_ask_reads_a_stream_to_its_end(ledger):
    with ledger.run("a", conversation="c", dedupe="1") as run:
        assert run.ask(streaming(*WORDS), "q", name="m").text == "".join(WORDS)
    assert facts(ledger, "c", "provider.responded")[0]["chunks"] == 6
    with ledger.run("a", conversation="c", dedupe="1") as again:
        assert list(again.stream(never, "q", name="m")) == WORDS


def test_a_stream_has_no_response_before_its_end(ledger):
    with ledger.run("a", conversation="c") as run:
        stream = run.stream(streaming("a", "b"), "q")
        next(stream)
        with pytest.raises(InputError):
            _ = stream.response


def test_a_stream_that_is_never_read_asks_nothing(ledger):
    with ledger.run("a", conversation="c") as run:
        run.stream(never, "q")
    assert not facts(ledger, "c", "provider.requested")


# ---- broken off ----------------------------------------------------------------------------------------------------


def test_a_stream_that_fails_keeps_what_it_delivered_and_fails_the_same_way_on_resume(world, ledger):
    def fails(run):
        got = []
        with pytest.raises(ModelFailed, match="reset"):
            got.extend(run.stream(streaming("a", "b", then=ConnectionError("reset")), "q", name="m"))
        assert got == ["a", "b"]

    vanish(ledger.run("a", conversation="c", dedupe="1"), fails)
    kept, data = partial(ledger)
    assert (kept["text"], kept["chunks"], data["chunks"], data["retryable"]) == ("ab", [1, 1], 2, True)
    assert len(kept["sha256"]) == 64
    world.expire_leases()
    with world.worker().run("a", conversation="c", dedupe="1") as again:
        got = []
        with pytest.raises(ModelFailed, match="reset"):
            got.extend(again.stream(never, "q", name="m"))
        assert got == ["a", "b"]


def test_a_stream_that_its_reader_closes_keeps_what_was_delivered_and_resumes_to_the_same_place(
    world, ledger
):
    let_go = []

    def model(request):
        try:
            yield from WORDS
        finally:
            let_go.append(True)

    def reads_two(run, model=model):
        with run.stream(model, "q", name="m") as stream:
            return [next(stream), next(stream)]

    def code(run, model=model):
        got = reads_two(run, model)
        run.step("after", str, got)
        return got

    vanish(ledger.run("a", conversation="c", dedupe="1"), code)
    kept, data = partial(ledger)
    assert (kept["text"], data["chunks"], data["error_class"]) == ("Your order ", 2, "StreamClosed")
    assert let_go == [True]
    world.expire_leases()
    with world.worker().run("a", conversation="c", dedupe="1") as again:
        assert code(again, never) == WORDS[:2]


def test_a_stream_that_is_let_go_of_is_recorded_before_the_next_step(ledger):
    with ledger.run("a", conversation="c") as run:
        for _chunk in run.stream(streaming(*WORDS), "q"):
            break
        gc.collect()
        run.step("next", str, 1)
    kept, data = partial(ledger)
    assert (kept["text"], data["chunks"]) == ("Your ", 1)
    types = types_of(ledger, "c")
    assert types.index("provider.failed") < len(types) - types[::-1].index("step.started") - 1


def test_a_run_that_is_left_in_the_middle_of_a_stream_records_it_before_its_own_end(ledger):
    with pytest.raises(RuntimeError), ledger.run("a", conversation="c") as run:
        for chunk in run.stream(streaming(*WORDS), "q"):
            if chunk == "is ":
                raise RuntimeError("the reader is broken")
    kept, data = partial(ledger)
    assert (kept["text"], data["chunks"]) == ("Your order is ", 3)
    assert types_of(ledger, "c")[-3:] == ["provider.failed", "step.finished", "run.finished"]


def test_a_stream_of_a_run_that_has_ended_is_refused(ledger):
    with ledger.run("a", conversation="c") as run:
        stream = run.stream(streaming(*WORDS), "q")
        next(stream)
    with pytest.raises(RunClosed):
        next(stream)


def test_a_suspended_run_asks_again_for_a_stream_that_it_did_not_end(world, ledger):
    def parked(run):
        stream = run.stream(streaming(*WORDS), "q", name="m")
        next(stream)
        raise run._open_scope().suspend("waits", cause="input")

    with pytest.raises(counterfoil.RunWaiting), ledger.run("a", conversation="c", dedupe="1") as run:
        parked(run)
    assert [data["outcome"] for data in facts(ledger, "c", "step.finished")] == ["cancelled"]
    with world.worker().run("a", conversation="c", dedupe="1") as again:
        assert list(again.stream(streaming(*WORDS), "q", name="m")) == WORDS


def test_a_chunk_that_has_no_form_ends_the_stream_and_keeps_the_others(ledger):
    with ledger.run("a", conversation="c") as run:
        with pytest.raises(ModelFailed, match="streamed object"):
            list(run.stream(streaming("a", object()), "q"))
        run.finish("went on")
    kept, data = partial(ledger)
    assert (kept["text"], data["chunks"]) == ("a", 1)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(143)])
def test_a_stream_that_is_interrupted_keeps_what_it_delivered_and_is_asked_again(world, ledger, error):
    def interrupted(run):
        with pytest.raises(type(error)):
            list(run.stream(streaming("a", "b", then=error), "q", name="m"))

    vanish(ledger.run("a", conversation="c", dedupe="1"), interrupted)
    assert partial(ledger)[0]["text"] == "ab"
    world.expire_leases()
    with world.worker().run("a", conversation="c", dedupe="1") as again:
        assert list(again.stream(streaming("whole"), "q", name="m")) == ["whole"]


# ---- retries -------------------------------------------------------------------------------------------------------


def flaky(*attempts):
    """A model whose attempts stream these chunks and then raise, the last one to its end."""
    left = list(attempts)

    def model(request):
        for chunk in left.pop(0):
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

    return model


def test_a_stream_that_fails_before_its_first_chunk_is_tried_again(ledger):
    model = flaky([ConnectionError("one")], [TimeoutError("two")], WORDS)
    with ledger.run("a", conversation="c") as run:
        assert list(run.stream(model, "q", retry=Retry(attempts=3, jitter=0))) == WORDS
    requested = list(ledger.events("c", types=["provider.requested"]))
    assert [event.header.attempt for event in requested] == [1, 2, 3]
    assert len({event.header.step_id for event in requested}) == 1


def test_what_a_reader_has_seen_is_not_tried_again(ledger):
    model = flaky(["seen", ConnectionError("lost")], WORDS)
    with ledger.run("a", conversation="c") as run, pytest.raises(ModelFailed):
        list(run.stream(model, "q", retry=Retry(attempts=3)))
    assert not facts(ledger, "c", "retry.decided")


# ---- tasks ---------------------------------------------------------------------------------------------------------


def astreaming(*chunks, gate=None):
    async def model(request):
        for chunk in chunks:
            yield chunk
        if gate is not None:
            await gate.wait()

    return model


def test_an_async_stream_is_read_in_the_readers_own_task(ledger):
    tasks = []

    async def model(request):
        for word in WORDS:
            tasks.append(asyncio.current_task())
            yield word

    async def main():
        async with ledger.run("a", conversation="c") as run:
            stream = run.astream(model, "q")
            assert [chunk async for chunk in stream] == WORDS
            assert stream.response.text == "".join(WORDS)
            assert set(tasks) == {asyncio.current_task()}

    asyncio.run(main())


def test_an_awaited_model_may_return_an_async_iterator(ledger):
    async def model(request):
        return astreaming(*WORDS)(request)

    async def main():
        async with ledger.run("a", conversation="c") as run:
            assert [chunk async for chunk in run.astream(model, "q", name="m")] == WORDS
            assert (await run.aask(model, "q2", name="m")).text == "".join(WORDS)
            assert (await run.aask(astreaming(*WORDS), "q3", name="m")).text == "".join(WORDS)

    asyncio.run(main())


def test_a_sync_stream_is_read_in_a_thread_by_tasks(ledger):
    threads = set()

    def model(request):
        for word in WORDS:
            threads.add(threading.get_ident())
            yield word

    async def main():
        async with ledger.run("a", conversation="c") as run:
            assert [chunk async for chunk in run.astream(model, "q")] == WORDS
            assert threading.get_ident() not in threads

    asyncio.run(main())


def test_an_async_stream_in_a_sync_run_is_refused_with_a_hint(ledger):
    with ledger.run("a", conversation="c") as run, pytest.raises(ModelFailed, match="event loop"):
        list(run.stream(astreaming(*WORDS), "q"))


def test_a_second_cancellation_does_not_cut_the_record_of_a_cancelled_stream_short(ledger, monkeypatch):
    async def main():
        reached, appending, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
        append = ledger.ports.aappend

        async def slow(unit, claim=None):
            if any(draft.event_type == "provider.failed" for entry in unit.entries for draft in entry.drafts):
                appending.set()
                await go_on.wait()
            return await append(unit, claim)

        monkeypatch.setattr(ledger.ports, "aappend", slow)

        async def work():
            async with ledger.run("a", conversation="c") as run:
                async for chunk in run.astream(astreaming(*WORDS, gate=asyncio.Event()), "q"):
                    if chunk == WORDS[-1]:
                        reached.set()

        task = asyncio.create_task(work())
        await reached.wait()
        await asyncio.sleep(0)
        task.cancel()
        await appending.wait()
        task.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    kept, data = partial(ledger)
    assert (kept["text"], data["chunks"]) == ("".join(WORDS), 6)
    assert facts(ledger, "c", "run.finished")[0]["terminal"] == "cancelled"


def test_an_async_stream_is_closed_by_its_block_and_its_source_in_the_same_task(ledger):
    closed_in = []

    async def model(request):
        try:
            for word in WORDS:
                yield word
        finally:
            closed_in.append(asyncio.current_task())

    async def main():
        async with ledger.run("a", conversation="c") as run:
            async with run.astream(model, "q") as stream:
                assert await anext(stream) == "Your "
            assert closed_in == [asyncio.current_task()]

    asyncio.run(main())
    assert partial(ledger)[0]["text"] == "Your "
