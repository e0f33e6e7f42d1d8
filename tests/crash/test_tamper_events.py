"""Whole events deleted, inserted, swapped, forked, transplanted and cut off behind the store's back."""

from __future__ import annotations

import pytest

from counterfoil.core.event import event_hash
from tests.crash.tamper import EVENTS

SEQUENCES = range(1, EVENTS + 1)
MIDDLE = range(1, EVENTS)


def columns_of(case, sequence):
    return case.raw.execute(
        "SELECT event_id, event_type, run_id, recorded_at, header, hash FROM event WHERE position = ?",
        (case.position(sequence),),
    ).fetchone()


def head_back_to(case, sequence):
    digest = columns_of(case, sequence)[5]
    case.raw.execute("UPDATE head SET seq = ?, hash = ? WHERE stream = ?", (sequence, digest, case.number()))


def kinds_of(case, **options):
    return {kind for kind, _, _ in case.found(**options)}


# ---- deleted -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_records", [True, False])
@pytest.mark.parametrize("sequence", SEQUENCES)
def test_a_deleted_event_is_removed(case, sequence, with_records):
    place = case.position(sequence)
    case.raw.execute("DELETE FROM event WHERE position = ?", (place,))
    if with_records:
        case.raw.execute(
            "DELETE FROM event_content WHERE slot BETWEEN ? AND ?", (place * 16, place * 16 + 15)
        )
    assert case.found() == [("removed", sequence, sequence)]


def test_a_deleted_stretch_is_one_finding(case):
    case.raw.execute("DELETE FROM event WHERE stream = ? AND seq BETWEEN 3 AND 6", (case.number(),))
    assert case.found() == [("removed", 3, 6)]


@pytest.mark.parametrize("sequence", MIDDLE)
def test_a_deleted_event_is_removed_also_where_the_later_ones_were_counted_down(case, sequence):
    case.raw.execute("DELETE FROM event WHERE position = ?", (case.position(sequence),))
    for later in range(sequence + 1, EVENTS + 1):
        case.raw.execute(
            "UPDATE event SET seq = seq - 1 WHERE stream = ? AND seq = ?", (case.number(), later)
        )
    assert case.found() == [("removed", sequence, sequence)]


@pytest.mark.parametrize("sequence,parts", [(1, 1), (2, 1), (4, 2), (8, 1)])
def test_a_deleted_record_is_missing(case, sequence, parts):
    for part in range(parts):
        slot = case.position(sequence) * 16 + part
        row = case.raw.execute("SELECT slot, record FROM event_content WHERE slot = ?", (slot,)).fetchone()
        case.raw.execute("DELETE FROM event_content WHERE slot = ?", (slot,))
        assert case.found() == [("content_missing", sequence, sequence)]
        case.raw.execute("INSERT INTO event_content VALUES (?, ?)", row)


def test_a_deleted_stream_leaves_events_that_belong_to_nothing(case):
    case.raw.execute("DELETE FROM stream WHERE number = ?", (case.number(),))
    report = case.verify(rows=False)
    assert report.exit_code == 1
    assert report.kinds.keys() == {"removed"}


def test_a_deleted_head_row_is_named(case):
    case.raw.execute("DELETE FROM head WHERE stream = ?", (case.number(),))
    assert case.found() == [("removed", 0, 0)]


# ---- the tail ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", range(EVENTS))
def test_a_cut_tail_is_removed_where_the_head_row_still_names_it(case, last):
    case.raw.execute("DELETE FROM event WHERE stream = ? AND seq > ?", (case.number(), last))
    assert case.found() == [("removed", last + 1, EVENTS)]


@pytest.mark.parametrize("last", MIDDLE)
def test_a_tail_cut_together_with_its_head_row_is_named_as_unseen_at_a0(case, last):
    head_back_to(case, last)
    first = case.position(last + 1)
    case.raw.execute("DELETE FROM event WHERE stream = ? AND seq > ?", (case.number(), last))
    case.raw.execute(
        "DELETE FROM event_content WHERE slot >= ? AND slot < ?",
        (first * 16, case.position(1, case.other) * 16),
    )
    report = case.verify()
    assert report.exit_code == 0
    assert any("tail" in unseen for unseen in report.unseen)


