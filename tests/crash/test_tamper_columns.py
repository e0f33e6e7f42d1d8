"""Every column of the tables that are truth: changed behind the store's back, verify names sequence and kind."""

from __future__ import annotations

import pytest

from counterfoil.adapters.sqlite.keystore import SqliteKeyStore
from counterfoil.core.event import Part
from counterfoil.keys.keyring import Keyring
from counterfoil.testing.manual import ManualClock
from tests.crash.tamper import EVENTS

SEQUENCES = range(1, EVENTS + 1)


def kinds(found):
    return {kind for kind, _, _ in found}


# ---- event -------------------------------------------------------------------------------------------------------

COPIES = {
    "event_id": ["evt_01J9ZC3Y3V7W2R5T8QK4M6N0PE", "", "x" * 9],
    "event_type": ["order.lost", "", "order.placed\x00"],
    "run_id": ["run_01J9ZC3Y3V7W2R5T8QK4M6N0PR", "", None],
    "recorded_at": [0, 1_788_273_068_413, -1, 2**62],
}


@pytest.mark.parametrize("sequence", SEQUENCES)
@pytest.mark.parametrize("column", COPIES)
def test_a_column_that_copies_the_header_differs(case, column, sequence):
    place = case.position(sequence)
    before = case.raw.execute(f"SELECT {column} FROM event WHERE position = ?", (place,)).fetchone()[0]
    for value in COPIES[column]:
        if value != before:
            with case.changed(case.raw, "event", column, place, value, "position"):
                assert case.found() == [("column_differs", sequence, sequence)]


def test_text_that_is_no_text_is_named_as_a_column_that_differs(case):
    case.raw.execute(
        "UPDATE event SET event_type = CAST(x'6f72ff' AS TEXT) WHERE position = ?", (case.position(3),)
    )
    assert case.found(level="chain", rows=False) == [("column_differs", 3, 3)]
    assert case.found(rows=False) == [("column_differs", 3, 3)]


@pytest.mark.parametrize("sequence", SEQUENCES)
@pytest.mark.parametrize("value", [20, 0, -5])
def test_a_sequence_column_that_was_moved_away_differs(case, sequence, value):
    with case.changed(case.raw, "event", "seq", case.position(sequence), value, "position"):
        assert case.found() == [("column_differs", sequence, sequence)]


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_an_event_handed_to_no_stream_is_removed(case, sequence):
    with case.changed(case.raw, "event", "stream", case.position(sequence), 999, "position"):
        assert case.found() == [("removed", sequence, sequence)]


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_an_event_handed_to_another_stream_is_missing_here_and_transplanted_there(case, sequence):
    place, there = case.position(sequence), case.number(case.other)
    case.raw.execute("UPDATE event SET seq = seq + 50 WHERE position = ?", (place,))
    with case.changed(case.raw, "event", "stream", place, there, "position"):
        found = case.verify().findings
    named = {(each.stream_id, each.kind, each.sequence) for each in found}
    assert named == {
        (case.genesis.stream_id, "removed", sequence),
        (case.other.stream_id, "transplanted", sequence + 50),
    }


# ---- event_content -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sequence,part", [(1, 0), (2, 0), (4, 0), (4, 1), (8, 0)])
def test_a_record_under_another_slot_is_missing_from_its_event(case, sequence, part):
    slot = case.position(sequence) * 16 + part
    for value in (slot + 8, 99_999, -16):
        with case.changed(case.raw, "event_content", "slot", slot, value, "slot"):
            found = case.found(rows=False)
        assert ("content_missing", sequence, sequence) in found
        assert kinds(found) <= {"content_missing", "inserted"}


@pytest.mark.parametrize("level", ["digests", "content"])
def test_two_records_that_changed_places_are_damaged_both(case, level):
    first, second = case.position(5) * 16, case.position(6) * 16
    for away, back in ((first, -1), (second, first), (-1, second)):
        case.raw.execute("UPDATE event_content SET slot = ? WHERE slot = ?", (back, away))
    assert case.found(level=level) == [("content_damaged", 5, 6)]


# ---- stream and head ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "column,value",
    [
        ("stream_id", "str_01J9ZC3Y3V7W2R5T8QK4M6N0PS"),
        ("stream_id", "zzz"),
        ("tenant", "other"),
        ("kind", "system/archive"),
        ("kind", ""),
    ],
)
def test_a_column_that_copies_the_genesis_differs(case, column, value):
    with case.changed(case.raw, "stream", column, case.number(), value, "number"):
        assert case.found() == [("column_differs", 0, 0)]


def test_a_stream_under_another_number_has_lost_its_events(case):
    with case.changed(case.raw, "stream", "number", case.number(), 77, "number"):
        report = case.verify()
    assert ("removed", 0) in {(each.kind, each.sequence) for each in report.findings}
    assert report.exit_code == 1


def test_the_genesis_of_another_stream_is_named(case):
    there = case.raw.execute(
        "SELECT genesis FROM stream WHERE number = ?", (case.number(case.other),)
    ).fetchone()[0]
    with case.changed(case.raw, "stream", "genesis", case.number(), there, "number"):
        assert case.found() == [("genesis", 0, 0)]


