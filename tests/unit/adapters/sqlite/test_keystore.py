"""keys.db: durable, shared by processes, and plain about what is wrong with it."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading

import pytest
from msgspec.structs import replace

from counterfoil.abc import KeyRow, SubjectRow
from counterfoil.adapters.sqlite import keystore as keystore_module
from counterfoil.adapters.sqlite.keystore import SqliteKeyStore
from counterfoil.errors import (
    KeyStoreMissing,
    SchemaTooNew,
    SchemaUnknown,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreIO,
    StoreReadOnly,
)
from counterfoil.testing import SequentialIds

KEK = "kek_01J9ZC3Y3V7W2R5T8QK4M6N0PK"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "keys.db"


@pytest.fixture
def keys(path):
    store = SqliteKeyStore(path, create=True)
    yield store
    store.close()


def row_of(key_id, wrapped=b"wrapped"):
    return KeyRow(key_id, "str_a", "", wrapped, b"check")


def behind(path, *statements):
    """Change the file behind the store's back."""
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


# ---- the file ----


def test_the_file_is_for_its_owner_only(path):
    before = os.umask(0)
    try:
        SqliteKeyStore(path, create=True).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_file_says_at_its_beginning_what_it_is(keys, path):
    assert path.read_bytes()[68:72] == b"CFK1"


def test_the_name_of_a_new_file_is_synced_in_its_directory(path, monkeypatch):
    synced, real = [], os.fsync

    def watch(handle):
        synced.append(os.fstat(handle).st_ino)
        real(handle)

    monkeypatch.setattr(os, "fsync", watch)
    SqliteKeyStore(path, create=True).close()
    assert path.parent.stat().st_ino in synced


def test_a_key_store_cannot_be_made_where_there_is_no_directory(tmp_path):
    with pytest.raises(StoreError, match="make the key store"):
        SqliteKeyStore(tmp_path / "nowhere" / "keys.db", create=True)


def test_the_file_is_whole_by_itself_whenever_nobody_writes(keys, path, tmp_path):
    keys.put([row_of("dk_1")])
    copy = tmp_path / "copy.db"
    copy.write_bytes(path.read_bytes())
    other = SqliteKeyStore(copy)
    assert other.get("dk_1") == row_of("dk_1")
    assert other.store_id == keys.store_id
    other.close()


@pytest.mark.parametrize("damage", [b"no database", None], ids=["first page", "tables"])
def test_of_a_damaged_one_nobody_is_told_to_restore_the_events(keys, path, damage):
    keys.put([row_of("dk_1")])
    keys.close()
    kept = path.read_bytes()
    path.write_bytes(damage * 100 if damage else kept[:100] + bytes(len(kept) - 100))
    with pytest.raises(StoreCorrupt) as told:
        SqliteKeyStore(path)
    assert "put keys.db and kek/ back" in told.value.hint
    assert "restore the last backup" not in told.value.hint


def test_a_put_is_synced_before_it_returns(keys):
    settings = {
        name: keys._connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous")
    }
    assert settings == {"journal_mode": "truncate", "synchronous": 2}


def test_the_bytes_of_a_destroyed_key_are_overwritten(keys, path):
    secret = b"\xa5\x5a" * 16
    keys.put([row_of("dk_1", secret), row_of("dk_2")])
    assert secret in path.read_bytes()
    keys.delete(["dk_1"])
    for file in path.parent.iterdir():
        assert secret not in file.read_bytes()


def test_creating_again_opens_what_is_there(keys, path):
    keys.put([row_of("dk_1")])
    again = SqliteKeyStore(path, create=True)
    assert again.store_id == keys.store_id
    assert again.get("dk_1") == row_of("dk_1")
    again.close()


def test_two_key_stores_have_different_ids(keys, tmp_path):
    other = SqliteKeyStore(tmp_path / "other.db", create=True)
    assert other.store_id != keys.store_id
    other.close()


