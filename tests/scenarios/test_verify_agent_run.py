"""A ledger that an agent wrote verifies whole, rows too, and its derived rows can be told from its truth."""

from __future__ import annotations

import sqlite3

import pytest

import counterfoil
from counterfoil.client.features import FEATURES
from counterfoil.evidence.verify import verify


@counterfoil.effect(
    "mail.send_receipt",
    version="1",
    touches={"messages"},
    key=lambda order: f"receipt:{order}",
    doubt=counterfoil.by_key(),
)
def send_receipt(order: str, *, idempotency_key: str = "") -> dict:
    return {"sent": order, "under": idempotency_key}


@pytest.fixture(params=["sealed", "clear"])
def place(request, tmp_path):
    """A ledger with a model call, a memoised step and an effect."""
    place = tmp_path / "ledger"
    with counterfoil.open(place, content=request.param) as ledger:
        for number in range(2):
            with ledger.run(
                "shop-agent", conversation="case-1", message=f"m{number}", dedupe=f"d{number}"
            ) as run:
                run.ask(lambda _: "on its way", [{"role": "user", "content": f"m{number}"}])
                run.step("look up", str, number)
                send_receipt(f"O-{number}")
    return place


def verified(place):
    with counterfoil.open(place, read_only=True) as ledger:
        return verify(ledger.store, ledger.keyring, FEATURES, registry=ledger.registry)


def test_everything_is_covered_and_nothing_found(place):
    report = verified(place)
    assert (report.exit_code, report.findings, report.notices) == (0, (), ())
    assert report.counts.records_opened == report.counts.records_by_digest > 10
    assert report.keys.state == "present"


def test_every_derived_row_is_rebuilt(place):
    derived = {
        table.table: (table.state, table.stored == table.refolded) for table in verified(place).derived
    }
    assert set(derived.values()) == {("rebuilt", True)}
    assert {"conversations", "runs", "effects", "effect_keys"} <= derived.keys()


def test_a_state_edited_in_a_row_is_seen_and_breaks_no_truth(place):
    raw = sqlite3.connect(place / "ledger.db")
    names = [name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    table = next(
        name for name in names if "terminal" in [row[1] for row in raw.execute(f"PRAGMA table_info({name})")]
    )
    raw.execute(f"UPDATE {table} SET terminal = 'cancelled'")
    raw.commit()
    raw.close()
    report = verified(place)
    runs = next(each for each in report.derived if each.table == "runs")
    assert (report.exit_code, runs.state, runs.differing) == (0, "mismatched", 2)


def test_a_ledger_without_its_key_store_verifies_its_chain_and_says_what_it_withheld(place):
    (place / "keys.db").unlink()
    report = verified(place)
    assert (report.exit_code, report.keys.state) == (0, "absent")
    assert report.counts.events > 10
