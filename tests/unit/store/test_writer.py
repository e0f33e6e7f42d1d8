"""The group-commit writer, over an engine that a test holds in its hands."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from counterfoil.errors import (
    AppendTimeout,
    HandleForked,
    InternalError,
    QueueFull,
    StoreBusy,
    StoreClosed,
    StoreIO,
)
from counterfoil.store import writer as writer_module
from counterfoil.store.writer import BATCH_BYTES_MAX, BATCH_EVENTS_MAX, GroupWriter

SOON_S = 20.0
"""Real seconds within which anything here happens unless it is broken."""


class Engine:
    """Answers each job with itself; notes batches and threads; stops at a gate while it is shut."""

    def __init__(self):
        self.batches = []
        self.threads = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)
        self.error = None

    def commit(self, batch):
        self.batches.append(list(batch))
        self.threads.append(threading.current_thread())
        self.entered.release()
        assert self.gate.wait(SOON_S)
        if self.error is not None:
            raise self.error
        return [f"outcome of {job}" for job in batch]


class Turn:
    """A turn that can be kept from the writer."""

    def __init__(self):
        self.lock = threading.Lock()
        self.waiting = threading.Semaphore(0)
        self.given = 0

    def try_take(self):
        return self.lock.acquire(blocking=False)

    def take(self):
        self.waiting.release()
        self.lock.acquire()

    def give(self):
        self.given += 1
        self.lock.release()


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def writer(engine):
    made = GroupWriter(engine, wait_s=SOON_S)
    yield made
    engine.gate.set()
    made.close()


def submit(writer, *jobs, events=1, size=100, block=True):
    return writer.submit(list(jobs), events, size, block=block)


def hold(engine, writer, pool):
    """Have a caller commit in place and stop inside the engine; returns its future."""
    engine.gate.clear()
    held = pool.submit(lambda: submit(writer, "held").result())
    assert engine.entered.acquire(timeout=SOON_S)
    return held


@pytest.fixture
def pool():
    with ThreadPoolExecutor(4) as made:
        yield made


def test_a_lone_caller_commits_in_its_own_thread(engine, writer):
    future = submit(writer, "a")
    assert future.done()
    assert future.result() == ["outcome of a"]
    assert engine.threads == [threading.current_thread()]


def test_a_caller_who_must_not_block_never_commits_in_place(engine, writer):
    assert submit(writer, "a", block=False).result() == ["outcome of a"]
    assert engine.threads[0].name == "counterfoil-writer"


def test_those_who_come_while_one_commits_are_one_batch_afterwards(engine, writer, pool):
    held = hold(engine, writer, pool)
    futures = [submit(writer, name) for name in "abc"]
    engine.gate.set()
    assert [future.result() for future in futures] == [[f"outcome of {name}"] for name in "abc"]
    assert held.result() == ["outcome of held"]
    assert engine.batches == [["held"], ["a", "b", "c"]]


def test_each_caller_gets_the_outcomes_of_its_own_jobs(engine, writer, pool):
    hold(engine, writer, pool)
    first, second = submit(writer, "a", "b"), submit(writer, "c", "d", "e")
    engine.gate.set()
    assert first.result() == ["outcome of a", "outcome of b"]
    assert second.result() == ["outcome of c", "outcome of d", "outcome of e"]


@pytest.mark.parametrize(
    "weight", [{"events": BATCH_EVENTS_MAX // 2}, {"size": BATCH_BYTES_MAX // 2}], ids=["events", "bytes"]
)
def test_a_batch_ends_at_its_bound(engine, writer, pool, weight):
    hold(engine, writer, pool)
    futures = [submit(writer, name, **weight) for name in "abc"]
    engine.gate.set()
    for future in futures:
        future.result()
    assert engine.batches[1:] == [["a", "b"], ["c"]]


def test_a_request_larger_than_a_batch_is_committed_alone_and_whole(engine, writer, pool):
    hold(engine, writer, pool)
    futures = [submit(writer, "a"), submit(writer, "big", events=3 * BATCH_EVENTS_MAX), submit(writer, "b")]
    engine.gate.set()
    for future in futures:
        future.result()
    assert engine.batches[1:] == [["a"], ["big"], ["b"]]


def test_work_of_its_own_transaction_keeps_its_place_in_the_queue(engine, writer, pool):
    hold(engine, writer, pool)
    first = submit(writer, "a")
    work = writer.call(lambda: [list(batch) for batch in engine.batches])
    last = submit(writer, "b")
    engine.gate.set()
    assert work.result() == [["held"], ["a"]]
    first.result()
    last.result()
    assert engine.batches == [["held"], ["a"], ["b"]]


def test_an_error_of_the_engine_is_the_answer_to_every_request_of_the_batch(engine, writer, pool):
    held = hold(engine, writer, pool)
    futures = [submit(writer, name) for name in "ab"]
    engine.error = StoreIO("the disk says no")
    engine.gate.set()
    for future in [held, *futures]:
        with pytest.raises(StoreIO, match="the disk says no"):
            future.result()


def test_the_writer_goes_on_after_an_error(engine, writer):
    engine.error = StoreIO("once")
    with pytest.raises(StoreIO):
        submit(writer, "a", block=False).result()
    engine.error = None
    assert submit(writer, "b", block=False).result() == ["outcome of b"]


def test_an_error_that_is_not_ours_is_named_as_a_fault_without_what_it_says(engine, writer):
    engine.error = ValueError("jane@example.com does not fit")
    with pytest.raises(InternalError, match="ValueError") as told:
        submit(writer, "a").result()
    assert "jane" not in str(told.value)
    assert told.value.__cause__ is engine.error


def test_an_interrupt_of_the_caller_who_commits_reaches_it_and_frees_the_writer(engine, writer):
    engine.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        submit(writer, "a")
    engine.error = None
    assert submit(writer, "b").result() == ["outcome of b"]


def test_the_turn_is_given_back_after_an_error(engine):
    turn = Turn()
    writer = GroupWriter(engine, turn, wait_s=SOON_S)
    engine.error = StoreIO("no")
    with pytest.raises(StoreIO):
        submit(writer, "a").result()
    assert not turn.lock.locked()
    writer.close()


def test_a_caller_who_finds_the_turn_taken_leaves_the_waiting_to_the_thread(engine):
    turn = Turn()
    writer = GroupWriter(engine, turn, wait_s=SOON_S)
    turn.lock.acquire()
    future = submit(writer, "a")
    assert turn.waiting.acquire(timeout=SOON_S)
    assert not future.done()
    turn.lock.release()
    assert future.result() == ["outcome of a"]
    assert engine.threads[0].name == "counterfoil-writer"
    writer.close()


def test_a_request_whose_turn_never_comes_is_withdrawn_and_never_recorded(engine):
    turn = Turn()
    writer = GroupWriter(engine, turn, wait_s=0.05)
    turn.lock.acquire()
    future = submit(writer, "a")
    with pytest.raises(StoreBusy, match="nothing of this append is recorded"):
        future.result()
    turn.lock.release()
    assert submit(writer, "b", block=False).result(SOON_S) == ["outcome of b"]
    assert engine.batches == [["b"]]
    writer.close()


def test_an_append_that_is_never_answered_ends_as_a_timeout_that_says_unknown(engine, pool):
    writer = GroupWriter(engine, wait_s=0.05)
    engine.gate.clear()
    future = submit(writer, "a", block=False)
    assert engine.entered.acquire(timeout=SOON_S)
    with pytest.raises(AppendTimeout, match="unknown"):
        future.result()
    engine.gate.set()
    assert future.result(SOON_S) == ["outcome of a"]
    writer.close()


def test_a_timeout_of_the_callers_own_leaves_the_append_alone(engine, writer):
    engine.gate.clear()
    future = submit(writer, "a", block=False)
    with pytest.raises(TimeoutError):
        future.result(0.01)
    engine.gate.set()
    assert future.result() == ["outcome of a"]


def test_cancelling_is_refused(engine, writer, pool):
    hold(engine, writer, pool)
    future = submit(writer, "a")
    assert future.cancel() is False
    engine.gate.set()
    assert future.result() == ["outcome of a"]


def test_a_full_queue_refuses_a_caller_who_must_not_block(engine, writer, pool, monkeypatch):
    monkeypatch.setattr(writer_module, "QUEUE_EVENTS_MAX", 2)
    hold(engine, writer, pool)
    waiting = [submit(writer, name) for name in "ab"]
    with pytest.raises(QueueFull) as refused:
        submit(writer, "c", block=False)
    assert refused.value.retryable
    assert refused.value.hint
    assert refused.value.queued_events == 2
    engine.gate.set()
    for future in waiting:
        future.result()
    assert ["c"] not in engine.batches


def test_a_caller_who_may_block_waits_for_room_until_the_deadline(engine, pool, monkeypatch):
    monkeypatch.setattr(writer_module, "QUEUE_BYTES_MAX", 100)
    writer = GroupWriter(engine, wait_s=0.05)
    held = hold(engine, writer, pool)
    waiting = submit(writer, "a")
    with pytest.raises(QueueFull, match="the queue stayed full"):
        submit(writer, "b")
    engine.gate.set()
    held.result()
    assert waiting.result(SOON_S) == ["outcome of a"]
    assert writer.close()


def test_a_caller_gets_room_as_soon_as_there_is_some(engine, writer, pool, monkeypatch):
    monkeypatch.setattr(writer_module, "QUEUE_EVENTS_MAX", 1)
    hold(engine, writer, pool)
    submit(writer, "a")
    blocked = pool.submit(lambda: submit(writer, "b").result())
    engine.gate.set()
    assert blocked.result(SOON_S) == ["outcome of b"]


def test_closing_finishes_what_waits(engine, writer, pool):
    hold(engine, writer, pool)
    future = submit(writer, "a")
    closing = pool.submit(writer.close)
    engine.gate.set()
    assert closing.result(SOON_S) is True
    assert future.result() == ["outcome of a"]


def test_a_closed_writer_refuses(engine, writer):
    writer.close()
    with pytest.raises(StoreClosed):
        submit(writer, "a")


def test_closing_twice_is_no_error(writer):
    assert writer.close()
    assert writer.close()


def test_what_cannot_be_finished_in_time_is_told_that_the_store_was_closed(engine, pool):
    turn = Turn()
    writer = GroupWriter(engine, turn, wait_s=0.1)
    turn.lock.acquire()
    future = submit(writer, "a")
    assert turn.waiting.acquire(timeout=SOON_S)
    assert writer.close() is False
    with pytest.raises(StoreClosed):
        future.result()
    turn.lock.release()


def test_no_thread_is_started_for_lone_callers(engine, writer):
    before = threading.active_count()
    for name in "abc":
        submit(writer, name).result()
    assert threading.active_count() == before


@pytest.mark.processes
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_is_refused_and_does_not_hang(engine, writer):
    submit(writer, "a", block=False).result()
    pid = os.fork()
    if pid == 0:
        try:
            submit(writer, "b")
        except HandleForked:
            writer.close()
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_many_threads_all_get_their_own_answers(engine, writer):
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda n: submit(writer, n).result(), range(500)))
    assert answers == [[f"outcome of {n}"] for n in range(500)]
    assert sorted(job for batch in engine.batches for job in batch) == list(range(500))
