"""An index whose writers are killed anywhere, and several at once: every event once, and the ledger untouched."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import pytest

import counterfoil
from counterfoil.errors import HandleForked, SearchUnavailable

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]
STEPS = 60

CHILD = """
import os, signal, sys
import counterfoil
from counterfoil.search import follow

follow.BATCH_EVENTS = 8
left = int(sys.argv[2])

def count(frame, event, argument):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

with counterfoil.open(sys.argv[1]) as ledger:
    sys.setprofile(count)
    ledger.index_search()
    sys.setprofile(None)
"""


@pytest.fixture
def place(tmp_path):
    with (
        counterfoil.open(tmp_path / "ledger") as ledger,
        ledger.run("agent", conversation="case", message="walrus at first") as run,
    ):
        for number in range(STEPS):
            run.step(f"say-{number}", lambda number=number: f"walrus {number}")
    return tmp_path / "ledger"


def start(place, calls):
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(CHILD), str(place), str(calls)], cwd=ROOT)


def check_whole(place):
    with counterfoil.open(place) as ledger:
        ledger.index_search()
        answer = ledger.search("walrus", "case", limit=1000)
        assert answer.approximate == ()
        found = [hit.sequence for hit in answer.hits]
        expected = [event.sequence for event in ledger.events("case") if "walrus" in str(dict(event.content))]
        assert sorted(found) == expected
        assert len(found) == STEPS + 1
    with closing(sqlite3.connect(place / "search.db")) as connection:
        places = connection.execute("SELECT count(*), count(DISTINCT seq) FROM doc WHERE part = 0").fetchone()
        words = connection.execute("SELECT count(*) FROM words").fetchone()[0]
        assert places[0] == places[1] == words
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")


def test_killed_anywhere_it_goes_on_without_a_gap_and_without_a_double(place):
    choose = random.Random(7)
    killed = 0
    for _ in range(5):
        child = start(place, choose.randrange(500, 30_000))
        killed += child.wait() == -9
    assert killed
    check_whole(place)


def test_processes_that_index_at_once_share_the_work(place):
    children = [start(place, 1 << 60) for _ in range(3)]
    assert [child.wait() for child in children] == [0, 0, 0]
    check_whole(place)


def test_a_handle_used_after_a_fork_refuses(place):
    with counterfoil.open(place) as ledger:
        ledger.index_search()
        child = os.fork()
        if child == 0:
            try:
                ledger._index.followed()
            except HandleForked:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_an_index_that_cannot_be_written_says_so_and_hides_nothing(place, tmp_path):
    (tmp_path / "file").touch()
    with counterfoil.open(place, search=tmp_path / "file" / "search.db") as ledger:
        with pytest.raises(SearchUnavailable) as refused:
            ledger.search("walrus", "case")
        assert "search=" in (refused.value.hint or "")
        assert len(list(ledger.events("case"))) > STEPS
