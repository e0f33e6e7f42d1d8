"""A process that forks while a ledger is open: the child cannot hang in what it inherited, and the parent goes on."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager

import pytest

import counterfoil
from counterfoil.errors import HandleForked
from tests.running import types_of

HANGS_S = 30
"""After so many seconds the kernel ends a child that hangs."""

pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


@pytest.fixture
def ledger(tmp_path):
    with counterfoil.open(tmp_path / "ledger") as ledger:
        yield ledger


def in_child(work):
    """Run ``work`` in a forked child; what it returned is true or false, and a hang or an error is neither."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(HANGS_S)
        code = 2
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextmanager
def held_elsewhere(lock):
    """The lock is held by another thread, which a child of a fork does not have."""
    held, done = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            done.wait(HANGS_S)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(HANGS_S)
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_closing_in_the_child_returns_whatever_the_parents_heart_was_doing(ledger):
    with ledger.run("a", conversation="c"):
        with held_elsewhere(ledger._heartbeat._changed):
            assert in_child(lambda: ledger.close() is None) == 0
        ledger._heartbeat.beat()
    assert [row["terminal"] for row in ledger.runs("c")] == ["success"]


def left_with(run, error=None):
    """What leaving the block raises; None if it lets go what left it."""
    try:
        run.__exit__(None if error is None else type(error), error, None)
    except BaseException as raised:  # noqa: BLE001 - the answer of this function
        return raised
    return None


def test_leaving_the_block_in_the_child_says_that_the_handle_was_forked(ledger):
    with ledger.run("a", conversation="c") as run, held_elsewhere(run._scope._condition):
        assert in_child(lambda: isinstance(left_with(run), HandleForked)) == 0
    assert types_of(ledger, "c")[-1] == "run.finished"


def test_a_call_in_flight_in_the_parent_does_not_keep_the_child_waiting(ledger):
    with ledger.run("a", conversation="c") as run, run._scope.in_flight("a call"):
        assert in_child(lambda: isinstance(left_with(run), HandleForked)) == 0


def test_what_leaves_the_block_in_the_child_goes_on(ledger):
    error = SystemExit(0)
    with ledger.run("a", conversation="c") as run:
        assert in_child(lambda: left_with(run, error) is error) == 0
    assert types_of(ledger, "c")[-1] == "run.finished"


def test_nothing_is_recorded_by_the_child(ledger):
    with ledger.run("a", conversation="c") as run:
        before = types_of(ledger, "c")
        in_child(lambda: left_with(run))
        assert types_of(ledger, "c") == before
        head = ledger.store.head(run.conversation)
        assert head.lease is not None


def test_the_child_may_open_the_ledger_and_run_on_its_own(ledger):
    def work():
        with counterfoil.open(ledger.place) as mine, mine.run("a", conversation="of the child") as run:
            run.finish("done")
        return signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

    with ledger.run("a", conversation="c"):
        assert in_child(work) == 0
    assert [row["terminal"] for row in ledger.runs("of the child")] == ["success"]
