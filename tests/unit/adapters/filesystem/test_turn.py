"""The turn between processes: one at a time, in a queue, gone with its owner."""

from __future__ import annotations

import fcntl
import os
import threading

import pytest

from counterfoil.adapters.filesystem.turn import QUEUE_NAME, TURN_NAME, FileTurn
from counterfoil.errors import StoreIO

SOON_S = 20.0


@pytest.fixture
def turns(tmp_path):
    """Three handles on one directory, as three processes have them."""
    made = [FileTurn(tmp_path) for _ in range(3)]
    yield made
    for turn in made:
        turn.close()


def taking(turn):
    """A thread that takes the turn; the event says that it has it."""
    has = threading.Event()

    def take():
        turn.take()
        has.set()

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    return has


def wait_until_locked(path):
    """Return when somebody holds the lock on this file."""
    deadline = threading.Event()
    handle = os.open(path, os.O_RDWR)
    try:
        while not deadline.wait(0.001):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)


def test_one_has_the_turn_at_a_time(turns):
    assert turns[0].try_take()
    assert not turns[1].try_take()
    turns[0].give()
    assert turns[1].try_take()


def test_who_waits_gets_the_turn_when_it_is_given(turns):
    assert turns[0].try_take()
    has = taking(turns[1])
    turns[0].give()
    assert has.wait(SOON_S)


def test_who_has_just_written_cannot_take_the_next_turn_while_another_waits(turns, tmp_path):
    assert turns[0].try_take()
    has = taking(turns[1])
    wait_until_locked(tmp_path / QUEUE_NAME)
    assert not turns[2].try_take()
    turns[0].give()
    assert has.wait(SOON_S)
    assert not turns[0].try_take()


def test_the_turn_is_free_again_when_its_owner_is_gone(turns):
    assert turns[0].try_take()
    turns[0].close()
    assert turns[1].try_take()


def test_closing_twice_is_no_error(turns):
    turns[0].close()
    turns[0].close()


@pytest.mark.processes
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_keeps_no_turn_alive(turns):
    assert turns[0].try_take()
    done, wait = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(done[1], b"x")
        os.read(wait[0], 1)
        os._exit(0)
    os.read(done[0], 1)
    # The parent goes without unlocking; the child still lives and must not hold the lock by its copy.
    turns[0].close()
    assert turns[1].try_take()
    os.write(wait[1], b"x")
    os.waitpid(pid, 0)
    for handle in (*done, *wait):
        os.close(handle)


def test_a_lock_file_that_cannot_be_opened_is_named(tmp_path):
    (tmp_path / TURN_NAME).mkdir()
    with pytest.raises(StoreIO, match=TURN_NAME):
        FileTurn(tmp_path)
