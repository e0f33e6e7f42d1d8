"""Forks: parent and child each go on with the search index, and neither spoils what the other does."""

from __future__ import annotations

import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

import counterfoil
from counterfoil.errors import HandleForked
from counterfoil.search.file import SearchFile
from counterfoil.store import forks
from tests.unit.journal.test_forks import ended_well, in_child

pytestmark = [
    pytest.mark.processes,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.skipif(sys.platform != "linux", reason="forks"),
]


def say(ledger, text, conversation="c"):
    with ledger.run("agent", conversation=conversation, message=text):
        pass


def sound(place):
    with closing(sqlite3.connect(place / "search.db")) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        raw.execute("INSERT INTO words (words) VALUES ('integrity-check')")


def hits(ledger, text, conversation="c"):
    return len(ledger.search(text, conversation, limit=100, wait_s=10).hits)


def test_parent_and_child_go_on_indexing_and_nothing_is_lost(tmp_path):
    place = tmp_path / "ledger"
    with counterfoil.open(place) as ledger:
        say(ledger, "kettle before")
        assert hits(ledger, "kettle") == 1

        def work():
            ledger.close()
            with counterfoil.open(place) as own:
                for number in range(20):
                    say(own, f"kettle child {number}", "d")
                    assert hits(own, f"child {number}", "d") >= 1

        child = in_child(work)
        for number in range(20):
            say(ledger, f"kettle parent {number}")
            assert hits(ledger, f"parent {number}") >= 1
        assert ended_well(child)
        assert (hits(ledger, "kettle"), hits(ledger, "kettle", "d")) == (21, 20)
    sound(place)


def test_the_handle_of_the_parent_is_refused_in_the_child_and_its_end_there_takes_nothing_from_the_parent(
    tmp_path,
):
    place = tmp_path / "ledger"
    with counterfoil.open(place) as ledger:
        say(ledger, "kettle")
        assert hits(ledger, "kettle") == 1

        def work():
            with pytest.raises(HandleForked):
                ledger.index_search()
            ledger.close()

        assert ended_well(in_child(work))
        say(ledger, "kettle again")
        assert hits(ledger, "kettle") == 2
    sound(place)


def test_a_file_that_is_open_in_nobody_crosses_a_fork(tmp_path):
    file = SearchFile(tmp_path / "search.db", "ldg_1")
    with file.using():
        pass
    seen = []

    def work():
        assert not [one for one in Path("/proc/self/fd").iterdir() if _leads_to(one, "search.db")]

    assert ended_well(in_child(work))
    with file.using() as connection:
        seen += connection.execute("SELECT count(*) FROM erased")
    assert seen == [(0,)]
    file.close()


def _leads_to(descriptor, name):
    try:
        return name in str(descriptor.readlink())
    except OSError:
        return False


def test_what_a_thread_writes_while_another_forks_is_written_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(forks, "PATIENCE_S", 0.05)
    file = SearchFile(tmp_path / "search.db", "ldg_1")
    begun, go_on = threading.Event(), threading.Event()

    def write():
        with file.writing() as connection:
            connection.execute("PRAGMA cache_size = 1")
            connection.executemany(
                "INSERT INTO erased (id) VALUES (?)", [(f"dk_{n:0200}",) for n in range(5_000)]
            )
            begun.set()
            assert go_on.wait(30)
            connection.executemany(
                "INSERT INTO erased (id) VALUES (?)", [(f"str_{n:0200}",) for n in range(5_000)]
            )

    thread = threading.Thread(target=write)
    thread.start()
    assert begun.wait(30)

    def work():
        own = SearchFile(tmp_path / "search.db", "ldg_1")
        with pytest.raises(HandleForked, match="was being read or written"), own.using():
            pass
        file.close()

    child = in_child(work)
    assert ended_well(child)
    go_on.set()
    thread.join()
    with file.using() as connection:
        assert connection.execute("SELECT count(*) FROM erased").fetchone() == (10_000,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    file.close()


def test_who_forks_in_the_middle_of_its_own_use_goes_on_with_it(tmp_path):
    file = SearchFile(tmp_path / "search.db", "ldg_1")
    with file.writing() as connection:
        connection.execute("INSERT INTO erased (id) VALUES ('dk_1')")
        assert ended_well(in_child(lambda: None))
        connection.execute("INSERT INTO erased (id) VALUES ('dk_2')")
    with file.using() as connection:
        assert connection.execute("SELECT count(*) FROM erased").fetchone() == (2,)
    file.close()
