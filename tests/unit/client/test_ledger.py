"""Opening a ledger: what is made, what is found again, what is refused with a way out."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat

import pytest

import counterfoil
from counterfoil.adapters.sqlite.keystore import SqliteKeyStore
from counterfoil.client import place as where
from counterfoil.client.lost import KEYS_PER_PAGE
from counterfoil.core.genesis import parse_genesis
from counterfoil.errors import (
    ConfigInvalid,
    ContentUnavailable,
    HandleForked,
    InputError,
    InvalidForm,
    KeyStoreMissing,
    KeyWithheld,
    LedgerLost,
    LedgerNotFound,
    ReviewNotFound,
    RunNotFound,
    StoreClosed,
    StoreCorrupt,
    StoreReadOnly,
    StreamNotFound,
)


@pytest.fixture
def place(tmp_path):
    return tmp_path / "ledger"


@pytest.fixture
def filled(place):
    """A closed ledger with one conversation in it."""
    with counterfoil.open(place) as ledger, ledger.run("a", conversation="case-1", message="hello") as run:
        run.finish("done")
    return place


# ---- making and finding -------------------------------------------------------------------------------------------


def test_a_missing_ledger_is_made_with_its_keys_beside_it(place):
    counterfoil.open(place).close()
    assert {"ledger.db", "keys.db", "kek"} <= {path.name for path in place.iterdir()}
    (kek,) = (place / "kek").iterdir()
    assert stat.S_IMODE(kek.stat().st_mode) == 0o600


def test_a_new_ledger_says_which_key_store_and_epoch_it_began_with(place):
    with counterfoil.open(place) as ledger:
        (event,) = ledger.events(ledger.streams.id_of("keys"))
        assert (event.type, event.data["epoch_to"]) == ("keys.rotated", 1)
        assert event.content == {"key_store": ledger.keyring.store.store_id, "kek": ledger.keyring.epoch()}


def test_opening_again_finds_the_same_ledger_and_adds_nothing(filled):
    with counterfoil.open(filled) as ledger:
        first = (ledger.id, [stored.head for stored in ledger.store.streams()])
    with counterfoil.open(filled) as ledger:
        assert (ledger.id, [stored.head for stored in ledger.store.streams()]) == first
        assert [info.name for info in ledger.conversations()] == ["case-1"]


def test_without_create_a_missing_ledger_is_an_error_and_nothing_is_made(place):
    with pytest.raises(LedgerNotFound):
        counterfoil.open(place, create=False)
    assert not place.exists()


def test_a_directory_with_other_files_keeps_them(place):
    place.mkdir()
    (place / "notes.txt").write_text("mine")
    counterfoil.open(place).close()
    assert (place / "notes.txt").read_text() == "mine"


def test_a_file_that_is_no_ledger_is_refused(place):
    place.mkdir()
    (place / "ledger.db").write_text("not a database at all, only text " * 50)
    with pytest.raises(StoreCorrupt, match="not a database"):
        counterfoil.open(place)


def test_a_place_of_an_unknown_kind_is_refused_with_those_that_are_known():
    with pytest.raises(InputError, match="not in this version") as refused:
        counterfoil.open("mysql://localhost/ledger")
    assert "postgresql://" in refused.value.hint


def test_a_ledger_in_memory_ends_with_its_handle():
    with counterfoil.open(":memory:") as one, counterfoil.open(":memory:") as two:
        with one.run("a", conversation="c"):
            pass
        assert two.conversations() == []


def test_a_tenant_is_a_label(place):
    with pytest.raises(InvalidForm):
        counterfoil.open(place, tenant="ACME & sons")


def test_tenants_of_one_directory_see_their_own_conversations(place):
    with counterfoil.open(place, tenant="one") as one, one.run("a", conversation="c") as run:
        pass
    with counterfoil.open(place, tenant="two") as two:
        assert two.conversations() == []
        assert two.runs() == []
        with pytest.raises(StreamNotFound):
            two.stream_of("c")
        with pytest.raises(RunNotFound):
            two.run_row(run.id)


# ---- content ----------------------------------------------------------------------------------------------------


def test_content_is_encrypted_by_default(filled):
    assert not any(b"hello" in path.read_bytes() for path in filled.iterdir() if path.is_file())


def test_a_clear_ledger_keeps_content_in_the_open_and_needs_no_kek(place):
    with (
        counterfoil.open(place, content="clear") as ledger,
        ledger.run("a", conversation="c", message="hello"),
    ):
        pass
    assert not (place / "kek").exists()
    with counterfoil.open(place) as ledger:
        assert ledger.content == "clear"
        assert parse_genesis(ledger.store.stream(ledger.stream_of("c")).genesis).content == "clear"
        assert next(iter(ledger.events("c"))).content["name"] == "c"


def test_the_mode_of_content_does_not_change_later(filled):
    with pytest.raises(ConfigInvalid, match="sealed"):
        counterfoil.open(filled, content="clear")
    with pytest.raises(InvalidForm):
        counterfoil.open(filled, content="encrypted")


# ---- the key store is gone --------------------------------------------------------------------------------------


@pytest.fixture
def keyless(filled):
    (filled / "keys.db").unlink()
    return filled


def test_without_the_key_store_headers_are_read_and_content_is_withheld(keyless):
    with counterfoil.open(keyless) as ledger:
        (info,) = ledger.conversations()
        assert (info.name, info.name_state, info.agent) == (None, "withheld", "a")
        events = list(ledger.events(info.stream_id))
        assert [event.type for event in events][-1] == "run.finished"
        assert {event.content_state for event in events} == {"withheld"}


@pytest.mark.parametrize(
    "write",
    [
        lambda ledger: ledger.run("a", conversation="case-1"),
        lambda ledger: ledger.recover(),
        lambda ledger: ledger.settle("rev_01J9ZC3Y3V7W2R5T8QK4M6N0PS", "failed", by="Jane", reason="x"),
        lambda ledger: ledger.stream_of("case-1"),
    ],
)
def test_without_the_key_store_every_write_is_refused_with_the_way_out(keyless, write):
    with counterfoil.open(keyless) as ledger, pytest.raises(KeyStoreMissing) as refused:
        write(ledger)
    assert refused.value.hint


def test_a_missing_key_store_is_never_made_silently(keyless):
    counterfoil.open(keyless).close()
    assert not (keyless / "keys.db").exists()


def test_a_key_store_that_comes_back_is_taken_again(filled, tmp_path):
    shutil.move(filled / "keys.db", tmp_path / "keys.db")
    counterfoil.open(filled).close()
    shutil.move(tmp_path / "keys.db", filled / "keys.db")
    with counterfoil.open(filled) as ledger, ledger.run("a", conversation="case-1") as run:
        assert not run.done


def test_the_key_store_of_another_ledger_is_refused_for_writing(filled, tmp_path):
    counterfoil.open(tmp_path / "other").close()
    shutil.copy(tmp_path / "other" / "keys.db", filled / "keys.db")
    with counterfoil.open(filled) as ledger:
        with pytest.raises(KeyStoreMissing):
            ledger.run("a")
        assert len(ledger.conversations()) == 1


# ---- reading only -----------------------------------------------------------------------------------------------


def test_a_ledger_opened_for_reading_refuses_to_write(filled):
    with counterfoil.open(filled, read_only=True) as ledger:
        assert ledger.read_only
        assert next(event.type for event in ledger.events("case-1")) == "conversation.opened"
        with pytest.raises(StoreReadOnly):
            ledger.run("a", conversation="case-1")


def test_a_tenant_that_never_wrote_can_be_looked_at(filled):
    with counterfoil.open(filled, tenant="new", read_only=True) as ledger:
        assert ledger.conversations() == []
        with pytest.raises(StreamNotFound):
            ledger.stream_of("case-1")


def test_opening_for_reading_makes_nothing(place):
    with pytest.raises(LedgerNotFound):
        counterfoil.open(place, read_only=True)
    assert not place.exists()


# ---- the handle -------------------------------------------------------------------------------------------------


def test_a_closed_ledger_refuses_and_closing_twice_is_fine(place):
    ledger = counterfoil.open(place)
    ledger.close()
    ledger.close()
    with pytest.raises(StoreClosed):
        ledger.conversations()


def test_a_handle_used_after_a_fork_refuses(place):
    ledger = counterfoil.open(place)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            ledger.run("a").__enter__()
        except HandleForked:
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    ledger.close()


def test_unknown_names_are_not_found(filled):
    with counterfoil.open(filled) as ledger:
        with pytest.raises(StreamNotFound, match="case-2"):
            ledger.stream_of("case-2")
        with pytest.raises(RunNotFound):
            ledger.run_row("run_01J9ZC3Y3V7W2R5T8QK4M6N0PR")
        with pytest.raises(RunNotFound):
            ledger.run_row("garbage")
        with pytest.raises(ReviewNotFound):
            ledger.settle("garbage", "failed", by="Jane", reason="x")


# ---- the database is gone ---------------------------------------------------------------------------------------


def lose_by_removing(place):
    for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
        (place / name).unlink(missing_ok=True)


def lose_by_emptying(place):
    (place / "ledger.db").write_bytes(b"")


def lose_all_tables(place):
    lose_by_removing(place)
    connection = sqlite3.connect(place / "ledger.db")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("VACUUM")
    connection.close()


def lose_all_streams(place):
    lose_by_removing(place)
    counterfoil.open(place.parent / "new").close()
    connection = sqlite3.connect(place.parent / "new" / "ledger.db")
    guards = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for name, _ in guards:
        connection.execute(f"DROP TRIGGER {name}")
    for table in ("event", "event_content", "stream", "head"):
        connection.execute(f"DELETE FROM {table}")
    for _, sql in guards:
        connection.execute(sql)
    connection.commit()
    connection.close()
    shutil.copy(place.parent / "new" / "ledger.db", place / "ledger.db")


LOSSES = [lose_by_removing, lose_by_emptying, lose_all_tables, lose_all_streams]


@pytest.mark.parametrize("lose", LOSSES)
@pytest.mark.parametrize("options", [{}, {"create": False}, {"read_only": True}])
def test_a_lost_database_is_refused_with_the_way_out_and_nothing_is_made(filled, lose, options):
    lose(filled)
    before = {path.name: path.read_bytes() for path in filled.iterdir() if path.suffix == ".db"}
    with pytest.raises(LedgerLost) as refused:
        counterfoil.open(filled, **options)
    assert "backup" in refused.value.hint
    assert {path.name: path.read_bytes() for path in filled.iterdir() if path.suffix == ".db"} == before


def test_the_log_beside_an_emptied_database_is_left_for_whoever_mends_it(filled):
    lose_by_emptying(filled)
    (filled / "ledger.db-wal").write_bytes(b"what was not yet worked in")
    with pytest.raises(LedgerLost):
        counterfoil.open(filled)
    assert (filled / "ledger.db-wal").read_bytes() == b"what was not yet worked in"


def test_the_files_of_keys_alone_tell_of_a_lost_ledger(filled):
    lose_by_removing(filled)
    (filled / "keys.db").unlink()
    with pytest.raises(LedgerLost):
        counterfoil.open(filled)
    assert not (filled / "keys.db").exists()


def test_a_lost_ledger_in_the_clear_is_refused_too(place):
    counterfoil.open(place, content="clear").close()
    lose_by_removing(place)
    with pytest.raises(LedgerLost):
        counterfoil.open(place)


def test_a_ledger_that_another_process_begins_meanwhile_is_not_taken_for_lost(place, monkeypatch):
    real, looks = SqliteKeyStore.scan, iter(["first"])

    def scan(self, after="", limit=1000):
        if limit == KEYS_PER_PAGE and next(looks, None):
            with counterfoil.open(place) as other, other.run("a", conversation="case-1"):
                pass
        return real(self, after, limit)

    monkeypatch.setattr(SqliteKeyStore, "scan", scan)
    with counterfoil.open(place) as ledger:
        assert [info.name for info in ledger.conversations()] == ["case-1"]
    assert next(looks, None) is None


def test_a_key_store_that_is_made_between_the_looks_is_not_taken_for_missing(place, monkeypatch):
    real, looks = where._key_store, iter(["first"])

    def key_store(path, *, create):
        found = real(path, create=create)
        if next(looks, None):
            counterfoil.open(place).close()
        return found

    monkeypatch.setattr(where, "_key_store", key_store)
    with counterfoil.open(place, create=False) as ledger:
        assert not ledger.read_only


def test_a_ledger_whose_keys_were_moved_away_begins_anew(filled, tmp_path):
    lose_by_removing(filled)
    shutil.move(filled / "keys.db", tmp_path / "keys.db")
    shutil.move(filled / "kek", tmp_path / "kek")
    with counterfoil.open(filled) as ledger:
        assert ledger.created
        assert ledger.conversations() == []


# ---- a key-encryption key that is not at hand ---------------------------------------------------------------------


def test_without_the_key_encryption_key_a_reader_still_sees_what_happened(filled, tmp_path):
    shutil.move(filled / "kek", tmp_path / "kek")
    with counterfoil.open(filled, read_only=True) as ledger:
        (known,) = ledger.conversations()
        assert known.name is None
        events = list(ledger.events(known.stream_id))
        assert events[0].type == "conversation.opened"
        with pytest.raises(ContentUnavailable, match="withheld"):
            _ = events[0].content


def test_without_the_key_encryption_key_a_name_is_answered_with_the_way_out(filled, tmp_path):
    shutil.move(filled / "kek", tmp_path / "kek")
    with (
        counterfoil.open(filled, read_only=True) as ledger,
        pytest.raises(KeyWithheld, match="names cannot") as caught,
    ):
        ledger.stream_of("case-1")
    assert "stream id" in (caught.value.hint or "")


def test_without_the_key_encryption_key_nothing_is_opened_for_writing(filled, tmp_path):
    shutil.move(filled / "kek", tmp_path / "kek")
    with pytest.raises(KeyWithheld):
        counterfoil.open(filled)