def test_records_left_behind_by_a_cut_tail_give_it_away(case):
    head_back_to(case, 6)
    case.raw.execute("DELETE FROM event WHERE stream = ? AND seq > 6", (case.number(),))
    assert kinds_of(case, rows=False) == {"inserted"}


# ---- inserted ----------------------------------------------------------------------------------------------------


def test_an_event_after_the_end_is_inserted(case):
    columns, records = case.forged(EVENTS + 1)
    case.insert(EVENTS + 1, columns, records)
    assert case.found() == [("inserted", EVENTS + 1, EVENTS + 1)]


@pytest.mark.parametrize("sequence", range(2, EVENTS + 1))
def test_an_event_put_in_with_the_later_ones_counted_up_is_inserted(case, sequence):
    columns, records = case.forged(sequence)
    for later in range(EVENTS, sequence - 1, -1):
        case.raw.execute(
            "UPDATE event SET seq = seq + 1 WHERE stream = ? AND seq = ?", (case.number(), later)
        )
    case.insert(sequence, columns, records)
    assert case.found() == [("inserted", sequence, sequence)]


def test_a_copy_of_an_event_is_inserted(case):
    case.without_indexes("event")
    case.insert(5, columns_of(case, 3))
    assert ("inserted", 3, 3) in case.found(rows=False)


def test_a_record_that_no_header_names_is_inserted(case):
    case.raw.execute("INSERT INTO event_content VALUES (?, x'01')", (case.position(5) * 16 + 3,))
    assert case.found() == [("inserted", 5, 5)]


def test_a_record_beside_an_event_without_content_is_inserted(case):
    case.raw.execute("INSERT INTO event_content VALUES (?, x'01')", (case.position(3) * 16,))
    assert case.found() == [("inserted", 3, 3)]


def test_a_record_that_belongs_to_no_event_is_inserted(case):
    case.raw.execute("INSERT INTO event_content VALUES (?, x'01')", (10**9,))
    assert case.found() == [("inserted", None, None)]


# ---- changed places ----------------------------------------------------------------------------------------------


def exchange(case, one, two, columns):
    first, second = case.position(one), case.position(two)
    cells = {
        place: case.raw.execute(
            f"SELECT {', '.join(columns)} FROM event WHERE position = ?", (place,)
        ).fetchone()
        for place in (first, second)
    }
    change = f"UPDATE event SET {', '.join(f'{column} = ?' for column in columns)} WHERE position = ?"
    case.raw.execute(change, (*[-1 if type(cell) is int else f"{cell}" for cell in cells[first]], first))
    case.raw.execute(change, (*cells[first], second))
    case.raw.execute(change, (*cells[second], first))


@pytest.mark.parametrize("sequence", MIDDLE)
def test_two_events_with_swapped_sequences_are_reordered(case, sequence):
    exchange(case, sequence, sequence + 1, ["seq"])
    assert case.found() == [("reordered", sequence, sequence + 1)]


def test_two_events_far_apart_with_swapped_sequences_are_reordered(case):
    exchange(case, 2, 7, ["seq"])
    assert case.found() == [("reordered", 2, 2)]


@pytest.mark.parametrize("sequence", MIDDLE)
def test_two_events_whose_bytes_changed_places_are_reordered(case, sequence):
    first, second = case.position(sequence), case.position(sequence + 1)
    bytes_of = {
        row[0]: row[1:] for row in case.raw.execute("SELECT position, header, hash FROM event").fetchall()
    }
    for place, other in ((first, second), (second, first)):
        case.raw.execute(
            "UPDATE event SET header = ?, hash = ? WHERE position = ?", (*bytes_of[other], place)
        )
    found = case.found(level="chain", rows=False)
    assert found == [("reordered", sequence, sequence + 1)]


# ---- forked ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sequence", range(2, EVENTS + 1))
def test_a_second_event_after_the_same_one_is_a_fork(case, sequence):
    case.without_indexes("event")
    columns, records = case.forged(sequence)
    case.insert(sequence, columns, records)
    assert ("forked", sequence, sequence) in case.found(rows=False)


