"""sqlite3's errors as ours: each kind its own error with a way out, at the edge of every call."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from counterfoil.adapters.filesystem.mounts import Mount
from counterfoil.adapters.shared import handles
from counterfoil.adapters.sqlite.faults import translate
from counterfoil.errors import (
    HandleForked,
    InternalError,
    LedgerNotFound,
    NetworkFileSystem,
    SchemaUnknown,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreFull,
    StoreIO,
    StoreReadOnly,
)
from counterfoil.store.unit import Receipt
from counterfoil.testing.events import SampleStream
from tests.unit.adapters.sqlite.conftest import receipt, refusal


def sqlite_error(code, name, text="it failed"):
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode, error.sqlite_errorname = code, name
    return error


@pytest.mark.parametrize(
    "code,name,kind,retryable",
    [
        (5, "SQLITE_BUSY", StoreBusy, True),
        (261, "SQLITE_BUSY_RECOVERY", StoreBusy, True),
        (6, "SQLITE_LOCKED", StoreBusy, True),
        (13, "SQLITE_FULL", StoreFull, True),
        (8, "SQLITE_READONLY", StoreReadOnly, False),
        (1544, "SQLITE_READONLY_DIRECTORY", StoreReadOnly, False),
        (3, "SQLITE_PERM", StoreReadOnly, False),
        (11, "SQLITE_CORRUPT", StoreCorrupt, False),
        (26, "SQLITE_NOTADB", StoreCorrupt, False),
        (10, "SQLITE_IOERR", StoreIO, True),
        (1034, "SQLITE_IOERR_FSYNC", StoreIO, True),
        (7, "SQLITE_NOMEM", StoreIO, True),
        (21, "SQLITE_MISUSE", InternalError, False),
    ],
)
def test_each_code_of_sqlite_has_its_error_with_a_way_out(tmp_path, code, name, kind, retryable):
    error = translate(sqlite_error(code, name), tmp_path, "write to")
    assert type(error) is kind
    assert error.retryable is retryable
    assert error.hint
    assert name in str(error)
    assert str(tmp_path) in str(error)


@pytest.mark.parametrize("there,kind", [(False, LedgerNotFound), (True, StoreReadOnly)])
def test_a_file_that_cannot_be_opened_is_missing_or_forbidden(tmp_path, there, kind):
    path = tmp_path / "ledger.db"
    if there:
        path.touch()
    assert type(translate(sqlite_error(14, "SQLITE_CANTOPEN"), path, "open")) is kind


def test_a_missing_table_is_an_unknown_schema(tmp_path):
    error = translate(sqlite_error(1, "SQLITE_ERROR", "no such table: event"), tmp_path, "read")
    assert type(error) is SchemaUnknown


# ---- met for real --------------------------------------------------------------------------------------------------


def test_a_file_locked_by_another_program_is_busy_after_the_deadline_and_nothing_is_recorded(ledger, stream):
    store = ledger.open(busy_s=0.05)
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        error = refusal(store, stream.unit(stream.event()), StoreBusy)
        assert error.retryable
        other.execute("ROLLBACK")
    assert store.head(stream.stream_id).sequence == 3
    receipt(store, stream.unit(stream.event()))


def test_a_full_disk_refuses_the_unit_and_the_store_goes_on_when_there_is_room(store, stream):
    connection = store._engine.open()
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    unit = stream.unit(*(stream.event("x" * 9000, pack="never") for _ in range(3)))
    error = refusal(store, unit, StoreFull)
    assert "same event ids" in error.hint
    assert store.head(stream.stream_id).sequence == 3
    # The connection that met the error was given up, and the limit with it.
    assert receipt(store, unit).duplicate is False


def test_a_damaged_page_is_named_as_corruption(ledger, store, stream):
    receipt(store, stream.unit(*(stream.event("x" * 3000, pack="never") for _ in range(60))))
    store.close()
    pages = ledger.path.stat().st_size // 4096
    with ledger.path.open("r+b") as file:
        for page in range(pages - 40, pages):
            file.seek(page * 4096)
            file.write(b"\xff" * 4096)
    reader = ledger.open(read_only=True)
    with pytest.raises(StoreCorrupt, match="cannot read"):
        reader.read(stream.stream_id, limit=1000)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_that_is_no_database_is_named_as_damaged(ledger, read_only):
    ledger.directory.mkdir()
    ledger.path.write_bytes(b"This was a ledger once. " * 500)
    with pytest.raises(StoreCorrupt, match="SQLITE_NOTADB"):
        ledger.open(read_only=read_only)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_network_file_system_is_refused_and_nothing_is_made(ledger, read_only):
    with pytest.raises((NetworkFileSystem, LedgerNotFound)):
        ledger.open(read_only=read_only, mounts=lambda: [Mount("/", "nfs4")])
    assert not ledger.path.exists()


@pytest.mark.parametrize("read_only", [False, True])
def test_a_ledger_on_a_network_file_system_is_not_opened(ledger, store, read_only):
    store.close()
    with pytest.raises(NetworkFileSystem, match="nfs4"):
        ledger.open(read_only=read_only, mounts=lambda: [Mount("/", "nfs4")])


def test_no_ledger_is_said_plainly(ledger):
    with pytest.raises(LedgerNotFound):
        ledger.open(create=False)
    ledger.directory.mkdir()
    with pytest.raises(LedgerNotFound, match="no ledger in"):
        ledger.open(create=False)
    assert list(ledger.directory.iterdir()) == []


def test_a_ledger_taken_away_while_it_is_open_takes_no_more_appends(ledger, store, stream):
    ledger.path.rename(ledger.path.with_name("elsewhere.db"))
    store._engine._look_at = 0.0
    error = refusal(store, stream.unit(stream.event()), StoreIO)
    assert "deleted, moved or replaced" in str(error)


def test_a_closed_store_refuses_reading_and_writing(store, stream):
    store.close()
    with pytest.raises(StoreClosed):
        store.head(stream.stream_id)
    with pytest.raises(StoreClosed):
        store.append([stream.unit(stream.event())])


# ---- forks ---------------------------------------------------------------------------------------------------------

pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


def in_child(work):
    """Exit code of a forked child: 0 if ``work`` returned true."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.processes
