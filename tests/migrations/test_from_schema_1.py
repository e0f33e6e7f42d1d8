"""A real runtime store of schema 1 is taken over: whole or not at all, wherever it is killed, and only once."""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import pytest

import counterfoil
from counterfoil.adapters.sqlite.runtime_store import RUNTIME_TABLES
from counterfoil.client.migrating import Migration
from counterfoil.errors import LedgerNotFound, RunClosed, SchemaTooNew, SchemaUnknown
from tests.command import Shell
from tests.migrations import old_store

ROOT = Path(__file__).parents[2]
ALL = old_store.CONVERSATIONS + 1
"""The one that is named only by a message that belongs to no conversation is there too."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store of 50 conversations, to be copied."""
    directory = tmp_path_factory.mktemp("old") / "shop"
    old_store.make(directory, messages_of_largest=3_000)
    return directory


@pytest.fixture
def place(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "shop"))


def tables(place):
    with closing(sqlite3.connect(place / "ledger.db")) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def check_whole(place):
    """What a migrated store is, however it came about."""
    with counterfoil.open(place) as ledger:
        infos = ledger.conversations(limit=100)
        assert sorted(info.name for info in infos) == sorted(
            [*map(old_store.name_of, range(old_store.CONVERSATIONS)), "nobody"]
        )
        for info in infos:
            assert [event.type for event in ledger.events(info.stream_id)] == ["runtime.baseline"]
        assert len(ledger.runs()) == 2 * (old_store.CONVERSATIONS - 1)
        keys = ledger.keyring.store.scan(limit=1000)
        conversations = {info.stream_id for info in infos}
        assert sorted(row.stream_id for row in keys if row.stream_id in conversations) == sorted(
            conversations
        )
    assert not set(RUNTIME_TABLES) & tables(place)


def test_every_conversation_becomes_one_stream_with_one_baseline(place):
    report = Migration()
    with counterfoil.open(place, migration=report) as ledger:
        event = next(ledger.events("case-07"))
        assert event.sequence == 1
        assert dict(event.data) == {
            "as_of": "2023-11-14T22:13:27.500Z",
            "schema_from": 1,
            "messages": 4,
            "runs": 2,
        }
        assert event.content["title"] == "Title 7 Zwiebel"
        assert [message["body"] for message in event.content["messages"]][:1] == [{"text": "walrus 0 返金"}]
        assert event.content["runs"][0]["output"] == {"said": "done 7.0"}
        assert ledger.runs("case-07")[0]["terminal"] == "success"
    assert (report.conversations, report.runs, report.open_runs) == (ALL, 98, 1)
    assert report.messages == 48 * 4 + 3_000 + 1
    check_whole(place)


def test_what_is_migrated_verifies(place):
    counterfoil.open(place).close()
    assert Shell(place.parent)("verify").code == 0


def test_an_empty_conversation_and_the_largest_are_there(place):
    with counterfoil.open(place) as ledger:
        assert next(ledger.events("case-00")).content["messages"] == []
        event = next(ledger.events("case-03"))
        assert [message["id"] for message in event.content["messages"]] == [f"msg-{n}" for n in range(3_000)]
        assert event.header.artifact_refs


def test_damaged_rows_are_kept_as_they_lay_and_hide_nothing(place):
    report = Migration()
    with counterfoil.open(place, migration=report) as ledger:
        content = next(ledger.events("case-01")).content
        bodies = [message["body"] for message in content["messages"]]
        assert bodies[0] == {"text": "walrus 0 返金"}
        assert bodies[1] == {"unreadable": {"$bytes": "e2hhbGY="}}
        assert bodies[2] == {"unreadable": {"$bytes": "/wD+"}}
        assert content["damaged_rows"] == 4
        damaged = {ledger.stream_of("case-01"), ledger.stream_of("nobody")}
    assert set(report.damaged_conversations) == damaged


def test_an_open_run_is_interrupted_and_nothing_is_run_again(place):
    with counterfoil.open(place) as ledger:
        assert [row["terminal"] for row in ledger.runs("case-02")] == ["success", "interrupted"]
        for dedupe in ("m-2-0", "m-2-1"):
            with (
                pytest.raises(RunClosed),
                ledger.run(
                    "refund-agent", conversation="case-02", message=f"input {dedupe[-1]}", dedupe=dedupe
                ) as run,
            ):
                run.step("pay", lambda: pytest.fail("paid twice"))
        with ledger.run(
            "refund-agent", conversation="case-02", message="still waiting", dedupe="m-2-w"
        ) as run:
            run.step("answer", lambda: "done")
        assert [event.sequence for event in ledger.events("case-02")][:3] == [1, 2, 3]


def test_what_stood_in_the_old_tables_is_in_no_file_in_the_clear(place):
    counterfoil.open(place).close()
    for path in place.rglob("*"):
        if path.is_file() and path.name != "search.db":
            assert b"Zwiebel" not in path.read_bytes(), path.name


def test_a_second_opening_migrates_nothing(place):
    with counterfoil.open(place) as ledger:
        ledger_id = ledger.id
    again = Migration()
    with counterfoil.open(place, migration=again) as ledger:
        assert ledger.id == ledger_id
    assert not again.done


# ---- killed ----------------------------------------------------------------------------------------------------------

