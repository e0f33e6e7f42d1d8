"""The rows of repairs: queries that survive a restart, and a rebuild that gives the same rows."""

from __future__ import annotations

import pytest

from counterfoil.errors import InvalidForm
from counterfoil.repair.rows import COMPENSATIONS, CORRECTIONS, REPAIR_SUBJECTS, REPAIRS
from tests.repairing import CASE

TABLES = (REPAIRS, REPAIR_SUBJECTS, COMPENSATIONS, CORRECTIONS)


@pytest.fixture
def history(bank, refunded):
    """A repair that came half way, one that ended well, and a correction."""
    bank.provider.plan(None, "rejected")
    first = bank.repair()
    bank.ledger.close_repair(first.repair_id, "partial", by="Dana", reason="no address")
    second = bank.repair(bank.serve("o-2"))
    (event, *_) = bank.ledger.events(CASE, types=["effect.observed"])
    bank.ledger.correct(event.event_id, 1, by="Dana", reason="misread")
    return first.repair_id, second.repair_id


def all_rows(bank):
    return {table.name: bank.ledger.store.select(table.name, None, (), None, 100) for table in TABLES}


def test_rebuilding_gives_the_same_rows(bank, history):
    def without_versions(tables):
        return {
            name: [{k: v for k, v in row.items() if k != "row_version"} for row in rows]
            for name, rows in tables.items()
        }

    before = all_rows(bank)
    assert all(before.values())
    bank.ledger.rebuild()
    assert without_versions(all_rows(bank)) == without_versions(before)


def test_repairs_are_listed_by_state_the_oldest_first(bank, history):
    listed = {
        state: [row["repair_id"] for row in bank.ledger.repairs(state)] for state in ("open", "partial", None)
    }
    assert (listed["open"], listed["partial"]) == ([], [history[0]])
    assert sorted(listed[None]) == sorted(history)


def test_repairs_of_one_effect_are_found_by_it(bank, history):
    subject = str(bank.ledger.repair_row(history[0])["subject"])
    assert [row["repair_id"] for row in bank.ledger.repairs(None, subject=subject)] == [history[0]]


def test_a_page_goes_on_after_the_last_repair_seen(bank, history):
    first = str(bank.ledger.repairs(None, limit=1)[0]["repair_id"])
    rest = bank.ledger.repairs(None, after=first)
    assert [first, *(row["repair_id"] for row in rest)] == [
        row["repair_id"] for row in bank.ledger.repairs(None)
    ]


def test_a_state_that_there_is_not_is_refused(bank):
    with pytest.raises(InvalidForm, match="irreversible"):
        bank.ledger.repairs("done")


def test_no_row_holds_what_a_person_said(bank, history):
    shown = repr(all_rows(bank))
    assert "Dana" not in shown
    assert "parcel" not in shown
