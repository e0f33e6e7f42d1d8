"""Blocking code with a deadline: what its caller gets, now or later."""

from __future__ import annotations

import os
import threading
from contextvars import ContextVar

import pytest

from counterfoil.flow import calls
from counterfoil.flow.calls import call_in_thread, start_in_thread
from counterfoil.flow.requests import Raised, Returned, TimedOut

WAIT_S = 20.0


@pytest.fixture
def gate():
    made = threading.Event()
    yield made
    made.set()


def refuse():
    raise ValueError("no")


def test_what_the_code_returns_is_the_answer():
    assert call_in_thread(divmod, (7, 2), {}, WAIT_S) == Returned((3, 1))


def test_what_the_code_raises_is_the_answer():
    result = call_in_thread(refuse, (), {}, WAIT_S)
    assert isinstance(result, Raised)
    assert str(result.error) == "no"
    assert result.late is None


def test_the_code_runs_in_another_thread_with_the_context_of_its_caller():
    place = ContextVar("place")
    place.set("here")
    seen = call_in_thread(lambda: (place.get(), threading.get_ident()), (), {}, WAIT_S)
    assert isinstance(seen, Returned)
    assert seen.value[0] == "here"
    assert seen.value[1] != threading.get_ident()


def test_threads_are_used_again():
    threads = {call_in_thread(threading.current_thread, (), {}, WAIT_S).value for _ in range(200)}
    assert len(threads) < 200


def test_calls_at_the_same_time_do_not_wait_for_each_other():
    def meet():
        both.wait(WAIT_S)

    both = threading.Barrier(2)
    other = start_in_thread(meet, (), {})
    assert call_in_thread(meet, (), {}, WAIT_S) == Returned(None)
    assert other.result(WAIT_S) is None


def test_a_call_that_outlives_its_deadline_is_told_later(gate):
    def slow():
        gate.wait()
        return "after all"

    result = call_in_thread(slow, (), {}, 0.0)
    assert isinstance(result, TimedOut)
    assert not result.late.done()
    gate.set()
    assert result.late.result(WAIT_S) == "after all"


def test_a_call_that_outlives_its_deadline_may_fail_later(gate):
    def slow():
        gate.wait()
        refuse()

    result = call_in_thread(slow, (), {}, -1.0)
    gate.set()
    assert isinstance(result.late.exception(WAIT_S), ValueError)


def test_a_call_whose_caller_is_interrupted_is_told_later(gate, monkeypatch):
    def interrupted(_call, _timeout_s):
        raise KeyboardInterrupt

    def slow():
        gate.wait()
        return "after all"

    monkeypatch.setattr(calls.Started, "wait", interrupted)
    result = call_in_thread(slow, (), {}, WAIT_S)
    assert isinstance(result, Raised)
    assert isinstance(result.error, KeyboardInterrupt)
    gate.set()
    assert result.late.result(WAIT_S) == "after all"


def test_who_comes_after_the_end_gets_the_answer_at_once():
    call = calls.Started(divmod, (7, 2), {})
    call.run()
    call.tell()
    assert call.later().result(0) == (3, 1)


def test_a_started_call_cannot_be_cancelled(gate):
    future = start_in_thread(gate.wait, (), {})
    assert not future.cancel()
    gate.set()
    assert future.result(WAIT_S) is True


def test_what_hangs_on_a_future_holds_up_no_other_call(gate):
    reached = threading.Event()

    def linger(_):
        reached.set()
        gate.wait()

    begun = threading.Event()
    future = start_in_thread(begun.wait, (), {})
    future.add_done_callback(linger)
    begun.set()
    assert reached.wait(WAIT_S)
    assert call_in_thread(divmod, (7, 2), {}, WAIT_S) == Returned((3, 1))


def test_a_forked_child_calls_in_threads_of_its_own():
    call_in_thread(divmod, (7, 2), {}, WAIT_S)
    pid = os.fork()
    if not pid:
        answered = call_in_thread(divmod, (7, 2), {}, WAIT_S) == Returned((3, 1))
        os._exit(0 if answered else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
