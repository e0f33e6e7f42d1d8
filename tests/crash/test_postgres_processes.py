"""Four processes with eight writers each, on one stream and on eight: no error, nothing lost, no fork; killed ones too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from counterfoil.core.event import event_hash, read_header
from counterfoil.testing.events import SAMPLE_LEDGER
from tests.crash.postgres_writers import NOTE, WRITERS, stream_of
from tools.tree import ROOT

pytestmark = [pytest.mark.postgres, pytest.mark.processes]

PROCESSES = 4
APPENDS = 15
DEADLINE_S = 90


@pytest.fixture
def store(place):
    from counterfoil.adapters.postgres import open_postgres

    made = open_postgres(place, tables=(NOTE,), create=True, ledger_id=SAMPLE_LEDGER)
    yield made
    made.close()


def start(place, process, streams, appends=APPENDS):
    command = [sys.executable, str(Path(__file__).with_name("postgres_writers.py")), place, str(process)]
    return subprocess.Popen(
        [*command, str(streams), str(appends)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def begin(store, place, streams, appends=APPENDS):
    for number in range(streams):
        stream = stream_of(number)
        store.append([stream.unit(create=True)]).result()
    processes = [start(place, process, streams, appends) for process in range(PROCESSES)]
    for process in processes:
        assert json.loads(process.stdout.readline()) == ["ready"]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    return processes


def told_by(process):
    told, _ = process.communicate(timeout=DEADLINE_S)
    # A line that a killed process did not finish acknowledges nothing.
    return [json.loads(line) for line in told.splitlines() if line.endswith("]")]


def check_chains(store, streams):
    """Each stream is 1, 2, 3, … with each event naming the hash before it; what is there, by stream and id."""
    there = {}
    for number in range(streams):
        stream = stream_of(number)
        previous, events = stream.genesis.hash, store.read(stream.stream_id, limit=100_000)
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
        for event in events:
            assert read_header(event.header).previous_event_hash == previous.hex()
            previous = event_hash(event.header)
            there[event.stream_id, event.event_id] = event.sequence
        head = store.head(stream.stream_id)
        assert (head.sequence, head.hash) == (len(events), previous)
    return there


@pytest.mark.parametrize("streams", [1, 8])
def test_no_error_nothing_lost_no_fork(store, place, streams):
    acknowledged = [line for process in begin(store, place, streams) for line in told_by(process)]
    assert [line for line in acknowledged if line[0] == "error"] == []
    assert len(acknowledged) == PROCESSES * WRITERS * APPENDS
    there = check_chains(store, streams)
    assert there == {(stream_id, event_id): sequence for stream_id, event_id, sequence in acknowledged}
    notes = store.select("note", limit=10_000)
    assert len(notes) == 1 + PROCESSES * WRITERS * APPENDS // 3
    everybody = store.get("note", ("everybody's",))
    assert everybody["row_version"] == PROCESSES * WRITERS * APPENDS // 3


def test_what_a_killed_process_was_told_is_there_and_the_others_go_on(store, place):
    processes = begin(store, place, 2, appends=30)
    victims, others = processes[:2], processes[2:]
    acknowledged = []
    for victim in victims:
        acknowledged += [json.loads(victim.stdout.readline()) for _ in range(20)]
        victim.kill()
    for victim in victims:
        acknowledged += told_by(victim)
    for process in others:
        acknowledged += told_by(process)
    assert [line for line in acknowledged if line[0] == "error"] == []
    there = check_chains(store, 2)
    assert {(line[0], line[1]): line[2] for line in acknowledged}.items() <= there.items()
    assert len(acknowledged) >= 2 * 20 + 2 * WRITERS * 30
