"""Every byte of every header, hash, record, genesis and wrapped key: edited behind the store's back, it is named."""

from __future__ import annotations

import pytest

from tests.crash.tamper import EVENTS


def edits(value, *, masks=(0x01,)):
    """The value with each byte changed in turn."""
    for place in range(len(value)):
        for mask in masks:
            yield place, value[:place] + bytes([value[place] ^ mask]) + value[place + 1 :]


def cell(connection, table, column, key, place):
    return connection.execute(f"SELECT {column} FROM {table} WHERE {key} = ?", (place,)).fetchone()[0]


def unnamed(case, connection, table, column, place, expected, *, key="rowid", **options):
    """The offsets whose edit was not named as expected; ``expected`` takes the findings."""
    missed = []
    for offset, value in edits(cell(connection, table, column, key, place)):
        with case.changed(connection, table, column, place, value, key):
            found = case.found(rows=False, **options)
        if not expected(found):
            missed.append((offset, found))
    return missed


@pytest.mark.parametrize("sequence", range(1, EVENTS + 1))
def test_every_byte_of_a_header_is_named_as_edited(case, sequence):
    def is_named(found):
        return found == [("edited", sequence, sequence)]

    place = case.position(sequence)
    options = {"keyring": None, "level": "chain", "streams": [case.genesis.stream_id]}
    assert unnamed(case, case.raw, "event", "header", place, is_named, **options) == []


@pytest.mark.parametrize("sequence", range(1, EVENTS + 1))
def test_every_byte_of_a_hash_is_named_as_another_than_the_header_has(case, sequence):
    def is_named(found):
        return found == [("column_differs", sequence, sequence)]

    place = case.position(sequence)
    options = {"keyring": None, "level": "chain", "streams": [case.genesis.stream_id]}
    assert unnamed(case, case.raw, "event", "hash", place, is_named, **options) == []


def test_every_byte_of_every_record_is_named_as_damaged(either):
    options = {"keyring": None, "level": "digests", "streams": [either.genesis.stream_id]}
    for sequence in range(1, EVENTS + 1):
        first = either.position(sequence) * 16
        slots = either.raw.execute(
            "SELECT slot FROM event_content WHERE slot BETWEEN ? AND ?", (first, first + 15)
        )
        for (slot,) in slots.fetchall():
            missed = unnamed(
                *(either, either.raw, "event_content", "record", slot),
                lambda found, sequence=sequence: found == [("content_damaged", sequence, sequence)],
                **options,
            )
            assert missed == []


def test_every_byte_of_a_genesis_is_named(either):
    def is_named(found):
        return found == [("genesis", 0, 0)]

    options = {"level": "chain", "streams": [either.genesis.stream_id]}
    assert (
        unnamed(either, either.raw, "stream", "genesis", either.number(), is_named, key="number", **options)
        == []
    )


def test_a_genesis_whose_every_byte_but_one_is_kept_is_broken_even_where_its_format_is_unknown(either):
    genesis = either.genesis.text.replace(b"genesis/v1", b"genesis/v2")
    with either.changed(either.raw, "stream", "genesis", either.number(), genesis, "number"):
        assert either.verify(level="chain").exit_code == 1


@pytest.mark.parametrize("column", ["wrapped", '"check"'])
def test_every_byte_of_a_wrapped_key_and_of_its_check_is_named(either, column):
    def is_named(found):
        return [kind for kind, _, _ in found] == ["key_damaged"]

    for (key_id,) in either.raw_keys.execute("SELECT key_id FROM data_key").fetchall():
        missed = unnamed(
            either, either.raw_keys, "data_key", column, key_id, is_named, key="key_id", level="digests"
        )
        assert missed == []


@pytest.mark.parametrize("column", ["lookup", "box"])
def test_every_byte_of_a_subject_link_is_named(either, column):
    def is_named(found):
        return [kind for kind, _, _ in found] == ["key_damaged"]

    assert unnamed(either, either.raw_keys, "subject", column, 1, is_named, level="chain") == []
