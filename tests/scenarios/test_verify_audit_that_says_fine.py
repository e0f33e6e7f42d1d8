"""S24, the audit that says fine: one byte anywhere, and verify says which, or says that it did not look there."""

from __future__ import annotations

import shutil

import pytest

from tests.crash.tamper import EVENTS, TamperCase


@pytest.fixture
def case(tmp_path):
    made = TamperCase(tmp_path / "ledger")
    yield made
    made.close()


def flipped(value):
    return value[:-1] + bytes([value[-1] ^ 0x40])


def test_one_bit_of_a_payload_on_disk_is_found(case):
    slot = case.position(4) * 16
    record = case.raw.execute("SELECT record FROM event_content WHERE slot = ?", (slot,)).fetchone()[0]
    case.raw.execute("UPDATE event_content SET record = ? WHERE slot = ?", (flipped(record), slot))
    report = case.verify()
    assert report.exit_code == 1
    assert [(each.kind, each.sequence) for each in report.findings] == [("content_damaged", 4)]


def test_the_last_event_deleted_is_found(case):
    case.raw.execute("DELETE FROM event WHERE position = ?", (case.position(EVENTS),))
    assert case.found() == [("removed", EVENTS, EVENTS)]


def test_two_events_swapped_are_found(case):
    for change in ("-1", "seq + 1", "4"):
        before = {"-1": 4, "seq + 1": 3, "4": -1}[change]
        value = "3" if change == "4" else change
        case.raw.execute(
            f"UPDATE event SET seq = {value} WHERE stream = ? AND seq = ?", (case.number(), before)
        )
    assert case.found() == [("reordered", 3, 4)]


def test_a_derived_row_that_was_edited_is_mismatched_and_no_broken_truth(case):
    table = next(
        name
        for (name,) in case.raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        if "order_id" in [row[1] for row in case.raw.execute(f"PRAGMA table_info({name})")]
    )
    case.raw.execute(f"UPDATE {table} SET state = 'refunded'")
    report = case.verify()
    assert report.exit_code == 0
    assert [(each.table, each.state, each.differing) for each in report.derived] == [
        ("orders", "mismatched", 1),
        ("run_span", "rebuilt", 0),
    ]


def test_last_weeks_file_put_back_is_named_as_unseen_at_a0(case, tmp_path):
    # Without a seal outside, an older state of the whole ledger is as good as any: that is said, not hidden.
    last_week = TamperCase(tmp_path / "last week")
    last_week.close()
    shutil.rmtree(tmp_path / "ledger")
    restored = last_week.copied(tmp_path / "ledger")
    report = restored.verify()
    restored.close()
    assert report.exit_code == 0
    assert any("earlier state" in unseen for unseen in report.unseen)


def test_what_was_not_looked_at_is_said_with_its_reason(case):
    report = case.verify(level="digests", keyring=None)
    left_out = {each.what for each in report.not_covered}
    assert {"the content of records", "the key store", "search and statistics", "artifacts"} <= left_out
    assert all(each.why for each in report.not_covered)


def test_the_report_counts_what_it_covered(case):
    counts = case.verify().counts
    assert (counts.streams, counts.events, counts.records_by_digest, counts.records_opened) == (3, 11, 11, 11)
    assert (counts.keys, counts.rows_refolded) == (5, 2)