def test_many_threads_that_create_at_once_get_one_key_store(path):
    gate, found = threading.Barrier(6), []

    def create():
        gate.wait()
        store = SqliteKeyStore(path, create=True)
        found.append(store.store_id)
        store.close()

    threads = [threading.Thread(target=create) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert len(set(found)) == 1


# ---- what may be wrong with it ----


def test_a_key_store_that_is_not_there_is_missing_and_not_made(path):
    with pytest.raises(KeyStoreMissing, match=r"keys\.db"):
        SqliteKeyStore(path)
    assert not path.exists()


def test_a_key_store_whose_making_was_interrupted_is_refused_and_can_be_made_whole(path):
    path.touch()
    with pytest.raises(SchemaUnknown, match="empty"):
        SqliteKeyStore(path)
    SqliteKeyStore(path, create=True).close()
    SqliteKeyStore(path).close()


@pytest.mark.parametrize("create", [False, True])
def test_another_database_is_refused_and_left_alone(path, create):
    behind(path, "CREATE TABLE something (else_)")
    before = path.read_bytes()
    with pytest.raises(SchemaUnknown, match="not a key store"):
        SqliteKeyStore(path, create=create)
    assert path.read_bytes() == before


def test_a_newer_schema_is_refused(keys, path):
    keys.close()
    behind(path, "PRAGMA user_version = 2")
    with pytest.raises(SchemaTooNew):
        SqliteKeyStore(path)


def test_a_key_store_without_its_id_is_refused(keys, path):
    keys.close()
    behind(path, "DELETE FROM meta")
    with pytest.raises(SchemaUnknown):
        SqliteKeyStore(path)


def test_a_file_that_is_no_database_is_corrupt(path):
    path.write_bytes(b"these are not the bytes of a database " * 200)
    with pytest.raises(StoreCorrupt):
        SqliteKeyStore(path)


def test_a_page_that_was_overwritten_is_corrupt(keys, path):
    ids = SequentialIds()
    keys.put([row_of(ids.new("dk"), bytes(40)) for _ in range(2000)])
    keys.close()
    with path.open("r+b") as file:
        file.seek(2 * 4096)
        file.write(b"\xee" * (path.stat().st_size - 2 * 4096))
    store = SqliteKeyStore(path)
    with pytest.raises(StoreCorrupt):
        store.scan(limit=10_000)
    store.close()


def test_a_key_store_that_another_process_holds_is_busy(keys, path, monkeypatch):
    monkeypatch.setattr(keystore_module, "BUSY_S", 0.05)
    impatient = SqliteKeyStore(path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreBusy) as caught:
        impatient.put([row_of("dk_1")])
    assert caught.value.retryable
    holder.execute("ROLLBACK")
    holder.close()
    impatient.put([row_of("dk_1")])
    impatient.close()


def test_a_key_store_that_cannot_be_written_can_be_read(keys, path, monkeypatch):
    keys.put([row_of("dk_1")])
    monkeypatch.setattr(keystore_module.os, "access", lambda place, mode: False)
    reading = SqliteKeyStore(path)
    assert reading.get("dk_1") == row_of("dk_1")
    with pytest.raises(StoreReadOnly):
        reading.put([row_of("dk_2")])
    reading.close()


def test_a_row_that_was_edited_is_handed_out_as_it_lies_there(keys, path):
    keys.put([row_of("dk_1")])
    behind(path, "UPDATE data_key SET stream_id = CAST(x'ff' AS TEXT)")
    row = keys.get("dk_1")
    assert row.stream_id == b"\xff"
    assert row.wrapped == b"wrapped"


def test_an_error_at_commit_drops_the_handle_and_the_next_call_sees_what_is_on_disk(keys, path):
    class Broken:
        """Fails at COMMIT and cannot roll back."""

        def __init__(self, connection):
            self.connection = connection

        def execute(self, sql, *parameters):
            if sql in {"COMMIT", "ROLLBACK"}:
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_IOERR, "SQLITE_IOERR_FSYNC"
                raise error
            return self.connection.execute(sql, *parameters)

        def executemany(self, *arguments):
            return self.connection.executemany(*arguments)

        def close(self):
            self.connection.close()

    keys._connection = Broken(keys._connection)
    with pytest.raises(Exception, match="disk I/O error") as caught:
        keys.put([row_of("dk_1")])
    assert caught.value.code == "store_io"
    assert keys.get("dk_1") is None
    keys.put([row_of("dk_1")])
    assert keys.get("dk_1") == row_of("dk_1")


# ---- processes ----

CHILD = """
import sys
from pathlib import Path
from counterfoil.adapters.sqlite.keystore import SqliteKeyStore
from counterfoil.abc import KeyRow

store = SqliteKeyStore(Path(sys.argv[1]), create=True)
for number in range(20):
    store.put([KeyRow(f"dk_{sys.argv[2]}_{number:02}", "str_a", "", bytes(32), bytes(16))])
store.close()
"""

FORKING = """
import os, sys
from pathlib import Path
from counterfoil.adapters.sqlite.keystore import SqliteKeyStore
from counterfoil.abc import KeyRow

def row(key_id):
    return KeyRow(key_id, "str_a", "", bytes(32), bytes(16))

store = SqliteKeyStore(Path(sys.argv[1]), create=True)
store.put([row("dk_before")])
child = os.fork()
if child == 0:
    assert store.get("dk_before") == row("dk_before")
    for number in range(10):
        store.put([row(f"dk_child_{number}")])
    store.close()
    os._exit(0)
for number in range(10):
    store.put([row(f"dk_parent_{number}")])
assert os.waitpid(child, 0)[1] == 0
assert len(store.scan()) == 21
"""


def python(script, *arguments):
    return subprocess.Popen([sys.executable, "-W", "error", "-c", textwrap.dedent(script), *arguments])


@pytest.mark.processes
def test_keys_put_by_several_processes_are_all_there(keys, path):
    children = [python(CHILD, str(path), name) for name in "abc"]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    assert len(keys.scan()) == 60


@pytest.mark.processes
def test_parent_and_child_go_on_after_a_fork(path):
    assert python(FORKING, str(path)).wait(60) == 0
    store = SqliteKeyStore(path)
    assert len(store.scan()) == 21
    store.close()


def test_no_fork_happens_in_the_middle_of_a_write(keys):
    held = threading.Event()
    forked = []

    def fork():
        keystore_module._before_fork()
        forked.append(held.is_set())
        keystore_module._after_fork_in_parent()

    with keys._writing():
        thread = threading.Thread(target=fork)
        thread.start()
        held.set()
    thread.join(30)
    assert forked == [True]
    keys.put([row_of("dk_1")])


def test_the_child_of_a_fork_does_not_touch_the_parents_handle(keys):
    parents = keys._connection
    keystore_module._before_fork()
    keystore_module._after_fork_in_child()
    assert keys._connection is None
    keys.put([row_of("dk_1")])
    assert keys._connection is not parents
    assert parents in keystore_module._OF_THE_PARENT
    keystore_module._OF_THE_PARENT.remove(parents)
    parents.close()


def test_links_and_their_order_are_kept_when_rows_are_rewrapped(keys):
    keys.replace("default", KEK, [], [])
    row = KeyRow("dk_1", "str_a", KEK, b"wrapped", b"check")
    links = [SubjectRow("dk_1", KEK, bytes([n]), b"box") for n in (3, 1, 2)]
    keys.put([row], links)
    positions = [place for place, _ in keys.scan_subjects()]
    after = f"{KEK[:-1]}Z"
    renewed = [replace(link, kek_id=after) for link in links]
    keys.replace("default", after, [replace(row, kek_id=after)], renewed)
    assert keys.scan_subjects() == list(zip(positions, renewed, strict=True))


@pytest.mark.parametrize("what", ["moved", "replaced"])
def test_a_key_is_not_put_into_a_file_that_was_taken_away_and_that_is_said(keys, path, tmp_path, what):
    path.rename(tmp_path / "away")
    if what == "replaced":
        SqliteKeyStore(path, create=True).close()
    with pytest.raises(StoreIO, match="deleted, moved or replaced") as refused:
        keys.put([row_of("dk_1")])
    assert "put the ledger's files back" in refused.value.hint
