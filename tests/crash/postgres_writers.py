"""A process of many writers: appends for its streams and prints each acknowledged event, one line of JSON each."""

from __future__ import annotations

import json
import sys
import threading

from counterfoil.adapters.postgres import open_postgres
from counterfoil.store.rows import Column, Put, TableSpec
from counterfoil.store.unit import Receipt
from counterfoil.testing.events import SampleStream
from counterfoil.testing.manual import SequentialIds

WRITERS = 8

NOTE = TableSpec("note", (Column("name"), Column("stream_id"), Column("seen", "integer")), key=("name",))


def stream_of(name):
    """The same stream in every process: its ids come from its name."""
    return SampleStream(SequentialIds(f"stream {name}"))


def write(store, name, seed, appends, told):
    stream = stream_of(name)
    stream.ids = SequentialIds(f"writer {seed}")
    for number in range(appends):
        event = stream.event(f"{seed} {number}")
        # One row that everybody changes, one that nobody else has, or none.
        note = {0: "everybody's", 1: f"{seed} {number}"}.get(number % 3)
        rows = (
            ()
            if note is None
            else (Put("note", {"name": note, "stream_id": stream.stream_id, "seen": number}),)
        )
        (outcome,) = store.append([stream.unit(event, rows=rows)]).result(60)
        if isinstance(outcome, Receipt):
            told([stream.stream_id, event.event_id, outcome.positions[0].sequence])
        else:
            told(["error", type(outcome.error).__name__, str(outcome.error)])


def main(url, process, streams, appends):
    lock = threading.Lock()

    def told(line):
        with lock:
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()

    store = open_postgres(url, tables=(NOTE,))
    threads = [
        threading.Thread(target=write, args=(store, n % streams, f"{process}.{n}", appends, told))
        for n in range(WRITERS)
    ]
    told(["ready"])
    sys.stdin.readline()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