CHILD = """
import os, signal, sys
import counterfoil
from counterfoil.client.migrating import Migration

left = int(sys.argv[2])

def count(frame, event, argument):
    global left
    if event in ("call", "c_call"):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

start = left
sys.setprofile(count)
counterfoil.open(sys.argv[1]).close()
sys.setprofile(None)
print(start - left)
"""


def migrate_in_a_child(place, calls):
    """Migrate in a process that kills itself after so many calls; its exit code and the calls it made."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CHILD), str(place), str(calls)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """50 conversations that are quickly migrated, and the calls that takes."""
    directory = tmp_path_factory.mktemp("small")
    old_store.make(directory / "shop", messages_of_largest=300)
    code, calls = migrate_in_a_child(shutil.copytree(directory / "shop", directory / "counted"), 1 << 60)
    assert code == 0
    return directory / "shop", int(calls)


KILLS = {"early": (0.05, 0.4), "in the middle": (0.4, 0.7), "late": (0.7, 0.9), "at the end": (0.9, 1.0)}


@pytest.mark.processes
@pytest.mark.parametrize("when", KILLS)
def test_killed_anywhere_it_is_all_or_nothing_and_run_again(small, tmp_path, when):
    old, calls = small
    place = Path(shutil.copytree(old, tmp_path / "shop"))
    first, last = KILLS[when]
    choose = random.Random(when)
    # Twice in a row: what the first attempt left lies in the way of the second.
    for attempt in range(2):
        code, _ = migrate_in_a_child(place, choose.randrange(int(calls * first), int(calls * last)))
        assert attempt or code == -9
        held = tables(place)
        assert (set(RUNTIME_TABLES) <= held) is not ("event" in held)
    check_whole(place)


@pytest.mark.processes
def test_two_processes_that_open_at_once_make_one_ledger(place):
    script = "import sys, counterfoil\nwith counterfoil.open(sys.argv[1]) as ledger: print(ledger.id)"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(place)], stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        for _ in range(3)
    ]
    assert len({child.communicate()[0] for child in children}) == 1
    assert [child.returncode for child in children] == [0, 0, 0]
    check_whole(place)


@pytest.mark.processes
def test_a_conversation_of_100000_messages_is_taken_over_in_bounded_memory(tmp_path):
    old_store.make(tmp_path / "shop", messages_of_largest=100_000)
    script = (
        "import sys, counterfoil\n"
        "from counterfoil.bench.figures import peak_kib\n"
        "with counterfoil.open(sys.argv[1]) as ledger:\n"
        "    print(next(ledger.events('case-03')).data['messages'])\n"
        "print(int(peak_kib()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "shop")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    messages, peak = map(int, done.stdout.split())
    assert messages == 100_000
    assert peak < 300 * 1024


# ---- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE runs",
        "ALTER TABLE admissions DROP COLUMN payload",
        "ALTER TABLE heads ADD COLUMN more TEXT",
        "CREATE TABLE something_else (a)",
    ],
)
def test_a_store_that_is_half_made_is_refused_and_left_as_it_is(place, statement):
    with closing(sqlite3.connect(place / "ledger.db")) as connection:
        connection.execute(statement)
        connection.commit()
    before = (place / "ledger.db").read_bytes()
    with pytest.raises(SchemaUnknown, match="half made") as refused:
        counterfoil.open(place)
    assert refused.value.hint
    assert (place / "ledger.db").read_bytes() == before


def test_read_only_it_is_left_as_it_is_and_told_what_to_do(place):
    with pytest.raises(SchemaUnknown) as refused:
        counterfoil.open(place, read_only=True)
    assert "counterfoil migrate" in (refused.value.hint or "")
    assert set(RUNTIME_TABLES) <= tables(place)
    assert not (place / "keys.db").exists()


@pytest.mark.parametrize("schema", ["3", "12"])
def test_a_file_of_a_newer_build_is_refused_with_both_numbers(place, schema):
    counterfoil.open(place).close()
    with closing(sqlite3.connect(place / "ledger.db")) as connection:
        connection.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (schema,))
        connection.commit()
    with pytest.raises(SchemaTooNew, match=f"schema {schema}; this version of Counterfoil knows schema 2"):
        counterfoil.open(place)
    assert Shell(place.parent)("ls").code == 69


def test_a_build_before_the_ledger_sees_a_number_that_is_not_its_own(place):
    counterfoil.open(place).close()
    with closing(sqlite3.connect(place / "ledger.db")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)


def test_a_store_that_is_not_there_is_not_made(tmp_path):
    with pytest.raises(LedgerNotFound):
        counterfoil.open(tmp_path / "shop", create=False)


def test_the_command_says_what_was_done_and_what_to_look_at(place):
    shell = Shell(place.parent)
    refused = shell("ls")
    assert (refused.code, "counterfoil migrate" in refused.err) == (69, True)
    printed = shell("migrate")
    assert printed.code == 0
    assert f"{ALL} conversations" in printed.out
    assert "1 open run" in printed.out
    again = shell("migrate", "--json").json
    assert (again["migrated"], again["conversations"]) == (False, 0)
    assert shell("ls").code == 0


def test_what_was_taken_over_is_found_by_search(place):
    with counterfoil.open(place) as ledger:
        assert [hit.event_type for hit in ledger.search("walrus 3", "case-04").hits] == ["runtime.baseline"]
        assert ledger.search("walrus 2999", "case-03").hits