@pytest.mark.parametrize(
    "use",
    [
        lambda store, stream: store.append([stream.unit(stream.event())]),
        lambda store, stream: store.head(stream.stream_id),
        lambda store, stream: store.claim(stream.stream_id, "me", 1000, 0),
        lambda store, _: store.snapshot().__enter__(),
        lambda store, _: store.feed(),
    ],
    ids=["append", "head", "claim", "snapshot", "feed"],
)
def test_a_forked_child_is_refused(store, stream, use):
    def work():
        with pytest.raises(HandleForked) as refused:
            use(store, stream)
        return "open the ledger again" in refused.value.hint

    assert in_child(work) == 0


@pytest.mark.processes
def test_a_child_that_ends_with_the_parents_handle_does_it_no_harm(store, stream):
    store.head(stream.stream_id)

    def work():
        store.close()
        return True

    assert in_child(work) == 0
    receipt(store, stream.unit(stream.event()))
    assert store.head(stream.stream_id).sequence == 4


@pytest.mark.processes
def test_a_forked_child_opens_the_ledger_again_and_both_append(ledger, store, stream):
    def work():
        mine = ledger.open()
        outcomes = mine.append([stream.unit(stream.event())]).result()
        mine.close()
        return isinstance(outcomes[0], Receipt)

    assert in_child(work) == 0
    other = SampleStream(stream.ids)
    receipt(store, other.unit(other.event(), create=True))
    assert store.head(stream.stream_id).sequence == 4


@pytest.mark.processes
def test_what_a_child_records_is_kept_when_its_parent_closes_first(ledger, store, stream):
    receipt(store, stream.unit(stream.event()))
    closed, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            mine = ledger.open()
            receipt(mine, stream.unit(stream.event()))
            os.read(closed, 1)
            receipt(mine, stream.unit(stream.event()))
            # Killed, as it were: nobody closes the log in order.
            code = 0
        finally:
            os._exit(code)
    # The last one who closes the ledger takes its log away, and must not overlook the child.
    store.close()
    os.write(told, b".")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    again = ledger.open()
    assert again.head(stream.stream_id).sequence == 6
    assert len(list(again.read(stream.stream_id))) == 6
    again.close()


@pytest.mark.processes
def test_a_child_forked_while_somebody_reads_is_refused_and_the_parent_goes_on(
    ledger, store, stream, monkeypatch
):
    monkeypatch.setattr(handles, "REST_S", 0.0)

    def work():
        with pytest.raises(HandleForked) as refused:
            ledger.open()
        return "spawn" in refused.value.hint

    with store.snapshot() as reader:
        assert in_child(work) == 0
        assert reader.head(stream.stream_id).sequence == 3
    receipt(store, stream.unit(stream.event()))
    assert store.head(stream.stream_id).sequence == 4
    # Nothing is in use any more, so the next child may.
    assert in_child(lambda: ledger.open().head(stream.stream_id).sequence == 4) == 0


@pytest.mark.processes
def test_a_fork_waits_for_whoever_writes(ledger, store, stream, monkeypatch):
    monkeypatch.setattr(handles, "REST_S", 60.0)
    writing, go = threading.Event(), threading.Event()
    other = SampleStream(stream.ids)

    def hold():
        writing.set()
        assert go.wait(60)

    thread = threading.Thread(target=lambda: store._writer.call(hold).result(60))
    thread.start()
    assert writing.wait(60)
    later = threading.Timer(0.05, go.set)
    later.start()
    assert in_child(lambda: ledger.open().head(stream.stream_id).sequence == 3) == 0
    assert go.is_set()
    thread.join(60)
    receipt(store, other.unit(other.event(), create=True))


def test_paths_with_any_character_are_opened(tmp_path, ledger):
    odd = type(ledger)(Path(tmp_path / "a b?c#d%20ü"))
    store = odd.open()
    assert store.streams() == []
    store.close()
    assert odd.open(read_only=True).streams() == []
    odd.close()
