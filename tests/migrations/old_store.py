"""A runtime store of schema 1 as the builds before the ledger left it: 50 conversations, good and bad."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

from counterfoil.adapters.sqlite.runtime_store import make_runtime_store

CONVERSATIONS = 50
T0 = 1_700_000_000_000


def name_of(number):
    return f"case-{number:02d}"


def make(directory, *, messages_of_largest=100_000):
    """Fill ``directory/ledger.db``: case-00 is empty, case-01 damaged, case-02 has an open run, case-03 is the largest."""
    directory.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(directory / "ledger.db")) as connection:
        make_runtime_store(connection)
        for number in range(CONVERSATIONS):
            conversation(connection, number)
        messages(connection, name_of(3), 0, messages_of_largest)
        damage(connection)
        connection.commit()


def conversation(connection, number):
    name, at = name_of(number), T0 + number * 1000
    connection.execute(
        "INSERT INTO conversations VALUES (?, ?, ?, 'open', ?, ?, ?)",
        (name, "refund-agent", f"Title {number} Zwiebel", json.dumps({"tier": number}), at, at + 500),
    )
    if number == 0:
        return
    connection.execute(
        "INSERT INTO heads VALUES (?, 3, 2, NULL, 2, ?)", (name, json.dumps({"kind": "append"}))
    )
    for run in range(2):
        terminal = None if number == 2 and run == 1 else "success"
        connection.execute(
            "INSERT INTO runs VALUES (?, ?, ?, 'refund-agent', ?, 1, NULL, NULL, ?, ?, ?)",
            (
                f"r-{number}-{run}",
                name,
                f"a-{number}-{run}",
                terminal,
                at + run,
                None if terminal is None else at + run + 5,
                json.dumps({"said": f"done {number}.{run}"}),
            ),
        )
        connection.execute(
            "INSERT INTO admissions VALUES (?, ?, ?, 'started', ?, ?, ?)",
            (
                f"a-{number}-{run}",
                name,
                f"m-{number}-{run}",
                f"r-{number}-{run}",
                json.dumps(f"input {run}"),
                at + run,
            ),
        )
    connection.execute(
        "INSERT INTO admissions VALUES (?, ?, ?, 'accepted', NULL, ?, ?)",
        (f"a-{number}-w", name, f"m-{number}-w", json.dumps("still waiting"), at + 9),
    )
    if number != 3:
        messages(connection, name, 0, 4)


def messages(connection, name, first, count):
    rows = (
        (
            name,
            place,
            f"msg-{place}",
            "user" if place % 2 else "assistant",
            json.dumps({"text": f"walrus {place} 返金"}),
            T0,
        )
        for place in range(first, first + count)
    )
    connection.executemany("INSERT INTO active_messages VALUES (?, ?, ?, ?, ?, ?)", rows)


def damage(connection):
    """Rows of case-01 that nobody can read, and messages of a conversation that has no row."""
    connection.execute(
        "UPDATE active_messages SET body = '{half' WHERE conversation_id = 'case-01' AND position = 1"
    )
    connection.execute(
        "UPDATE active_messages SET body = CAST(x'ff00fe' AS TEXT) WHERE conversation_id = 'case-01' AND position = 2"
    )
    connection.execute("UPDATE conversations SET updated_at = 'yesterday' WHERE conversation_id = 'case-01'")
    connection.execute("UPDATE runs SET terminal = 'exploded' WHERE run_id = 'r-1-1'")
    connection.execute("INSERT INTO active_messages VALUES ('nobody', 0, 'msg', 'user', '{}', ?)", (T0,))
