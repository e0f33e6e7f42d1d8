"""What verify says of companions: edited, put back, missing, nobody's; and what it cannot say without keys."""

from __future__ import annotations

import pytest

from counterfoil.client.features import FEATURES
from counterfoil.companions.rows import COMPANIONS
from counterfoil.companions.seal import sealed
from counterfoil.evidence.verify import verify
from counterfoil.testing.manual import ManualClock
from tests.running import World


@pytest.fixture
def ledger():
    ledger = World(clock=ManualClock()).worker()
    table = ledger.declare_table("t", key="id")
    ledger.declare("x.noted")
    with ledger.run("a", conversation="c") as run:
        run.record(
            "x.noted", rows=[table.put({"id": 1, "v": "old"}), table.put({"id": 2}), table.put({"id": 3})]
        )
        run.record("x.noted", {"said": 1}, rows=[table.put({"id": 1, "v": "new"}), table.remove(3)])
    return ledger


def stored(ledger):
    return ledger.store._state.tables[COMPANIONS.name].rows


def row_of(ledger, number):
    return next(key for key in stored(ledger) if key[2] == ledger.companion("c", "t", number).key)


def found(ledger, keyring=True, **how):
    report = verify(ledger.store, ledger.keyring if keyring else None, FEATURES, **how)
    return [(finding.kind, finding.sequence) for finding in report.findings], report


def test_rows_as_the_events_say_are_counted(ledger):
    findings, report = found(ledger)
    assert (findings, report.counts.companions, report.exit_code) == ([], 2, 0)


def test_a_row_that_was_edited_is_found(ledger):
    key = row_of(ledger, 2)
    row = stored(ledger)[key]
    stored(ledger)[key] = {**row, "record": row["record"][:-1] + b"\x00"}
    findings, report = found(ledger)
    assert ([kind for kind, _ in findings], report.exit_code) == (["content_damaged"], 1)


def test_a_row_that_was_put_back_to_an_earlier_state_is_found(ledger):
    stream_id = ledger.stream_of("c")
    first = next(ledger.events("c", types=["x.noted"]))
    ports = ledger.ports
    table = ledger.declare_table("t", key="id")
    old = [table.put({"id": 1, "v": "old"})]
    changes, _ = sealed(ports.genesis(stream_id), ports.material(stream_id), first.event_id, old)
    key = row_of(ledger, 1)
    stored(ledger)[key] = {**stored(ledger)[key], **changes[0].values}
    assert ledger.companion("c", "t", 1).row["v"] == "old"
    findings, _ = found(ledger)
    assert [kind for kind, _ in findings] == ["content_damaged"]


def test_a_row_that_was_taken_away_is_missing(ledger):
    del stored(ledger)[row_of(ledger, 2)]
    findings, _ = found(ledger)
    assert [kind for kind, _ in findings] == ["content_missing"]


def test_a_row_that_no_event_speaks_of_is_somebody_elses(ledger):
    stream_id = ledger.stream_of("c")
    other = ledger.declare_table("other", key="id")
    ports, event_id = ledger.ports, ledger.ports.new_id("evt")
    (put,), _ = sealed(ports.genesis(stream_id), ports.material(stream_id), event_id, [other.put({"id": 1})])
    row = {**put.values, "row_version": 1}
    stored(ledger)[stream_id, "other", row["key"]] = row
    findings, _ = found(ledger)
    assert [kind for kind, _ in findings] == ["inserted"]


def test_without_keys_they_are_said_to_be_not_covered(ledger):
    findings, report = found(ledger, keyring=False)
    assert findings == []
    assert ("companions", 2) in [(gap.what, gap.count) for gap in report.not_covered]


def test_below_the_level_of_content_nothing_is_opened(ledger):
    _, report = found(ledger, level="digests")
    assert report.counts.companions == 0