@pytest.mark.parametrize("value", [0, 5, 7, 9, 100])
def test_a_head_row_with_another_sequence_is_named(case, value):
    with case.changed(case.raw, "head", "seq", case.number(), value, "stream"):
        assert case.verify().exit_code == 1


def test_a_head_row_with_another_hash_is_named_at_the_last_event(case):
    with case.changed(case.raw, "head", "hash", case.number(), bytes(32), "stream"):
        assert case.found() == [("edited", EVENTS, EVENTS)]


def test_a_head_row_of_another_stream_is_named(case):
    with case.changed(case.raw, "head", "stream", case.number(), 55, "stream"):
        assert case.found() == [("removed", 0, 0)]


@pytest.mark.parametrize("column,value", [("token", 9), ("lease_owner", "me"), ("lease_until", 5)])
def test_lease_columns_are_operational_and_no_part_of_the_proof(case, column, value):
    with case.changed(case.raw, "head", column, case.number(), value, "stream"):
        assert case.found() == []


# ---- key store ---------------------------------------------------------------------------------------------------


def key_ids(case):
    return [
        key_id
        for (key_id,) in case.raw_keys.execute("SELECT key_id FROM data_key ORDER BY key_id").fetchall()
    ]


@pytest.mark.parametrize("column", ["stream_id", "kek_id"])
@pytest.mark.parametrize("value", ["str_01J9ZC3Y3V7W2R5T8QK4M6N0PS", "kek_01J9ZC3Y3V7W2R5T8QK4M6N0PS", ""])
def test_a_key_row_that_says_another_stream_or_epoch_is_damaged(case, column, value):
    for key_id in key_ids(case):
        with case.changed(case.raw_keys, "data_key", column, key_id, value, "key_id"):
            assert kinds(case.found()) == {"key_damaged"}


def test_a_key_row_under_another_id_is_damaged_and_its_own_is_missing(case):
    place = case.genesis.key
    with case.changed(case.raw_keys, "data_key", "key_id", place, "dk_01J9ZC3Y3V7W2R5T8QK4M6N0PK", "key_id"):
        assert case.found(rows=False) == [("content_missing", 1, 1), ("key_damaged", None, None)]


def test_two_key_rows_with_changed_wraps_are_damaged_both(case):
    first, second = case.genesis.key, case.other.key
    wraps = dict(case.raw_keys.execute("SELECT key_id, wrapped FROM data_key"))
    for one, two in ((first, second), (second, first)):
        case.raw_keys.execute("UPDATE data_key SET wrapped = ? WHERE key_id = ?", (wraps[two], one))
    assert case.found() == [("key_damaged", 1, 1), ("key_damaged", 1, 1)]


def test_every_deleted_key_row_is_named(case):
    for key_id in key_ids(case):
        row = case.raw_keys.execute("SELECT * FROM data_key WHERE key_id = ?", (key_id,)).fetchone()
        case.raw_keys.execute("PRAGMA foreign_keys = OFF")
        case.raw_keys.execute("DELETE FROM data_key WHERE key_id = ?", (key_id,))
        report = case.verify()
        case.raw_keys.execute("INSERT INTO data_key VALUES (?, ?, ?, ?, ?)", row)
        assert report.exit_code == 1, key_id
        assert report.kinds.keys() <= {"content_missing", "key_damaged"}


@pytest.mark.parametrize("column,value", [("key_id", None), ("kek_id", "kek_01J9ZC3Y3V7W2R5T8QK4M6N0PK")])
def test_a_subject_link_that_says_another_key_or_epoch_is_damaged(case, column, value):
    case.raw_keys.execute("PRAGMA foreign_keys = OFF")
    for other in [value] if value else [case.genesis.key, "dk_01J9ZC3Y3V7W2R5T8QK4M6N0PK"]:
        with case.changed(case.raw_keys, "subject", column, 1, other):
            assert kinds(case.found()) == {"key_damaged"}


def test_a_deleted_subject_link_is_named(case):
    case.raw_keys.execute("DELETE FROM subject")
    assert kinds(case.found()) == {"key_damaged"}


@pytest.mark.parametrize("column,value", [("tenant", "other"), ("kek_id", "kek_01J9ZC3Y3V7W2R5T8QK4M6N0PK")])
def test_an_epoch_row_of_another_tenant_or_key_is_named(case, column, value):
    with case.changed(case.raw_keys, "epoch", column, "default", value, "tenant"):
        assert kinds(case.found()) == {"key_damaged"}


def test_a_deleted_epoch_row_is_named(case):
    case.raw_keys.execute("DELETE FROM epoch")
    assert kinds(case.found()) == {"key_damaged"}


def test_another_key_store_than_the_ledger_was_written_with_is_named(case):
    keys = case.new_stream("system/keys")
    rotated = case.draft(
        "keys.rotated",
        {"epoch_from": 0, "epoch_to": 1, "keys": 0},
        (Part({"key_store": case.keys.store_id}),),
    )
    case.append(keys, rotated)
    assert case.found() == []
    with case.changed(case.raw_keys, "meta", "value", "store_id", "0" * 32, "name"):
        reopened = SqliteKeyStore(case.directory / "keys.db")
        keyring = Keyring(reopened, case.provider, ManualClock(), case.ids)
        assert case.found(keyring=keyring) == [("key_damaged", None, None)]
        reopened.close()
