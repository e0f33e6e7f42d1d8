"""Forks: what a child journals is kept whatever its parent does, and no lock of the parent's thread stops it."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import closing

import pytest

from counterfoil.journal import MemoryJournal, check_chain, open_journal
from counterfoil.store import forks
from tests.journals import OTHER, TURN, note, whole

pytestmark = [
    pytest.mark.processes,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.skipif(sys.platform != "linux", reason="forks"),
]


def in_child(work):
    """Fork; the child does this and ends with 0, or with 1 where it raised. Gives the child's id."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


def ended_well(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_a_child_journals_is_kept_when_its_parent_closes_first(tmp_path):
    place = tmp_path / "turns.db"
    journal = open_journal(place)
    journal.append(whole())
    closed, told = os.pipe()

    def work():
        journal.append([note("GUARD", "guard=before")])
        os.read(closed, 1)
        journal.append(whole(OTHER))

    child = in_child(work)
    # The last one who closes a file in WAL mode takes its log away, and the child must not be overlooked.
    journal.close()
    os.write(told, b".")
    assert ended_well(child)
    with closing(open_journal(place)) as after:
        assert [len(after.events("default", turn)) for turn in (TURN, OTHER)] == [4, 3]
        assert check_chain(after.events("default", TURN)).intact


def test_both_sides_of_a_fork_go_on_with_the_same_turn(tmp_path):
    with closing(open_journal(tmp_path / "turns.db")) as journal:
        journal.append(whole())
        child = in_child(lambda: [journal.append([note("GUARD", f"guard={n}")]) for n in range(20)])
        for number in range(20):
            journal.append([note("GUARD", f"guard=parent_{number}")])
        assert ended_well(child)
        found = journal.events("default", TURN)
        assert len(found) == 43
        assert check_chain(found).intact


@pytest.mark.parametrize("place", [":memory:", "turns.db"])
def test_a_fork_in_the_middle_of_anothers_work_leaves_no_lock(place, tmp_path, monkeypatch):
    monkeypatch.setattr(forks, "PATIENCE_S", 0.0)
    journal = open_journal(place if place == ":memory:" else tmp_path / place)
    journal.append(whole())
    held, go = threading.Event(), threading.Event()

    def at_work():
        with journal._lock:
            held.set()
            assert go.wait(60)

    thread = threading.Thread(target=at_work)
    thread.start()
    assert held.wait(60)
    try:
        child = in_child(lambda: journal.append(whole(OTHER)))
        assert ended_well(child)
    finally:
        go.set()
        thread.join(60)
    journal.append([note("GUARD", "guard=parent")])
    assert len(journal.events("default", TURN)) == 4
    journal.close()


def test_a_journal_that_fails_at_a_fork_fails_no_fork():
    class Failing(MemoryJournal):
        def before_fork(self, timeout_s):
            raise OSError("no")

    journal = Failing()
    assert ended_well(in_child(lambda: journal.append(whole())))
    assert not forks._resting
