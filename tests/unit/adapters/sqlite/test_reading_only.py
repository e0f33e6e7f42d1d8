"""Handles that only read: beside a writer, after a crash, and where this user may write nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from counterfoil.adapters.sqlite import open_sqlite
from counterfoil.adapters.sqlite.readers import Stillness
from counterfoil.errors import LedgerNotFound, StoreBusy, StoreReadOnly
from counterfoil.store.unit import Lease
from tests.unit.adapters.sqlite.conftest import THING, Ledger, receipt

NOBODY = 65534


def test_a_reader_sees_what_a_writer_appends_beside_it(ledger, store, stream):
    reader = ledger.open(read_only=True)
    receipt(store, stream.unit(stream.event()))
    assert reader.head(stream.stream_id).sequence == 4


@pytest.mark.parametrize(
    "write",
    [
        lambda store, stream: store.append([stream.unit(stream.event())]),
        lambda store, stream: store.claim(stream.stream_id, "me", 1000, 0),
        lambda store, stream: store.renew(Lease(stream.stream_id, 0, "me", 0), 1000),
        lambda store, stream: store.release(Lease(stream.stream_id, 0, "me", 0)),
        lambda store, stream: store.rebuild_rows(stream.stream_id, []),
        lambda store, stream: store.remove_stream(stream.stream_id, "retention"),
    ],
    ids=["append", "claim", "renew", "release", "rebuild", "remove"],
)
def test_a_reader_refuses_to_write(ledger, stream, write):
    reader = ledger.open(read_only=True)
    assert reader.read_only
    with pytest.raises(StoreReadOnly, match="opened for reading only"):
        write(reader, stream)


def test_a_reader_makes_nothing(ledger):
    with pytest.raises(LedgerNotFound):
        ledger.open(read_only=True)
    assert not ledger.directory.exists()


def test_a_log_left_by_a_crash_is_read(ledger, store, stream):
    copy = Ledger(ledger.directory.with_name("copy"))
    shutil.copytree(ledger.directory, copy.directory)
    assert (copy.directory / "ledger.db-wal").stat().st_size > 0
    reader = copy.open(read_only=True)
    assert reader.head(stream.stream_id).sequence == 3
    reader.close()


# ---- a directory without write permission: root may write everywhere, so a child becomes somebody else ------------


@pytest.fixture
def closed(store, stream):
    """A ledger that everybody may read and nobody but its owner write, cleanly closed."""
    receipt(store, stream.unit(stream.event()))
    directory = Path(tempfile.mkdtemp(prefix="counterfoil-"))
    store.close()
    place = directory / "ledger"
    shutil.copytree(store._path.parent, place)
    for path in (directory, place):
        path.chmod(0o755)
    for path in place.iterdir():
        path.chmod(0o644)
    yield place, stream.stream_id
    place.chmod(0o755)
    shutil.rmtree(directory)


def as_stranger(place, work):
    """Run ``work`` as a user who may not write there; what it returned, as text."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            place.chmod(0o555)
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
            os.write(writing, str(work()).encode())
        except BaseException as error:  # noqa: BLE001 - told to the parent, which asserts on it
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        answer = told.read()
    os.waitpid(pid, 0)
    return answer


pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


@pytest.mark.processes
def test_opening_for_writing_where_nothing_can_be_written_says_so(closed):
    place, _ = closed
    told = as_stranger(place, lambda: open_sqlite(place, tables=[THING]))
    assert told.startswith("StoreReadOnly: ")
    assert "read_only=True" in told


@pytest.mark.processes
def test_a_closed_ledger_is_read_where_nothing_can_be_written(closed):
    place, stream_id = closed

    def work():
        store = open_sqlite(place, tables=[THING], read_only=True)
        with store.snapshot() as snapshot:
            assert len(snapshot.read(stream_id)) == 4
        return store.head(stream_id).sequence

    assert as_stranger(place, work) == "4"
    assert sorted(path.name for path in place.iterdir()) == ["ledger.db", "ledger.queue", "ledger.turn"]


@pytest.mark.processes
def test_a_ledger_that_somebody_else_writes_is_read_where_nothing_can_be_written(closed):
    place, stream_id = closed
    writer = open_sqlite(place, tables=[THING])
    writer.release(writer.claim(stream_id, "me", 1000, 0).lease)
    for path in place.iterdir():
        path.chmod(0o644)

    def work():
        return open_sqlite(place, tables=[THING], read_only=True).head(stream_id).token

    assert as_stranger(place, work) == "1"
    place.chmod(0o755)
    writer.close()


@pytest.mark.processes
def test_a_log_without_its_index_says_what_to_do_where_nothing_can_be_written(closed):
    place, _ = closed
    (place / "ledger.db-wal").write_bytes(b"\0" * 32)
    told = as_stranger(place, lambda: open_sqlite(place, tables=[THING], read_only=True).streams())
    assert told.startswith("StoreReadOnly: "), told


@pytest.mark.usefixtures("stream")
def test_what_was_read_without_a_lock_while_somebody_wrote_is_not_handed_out(ledger, store, monkeypatch):
    store.close()
    monkeypatch.setattr("counterfoil.adapters.sqlite.readers.writable", lambda _: False)
    reader = ledger.open(read_only=True)
    assert len(reader.streams()) == 1
    stream_id = reader.streams()[0].stream_id
    with pytest.raises(StoreBusy, match="written while it was read"), reader.snapshot() as snapshot:
        assert len(snapshot.streams()) == 1
        ledger.open().claim(stream_id, "me", 1000, 0)
    # The next look takes the files as they now are.
    assert reader.head(stream_id).token == 1


def test_stillness_ends_with_a_change_of_the_file_or_a_log_beside_it(tmp_path):
    path = tmp_path / "ledger.db"
    path.write_bytes(b"one")
    still = Stillness.of(path)
    assert still.holds()
    log = tmp_path / "ledger.db-wal"
    log.touch()
    assert not still.holds()
    log.unlink()
    still = Stillness.of(path)
    path.write_bytes(b"two!")
    assert not still.holds()
