from __future__ import annotations

import contextvars
import logging
import multiprocessing
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from counterfoil.journal import MemoryJournal, check_chain, open_journal
from counterfoil.journal.writer import JournalWriter, TurnLane
from tests.journals import OTHER, TURN, Failing, Gated, note, stages

HOST = contextvars.ContextVar("host", default="nowhere")


def put(writer, lane, *summaries, turn_id=TURN):
    return [writer.put(lane, note("GUARD", summary, turn_id)) for summary in summaries]


def events(writer, turn_id=TURN):
    assert writer.flush(60)
    return writer.journal.events("default", turn_id)


def test_what_is_handed_over_is_written_in_order():
    writer = JournalWriter(MemoryJournal())
    assert put(writer, TurnLane(), "guard=a", "guard=b") == [True, True]
    assert stages(events(writer)) == ["GUARD guard=a", "GUARD guard=b"]


def test_a_full_queue_drops_and_the_next_event_says_how_many():
    journal = Gated()
    writer, lane = JournalWriter(journal, capacity=2), TurnLane()
    put(writer, lane, "guard=a")
    assert journal.reached.wait(60)
    assert put(writer, lane, "guard=b", "guard=c", "guard=d", "guard=e") == [True, True, False, False]
    journal.gate.set()
    assert writer.flush(60)
    put(writer, lane, "guard=f")
    found = events(writer)
    assert stages(found) == ["GUARD guard=a", "GUARD guard=b", "GUARD guard=c", "GUARD gap=2 guard=f"]
    assert check_chain(found).intact
    assert writer.lost == 2


def test_a_gap_is_told_of_the_turn_that_has_it():
    journal = Gated()
    writer, mine, other = JournalWriter(journal, capacity=1), TurnLane(), TurnLane()
    put(writer, mine, "guard=a")
    assert journal.reached.wait(60)
    put(writer, mine, "guard=b", "guard=c")
    journal.gate.set()
    assert writer.flush(60)
    put(writer, other, "guard=x", turn_id=OTHER)
    assert stages(events(writer, OTHER)) == ["GUARD guard=x"]


def test_events_that_a_journal_refuses_are_a_gap_before_the_next():
    journal = Failing(OSError("disk"))
    writer, lane = JournalWriter(journal), TurnLane()
    put(writer, lane, "guard=a")
    assert writer.flush(60)
    journal.error = None
    put(writer, lane, "guard=b")
    assert stages(events(writer)) == ["GUARD gap=1 guard=b"]
    put(writer, lane, "guard=c")
    assert stages(events(writer))[1:] == ["GUARD guard=c"]


def test_a_gap_that_could_not_be_told_is_told_later():
    journal = Failing(OSError("disk"))
    writer, lane = JournalWriter(journal), TurnLane()
    for summary in ("guard=a", "guard=b"):
        put(writer, lane, summary)
        assert writer.flush(60)
    journal.error = None
    put(writer, lane, "guard=c")
    assert stages(events(writer)) == ["GUARD gap=2 guard=c"]


def test_what_one_turn_breaks_does_not_hold_up_another():
    writer = JournalWriter(MemoryJournal())
    writer.put(TurnLane(), note(agent_id="a|b"))
    put(writer, TurnLane(), "guard=x", turn_id=OTHER)
    assert stages(events(writer, OTHER)) == ["GUARD guard=x"]


class Counting(MemoryJournal):
    """Says how many turns each append held."""

    def __init__(self):
        super().__init__()
        self.appends = []

    def append(self, notes):
        self.appends.append(len({note.turn_id for note in notes}))
        return super().append(notes)


@pytest.mark.parametrize("reads, appends", [(False, [2]), (True, [1, 1])])
def test_turns_share_an_append_where_the_journal_looks_at_nothing_but_notes(reads, appends):
    journal = Counting()
    journal.reads_context = reads
    writer, mine, other = JournalWriter(journal), TurnLane(), TurnLane()
    queued = [(mine, note(), 0), (other, note(turn_id=OTHER), 0), (mine, note("COMMIT"), 0)]
    writer.write(queued)
    assert journal.appends == appends
    assert [event.type for event in journal.events("default", TURN)] == ["INTAKE", "COMMIT"]


def test_of_turns_that_share_an_append_only_the_refused_one_is_lost():
    journal = Counting()
    writer, good, bad = JournalWriter(journal), TurnLane(), TurnLane()
    writer.write([(good, note(), 0), (bad, note(agent_id="a|b", turn_id=OTHER), 0)])
    assert journal.appends == [2, 1, 1]
    assert len(journal.events("default", TURN)) == 1
    assert (writer.lost, bad.take_failed(), good.take_failed()) == (1, 1, 0)


def test_a_failure_is_logged_by_its_class_and_without_its_text(caplog):
    writer = JournalWriter(Failing(OSError("ines@example.org")))
    with caplog.at_level(logging.ERROR, "counterfoil.journal"):
        put(writer, TurnLane(), "guard=a")
        assert writer.flush(60)
    assert "OSError" in caplog.text
    assert "ines" not in caplog.text


