"""Many processes append to one stream while a reader holds a long transaction: no error, no gap, no fork."""

from __future__ import annotations

import os

import pytest

from counterfoil.adapters.sqlite import open_sqlite
from counterfoil.store.unit import Receipt
from counterfoil.testing.aftermath import SAMPLE_TABLE, Aftermath, sample_stream, sample_unit
from counterfoil.testing.events import SAMPLE_LEDGER
from counterfoil.testing.manual import SequentialIds

PROCESSES = 8
APPENDS = 500

pytestmark = [pytest.mark.processes, pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")]


def append_many(ledger, number, begin):
    """What one process does; its exit code says how it went."""
    stream = sample_stream(0)
    ids = SequentialIds(f"process {number}")
    store = open_sqlite(ledger, tables=[SAMPLE_TABLE])
    os.read(begin, 1)
    for _ in range(APPENDS):
        outcome = store.append([sample_unit([stream], [ids.new("evt")])]).result()[0]
        assert isinstance(outcome, Receipt), outcome
    store.close()


def start(ledger, number, begin):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            append_many(ledger, number, begin)
            code = 0
        finally:
            os._exit(code)
    return pid


def test_eight_processes_on_one_stream_while_a_reader_holds_a_long_transaction(tmp_path):
    ledger = tmp_path / "ledger"
    stream = sample_stream(0)
    store = open_sqlite(ledger, tables=[SAMPLE_TABLE], create=True, ledger_id=SAMPLE_LEDGER)
    store.append([sample_unit([stream], [stream.ids.new("evt")], create=True)]).result()
    store.close()
    begin, go = os.pipe()
    writers = [start(ledger, number, begin) for number in range(PROCESSES)]
    reader = open_sqlite(ledger, tables=[SAMPLE_TABLE], read_only=True)
    with reader.snapshot() as snapshot:
        assert len(snapshot.read(stream.stream_id)) == 1
        os.write(go, b"x" * PROCESSES)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in writers]
        assert len(snapshot.read(stream.stream_id)) == 1
    reader.close()
    os.close(begin)
    os.close(go)
    assert codes == [0] * PROCESSES
    aftermath = Aftermath(ledger)
    aftermath.look()
    assert aftermath.problems == []
    assert len(aftermath.present) == PROCESSES * APPENDS + 1
