"""Inspection of a key store: every column that was edited is named."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from counterfoil.keys.inspection import KeyCount, inspect

OTHER_KEK = "kek_01J9ZC3Y3V7W2R5T8QK4M6N0PK"
OTHER_STREAM = "str_01J9ZC3Y3V7W2R5T8QK4M6N0PS"


@pytest.fixture
def filled(keyring, ids):
    """Three streams with a key and a person each."""
    for number in range(3):
        stream_id = ids.new("str")
        keyring.new_stream_key(stream_id)
        keyring.subject_key(stream_id, f"person {number}")
    return keyring


def test_a_sound_key_store_has_no_faults_and_everything_is_counted(filled):
    count = KeyCount()
    assert list(inspect(filled, count)) == []
    assert count == KeyCount(keys=6, opened=6, links=3)


def test_an_empty_key_store_has_no_faults(keyring):
    assert list(inspect(keyring)) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"wrapped": bytes(40)},
        {"check": bytes(16)},
        {"stream_id": OTHER_STREAM},
        {"kek_id": OTHER_KEK},
        {"kek_id": ""},
        {"wrapped": None},
    ],
)
def test_every_edited_column_of_a_key_is_found(filled, store, changes):
    row = store.scan()[2]
    store._rows.keys[row.key_id] = replace(row, **changes)
    faults = [fault for fault in inspect(filled) if not fault.withheld]
    assert row.key_id in {fault.key_id for fault in faults}


def test_a_key_that_was_given_another_id_is_found(filled, store, ids):
    row = store.scan()[0]
    moved = replace(row, key_id=ids.new("dk"))
    del store._rows.keys[row.key_id]
    store._rows.keys[moved.key_id] = moved
    assert [fault.key_id for fault in inspect(filled)] == [moved.key_id]


@pytest.mark.parametrize("column", ["key_id", "another key", "kek_id", "lookup", "box"])
def test_every_edited_column_of_a_link_is_found(filled, store, ids, column):
    (place, link), (_, other), _ = store.scan_subjects()
    changes = {
        "key_id": {"key_id": ids.new("dk")},
        "another key": {"key_id": other.key_id},
        "kek_id": {"kek_id": OTHER_KEK},
        "lookup": {"lookup": other.lookup},
        "box": {"box": other.box},
    }[column]
    store._rows.links[place] = replace(link, **changes)
    (fault,) = inspect(filled)
    assert fault.key_id == store._rows.links[place].key_id
    assert not fault.withheld


def test_an_edited_epoch_is_found(filled, store):
    store._rows.epochs["default"] = OTHER_KEK
    assert {fault.key_id for fault in inspect(filled)} == {row.key_id for row in store.scan()}


def test_keys_without_their_key_encryption_key_are_withheld_and_not_called_damaged(filled, provider):
    filled.forget()
    (provider.directory / provider.current()).unlink()
    faults = list(inspect(filled))
    assert len(faults) == 9
    assert all(fault.withheld for fault in faults)


def test_a_key_store_longer_than_a_page_is_inspected_whole(filled, store, monkeypatch):
    monkeypatch.setattr("counterfoil.keys.inspection.PAGE_ROWS", 2)
    row = store.scan()[5]
    store._rows.keys[row.key_id] = replace(row, check=bytes(16))
    count = KeyCount()
    assert [fault.key_id for fault in inspect(filled, count)] == [row.key_id]
    assert (count.keys, count.opened, count.links) == (6, 5, 3)
