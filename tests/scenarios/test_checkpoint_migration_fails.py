"""Failure mode: what accelerates reading cannot be brought to a newer form, or the attempt dies half way.

Checkpoints come later. What is derived today is rows and the view of an event that upcasts give; both are made from
the events, and where that fails, the old ones stay and the events are untouched.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from counterfoil.client.features import FEATURES, TABLES
from counterfoil.client.ledger import Ledger
from counterfoil.client.place import open_parts
from counterfoil.errors import InternalError
from counterfoil.evidence.verify import verify
from tests.stage import CASE

PLANS = "x.plan.made"
LASTING = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]
"""Where a ledger is opened by another program than the one that made it; memory ends with its own."""


class Broken(Exception):
    """The migration's own bug."""


def headers(ledger):
    """Every byte of truth of the conversation."""
    stored = ledger.store.read(ledger.stream_of(CASE), after=0, limit=1000)
    return [(event.header, event.content) for event in stored]


def rows(ledger):
    """Every derived row."""
    return {spec.name: ledger.store.select(spec.name, limit=1000) for spec in TABLES}


@pytest.fixture
def played(stage):
    """A ledger with an effect and an event of the application in its first version."""
    refund = stage.refund()
    stage.serve(refund)

    async def plan():
        ledger = stage.open()
        ledger.declare(PLANS, 1, public={"parts": "n"})
        async with stage.run(ledger, dedupe="m2") as run:
            if stage.asynchronous:
                await run.arecord(PLANS, {"parts": 3})
            else:
                run.record(PLANS, {"parts": 3})

    stage.play(plan())
    return stage


# ---- upcasts -------------------------------------------------------------------------------------------------------


def broken(data, content):
    raise Broken(f"no rule for {data['parts']} parts")


def test_an_upcast_that_raises_is_the_readers_error_and_leaves_stream_and_rows_as_they_were(played):
    ledger = played.open()
    before = headers(ledger), rows(ledger)
    ledger.upcast(PLANS, 1, broken)
    with pytest.raises(Broken):
        list(ledger.interpret(CASE))
    assert (headers(ledger), rows(ledger)) == before


def test_rows_are_made_again_whatever_the_upcasts_do(played):
    ledger = played.open()
    before = rows(ledger)
    ledger.upcast(PLANS, 1, broken)
    ledger.rebuild()
    assert {name: [unversioned(row) for row in found] for name, found in rows(ledger).items()} == {
        name: [unversioned(row) for row in found] for name, found in before.items()
    }


def test_with_the_upcast_mended_the_same_events_are_read_in_the_new_form(played):
    ledger = played.open()
    ledger.upcast(PLANS, 1, lambda data, content: ({"pieces": data["parts"]}, content))
    (plan,) = [event for event in ledger.interpret(CASE) if event.type == PLANS]
    assert (plan.header.event_schema_version, plan.data) == (2, {"pieces": 3})


# ---- rows made again -----------------------------------------------------------------------------------------------


def unversioned(row):
    return {name: value for name, value in row.items() if name != "row_version"}


def die(_):
    raise Broken("the process died here")


def test_a_rebuild_that_dies_half_way_leaves_the_old_rows_and_the_truth_untouched(played):
    ledger = played.open()
    before = headers(ledger), rows(ledger)
    with pytest.raises((Broken, InternalError)):
        ledger.rebuild(progress=die)
    assert (headers(ledger), rows(ledger)) == before


def test_the_next_rebuild_makes_them_whole_and_nothing_is_sent_again(played):
    with pytest.raises((Broken, InternalError)):
        played.open().rebuild(progress=die)
    ledger = played.open()
    ledger.rebuild()
    assert played.effects() == ["succeeded"]
    assert played.serve(played.refund(), dedupe="m3") == "re_1"
    assert played.provider.booked() == 1


# ---- a newer version of the tables ---------------------------------------------------------------------------------

NEWER = tuple(replace(spec, version=spec.version + 1) for spec in TABLES)


def migrate(place, world):
    """The ledger opened by a newer program, whose tables have another version; that it lies somewhere lasting is needed."""
    parts = open_parts(place, tables=NEWER, create=False, read_only=False, clock=world.clock, ids=world.ids)
    try:
        return Ledger(parts, tenant="default", content=None, clock=world.clock, ids=world.ids)
    except BaseException:
        parts.store.close()
        parts.key_store.close()
        raise


@pytest.mark.parametrize("anywhere", LASTING, indirect=True)
def test_a_migration_of_the_tables_that_dies_half_way_starts_again_when_the_ledger_is_opened(
    played, anywhere, monkeypatch
):
    before = headers(played.open()), rows(played.open())
    with monkeypatch.context() as patch:
        patch.setattr("counterfoil.evidence.rebuild.walk", lambda *_: die(0))
        for _ in range(2):
            with pytest.raises((Broken, InternalError)):
                migrate(anywhere, played.world)
    with migrate(anywhere, played.world) as ledger:
        after = {name: [unversioned(row) for row in found] for name, found in rows(ledger).items()}
        report = verify(ledger.store, ledger.keyring, FEATURES, registry=ledger.registry)
        assert (report.exit_code, report.rows_differ) == (0, ())
        assert headers(ledger) == before[0]
    assert after == {name: [unversioned(row) for row in found] for name, found in before[1].items()}
    # The world's own handles are of the older program, which a newer one has overtaken.
    played.whole = False