# ---- edited by somebody who knows the format ---------------------------------------------------------------------


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_an_event_that_was_edited_and_hashed_again_is_named(case, sequence):
    header = columns_of(case, sequence)[4].replace(b'"shop-agent"', b'"shop-agent2"')
    case.rehash(sequence, header)
    assert case.found() == [("edited", sequence, sequence)]


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_an_edit_that_no_writer_could_have_made_is_named_by_its_form(case, sequence):
    header = columns_of(case, sequence)[4].replace(b'"shop-agent"', b'"shop agent"')
    case.rehash(sequence, header)
    assert case.found(rows=False) == [("header_invalid", sequence, sequence)]


def test_a_chain_that_was_rewritten_to_its_end_is_named_as_unseen_at_a0(case):
    previous = columns_of(case, 4)[5]
    for sequence in range(5, EVENTS + 1):
        header = columns_of(case, sequence)[4]
        before = read_previous(header)
        changed = header.replace(b'"shop-agent"', b'"shop-agent2"').replace(before, previous.hex().encode())
        case.rehash(sequence, changed)
        previous = event_hash(changed)
    head_back_to(case, EVENTS)
    report = case.verify()
    assert report.exit_code == 0
    assert any("rewritten" in unseen for unseen in report.unseen)


def read_previous(header):
    start = header.index(b'"previous_event_hash":"') + len(b'"previous_event_hash":"')
    return header[start : start + 64]


# ---- transplanted ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_an_event_replaced_by_one_of_another_stream_is_transplanted(case, sequence):
    source = case.raw.execute(
        "SELECT header, hash FROM event WHERE position = ?", (case.position(2, case.other),)
    )
    case.raw.execute(
        "UPDATE event SET header = ?, hash = ? WHERE position = ?",
        (*source.fetchone(), case.position(sequence)),
    )
    assert case.found(rows=False, level="chain") == [("transplanted", sequence, sequence)]


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_an_event_replaced_by_one_of_another_ledger_is_transplanted(case, stranger, sequence):
    columns = columns_of(stranger, sequence)
    case.raw.execute(
        "UPDATE event SET event_id = ?, event_type = ?, run_id = ?, recorded_at = ?, header = ?, hash = ?"
        " WHERE position = ?",
        (*columns, case.position(sequence)),
    )
    assert case.found(rows=False, level="chain") == [("transplanted", sequence, sequence)]


def test_a_whole_stream_of_another_ledger_is_transplanted(case, stranger):
    transplant(stranger, case)
    report = case.verify(rows=False)
    named = [
        (each.kind, each.stream_id, each.sequence) for each in report.findings if each.sequence is not None
    ]
    assert ("transplanted", stranger.genesis.stream_id, 0) in named
    assert {stream for _, stream, _ in named} == {stranger.genesis.stream_id}


def transplant(source, target):
    """Copy one stream with everything that belongs to it, keys left out."""
    number = source.number()
    row = source.raw.execute(
        "SELECT stream_id, tenant, kind, genesis FROM stream WHERE number = ?", (number,)
    ).fetchone()
    there = target.raw.execute(
        "INSERT INTO stream (stream_id, tenant, kind, genesis) VALUES (?, ?, ?, ?)", row
    ).lastrowid
    head = source.raw.execute("SELECT seq, hash FROM head WHERE stream = ?", (number,)).fetchone()
    target.raw.execute("INSERT INTO head (stream, seq, hash) VALUES (?, ?, ?)", (there, *head))
    events = source.raw.execute(
        "SELECT position, seq, event_id, event_type, run_id, recorded_at, header, hash FROM event WHERE stream = ?",
        (number,),
    )
    for position, *columns in events.fetchall():
        place = target.raw.execute(
            "INSERT INTO event (stream, seq, event_id, event_type, run_id, recorded_at, header, hash)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (there, *columns),
        ).lastrowid
        records = source.raw.execute(
            "SELECT slot, record FROM event_content WHERE slot BETWEEN ? AND ?",
            (position * 16, position * 16 + 15),
        )
        for slot, record in records.fetchall():
            target.raw.execute("INSERT INTO event_content VALUES (?, ?)", (place * 16 + slot % 16, record))