def test_the_journal_is_called_in_the_context_in_which_the_turn_began():
    seen = []

    class Looking(MemoryJournal):
        reads_context = True

        def append(self, notes):
            seen.append((HOST.get(), threading.current_thread() is threading.main_thread()))
            return super().append(notes)

    writer = JournalWriter(Looking())
    token = HOST.set("north")
    lane = TurnLane()
    HOST.reset(token)
    put(writer, lane, "guard=a")
    assert writer.flush(60)
    assert seen == [("north", False)]


def test_a_synchronous_event_is_written_when_it_was_handed_over():
    writer = JournalWriter(MemoryJournal(), synchronous=True, synchronous_s=60)
    put(writer, TurnLane(), "guard=a")
    assert stages(writer.journal.events("default", TURN)) == ["GUARD guard=a"]


def test_a_synchronous_event_waits_for_a_slow_journal_no_longer_than_its_patience():
    journal = Gated()
    writer = JournalWriter(journal, synchronous=True, synchronous_s=0.01)
    assert put(writer, TurnLane(), "guard=a") == [True]
    assert journal.events("default", TURN) == []
    journal.gate.set()
    assert stages(events(writer)) == ["GUARD guard=a"]


def test_an_event_that_comes_while_one_is_handed_over_on_the_same_thread_is_written_too():
    """As when the collector ends a stream just then."""
    writer = JournalWriter(MemoryJournal())

    class Interrupted(TurnLane):
        def take_dropped(self):
            if not self.__dict__.setdefault("done", []):
                self.__dict__["done"].append(True)
                put(writer, TurnLane(), "guard=collected", turn_id=OTHER)
            return super().take_dropped()

    put(writer, Interrupted(), "guard=a")
    assert stages(events(writer)) == ["GUARD guard=a"]
    assert stages(events(writer, OTHER)) == ["GUARD guard=collected"]


def test_a_synchronous_event_of_the_writing_thread_itself_is_not_waited_for():
    journal = MemoryJournal()
    writer = JournalWriter(journal, synchronous=True, synchronous_s=3600)
    real = journal.append

    def append(notes):
        if notes[0].turn_id == TURN:
            put(writer, TurnLane(), "guard=collected", turn_id=OTHER)
        return real(notes)

    journal.append = append
    put(writer, TurnLane(), "guard=a")
    assert stages(events(writer, OTHER)) == ["GUARD guard=collected"]


def test_a_flush_that_takes_too_long_says_so():
    journal = Gated()
    writer = JournalWriter(journal)
    put(writer, TurnLane(), "guard=a")
    assert not writer.flush(0.01)
    journal.gate.set()
    assert writer.flush(60)


def test_closing_writes_what_waits_and_takes_nothing_more():
    writer, lane = JournalWriter(MemoryJournal()), TurnLane()
    put(writer, lane, *(f"guard={number}" for number in range(500)))
    assert writer.close(60)
    assert len(writer.journal.events("default", TURN)) == 500
    assert put(writer, lane, "guard=late") == [False]
    assert writer.close(60)


def test_a_writer_that_idled_begins_again(monkeypatch):
    monkeypatch.setattr("counterfoil.journal.writer.IDLE_S", 0.001)
    writer, lane = JournalWriter(MemoryJournal()), TurnLane()
    for number in range(5):
        put(writer, lane, f"guard={number}")
        assert writer.flush(60)
        for thread in threading.enumerate():
            if thread.name == "counterfoil-journal":
                thread.join(60)
    assert len(events(writer)) == 5


def test_a_journal_that_cannot_be_closed_ends_all_the_same():
    class Stuck(MemoryJournal):
        def close(self):
            raise OSError("stuck")

    assert JournalWriter(Stuck()).close(60)


PROGRAM = """
import sys
from counterfoil.journal import JournalSettings, TurnJournals, open_journal
journals = TurnJournals(open_journal(sys.argv[1]), JournalSettings(enabled=True))
with journals.begin("support", session="s", message="hello") as turn:
    turn.guard("g", "pass")
print(turn.turn_id)
"""


@pytest.mark.processes
def test_the_end_of_a_process_writes_what_waits(tmp_path):
    place = tmp_path / "turns.db"
    command = [sys.executable, "-c", PROGRAM, str(place)]
    turn_id = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    with closing(open_journal(place, create=False)) as journal:
        assert [event.type for event in journal.events("default", turn_id)] == ["INTAKE", "GUARD", "COMMIT"]


def in_child(writer, lane, done):
    put(writer, lane, "guard=child")
    done.put(writer.flush(60))


@pytest.mark.processes
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_child_after_a_fork_has_a_queue_and_a_thread_of_its_own(tmp_path):
    writer, lane = JournalWriter(open_journal(tmp_path / "turns.db")), TurnLane()
    put(writer, lane, "guard=parent")
    assert writer.flush(60)
    forked = multiprocessing.get_context("fork")
    done = forked.Queue()
    child = forked.Process(target=in_child, args=(writer, lane, done))
    child.start()
    assert done.get(timeout=60)
    child.join(60)
    found = events(writer)
    assert stages(found) == ["GUARD guard=parent", "GUARD guard=child"]
    assert check_chain(found).intact
    writer.close(60)
