from __future__ import annotations

import asyncio
import hashlib
import inspect
from concurrent.futures import ThreadPoolExecutor

import pytest

from counterfoil.errors import RunSuspended
from counterfoil.journal import ResultMarkers, current_turn, journaled
from tests.journals import journals, stages, written


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def calls(made, turn):
    found = [event for event in written(made, turn.turn_id) if event.type in {"TOOL_CALL", "APPROVAL"}]
    return [line.rpartition(" ms=")[0] or line for line in stages(found)], found


def lookup(order: str, line: int = 1) -> dict[str, object]:
    """Looks an order up."""
    return {"order": order, "line": line}


def test_a_call_is_recorded_with_digests_of_arguments_and_result():
    made = journals()
    with made.begin("support") as turn:
        assert turn.tool(lookup)("O-1") == {"order": "O-1", "line": 1}
    (line,), (event,) = calls(made, turn)
    digest = sha('{"line":1,"order":"O-1"}')[:12]
    assert line == f"TOOL_CALL tool=lookup status=ok resultSha={digest}"
    assert event.payload_hash == sha('{"order":"O-1"}')


def test_a_call_has_one_digest_however_it_is_written():
    made = journals()
    with made.begin("support") as turn:
        tool = turn.tool(lookup)
        tool("O-1", 2)
        tool(order="O-1", line=2)
        tool("O-1", line=2)
    _, found = calls(made, turn)
    assert len({event.payload_hash for event in found}) == 1


def test_the_arguments_are_those_of_before_the_call():
    made = journals()

    def fill(items):
        items.append(1)

    with made.begin("support") as turn:
        turn.tool(fill)([])
    _, (event,) = calls(made, turn)
    assert event.payload_hash == sha('{"items":[]}')


def test_the_wrapped_tool_reads_as_the_tool():
    tool = journals().begin("support").tool(lookup)
    assert (tool.__name__, tool.__doc__, tool.__wrapped__) == ("lookup", "Looks an order up.", lookup)


def test_what_a_tool_raises_goes_on_and_is_an_error():
    made = journals()

    def broken():
        raise ValueError("ines@example.org")

    with made.begin("support") as turn, pytest.raises(ValueError, match="ines"):
        turn.tool(broken)()
    assert calls(made, turn)[0] == ["TOOL_CALL tool=broken status=error error=ValueError"]


def test_an_async_tool_is_awaited_and_recorded():
    made = journals()

    async def fetch(order):
        await asyncio.sleep(0)
        return order

    async def body():
        async with made.begin("support") as turn:
            tool = turn.tool(fetch)
            assert inspect.iscoroutinefunction(tool)
            assert await asyncio.gather(tool("a"), tool("b")) == ["a", "b"]
        return turn

    turn = asyncio.run(body())
    assert sorted(calls(made, turn)[0]) == sorted(
        f"TOOL_CALL tool=fetch status=ok resultSha={sha(text)[:12]}" for text in "ab"
    )


def test_a_cancelled_async_tool_is_an_error():
    made = journals()

    async def forever():
        await asyncio.Event().wait()

    async def body():
        turn = made.begin("support")
        task = asyncio.create_task(turn.tool(forever)())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return turn

    turn = asyncio.run(body())
    assert calls(made, turn)[0] == ["TOOL_CALL tool=forever status=error error=CancelledError"]


def test_an_answer_of_a_guard_is_blocked_and_names_who_answered():
    markers = ResultMarkers()
    made = journals(markers=markers)

    def guarded():
        return markers.register("That is not for me to say.", "output_withheld")

    with made.begin("support") as turn:
        turn.tool(guarded)()
    assert calls(made, turn)[0] == ["TOOL_CALL tool=guarded status=blocked by=output_withheld"]


def test_a_parked_call_comes_after_the_approval_it_waits_for():
    markers = ResultMarkers()
    made = journals(markers=markers)

    def parked():
        return {"error": markers.register("Please wait.", "approval_parked", request="apr-7")}

    with made.begin("support") as turn:
        turn.tool(parked)()
    assert calls(made, turn)[0] == [
        "APPROVAL decision=pending request=apr-7 tool=parked",
        "TOOL_CALL tool=parked status=parked",
    ]


def test_a_counterfoil_tool_that_waits_for_an_approval_is_parked():
    made = journals()
    waits = "apr_01J9ZC3Y3V7W2R5T8QK4M6N0PN"

    def refund():
        raise RunSuspended("waits", cause="approval", waits_for=(waits,))

    with pytest.raises(RunSuspended), made.begin("support") as turn:
        turn.tool(refund)()
    assert calls(made, turn)[0] == [
        f"APPROVAL decision=pending request={waits} tool=refund",
        "TOOL_CALL tool=refund status=parked",
    ]


def test_a_tool_in_a_thread_is_recorded_in_its_turn():
    made = journals()
    with made.begin("support") as turn, ThreadPoolExecutor(2) as pool:
        list(pool.map(turn.tool(lookup), ["a", "b"]))
    assert len(calls(made, turn)[1]) == 2


def test_a_turn_that_a_tool_begins_names_the_turn_of_the_tool():
    made = journals()
    inner = []

    def delegate():
        with made.begin("research") as turn:
            inner.append(turn)

    turn = made.begin("support")
    turn.tool(delegate)()
    assert f"parent={turn.turn_id}" in written(made, inner[0].turn_id)[0].summary
    assert current_turn() is None


def test_a_tool_declared_once_belongs_to_whichever_turn_calls_it():
    made = journals()

    @journaled
    def twice(number):
        return number * 2

    assert twice(1) == 2
    with made.begin("support") as turn:
        assert twice(2) == 4
    assert len(calls(made, turn)[1]) == 1


class Echo:
    def __call__(self, a):
        return a


@pytest.mark.parametrize(
    "fn", [Echo(), len, lambda a: a, "x".join], ids=["an object", "a builtin", "a lambda", "a method"]
)
def test_whatever_can_be_called_can_be_a_tool(fn):
    made = journals()
    with made.begin("support") as turn:
        assert turn.tool(fn)("ab") == fn("ab")
    assert len(calls(made, turn)[1]) == 1


def test_arguments_and_results_without_a_form_leave_no_digest():
    made = journals()
    with made.begin("support") as turn:
        turn.tool(lambda thing: thing, name="same")(object())
    assert calls(made, turn)[0] == ["TOOL_CALL tool=same status=ok"]
    assert calls(made, turn)[1][0].payload_hash is None


def test_wrong_arguments_raise_what_they_would():
    made = journals()
    with made.begin("support") as turn, pytest.raises(TypeError):
        turn.tool(lookup)()
    assert calls(made, turn)[0] == ["TOOL_CALL tool=lookup status=error error=TypeError"]


def test_a_model_is_recorded_by_its_route_sync_and_async():
    made = journals()

    def ask(text):
        return text.upper()

    async def aask(text):
        raise ConnectionError("down")

    with made.begin("support") as turn:
        assert turn.model(ask, provider="acme", model="acme-1")("hi") == "HI"
        with pytest.raises(ConnectionError):
            asyncio.run(turn.model(aask, provider="other", model="o-2", route="fallback")("hi"))
    found = [line.rpartition(" ms=")[0] for line in stages(written(made, turn.turn_id)[1:3])]
    assert found == [
        "MODEL_CALL provider=acme model=acme-1 route=primary status=ok",
        "MODEL_CALL provider=other model=o-2 route=fallback status=error error=ConnectionError",
    ]
