"""Projections on every engine: kept as runs go on, from another process too, and anything but believed when spoilt."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

import pytest
from msgspec.structs import replace

import counterfoil
from counterfoil.client.features import FEATURES
from counterfoil.errors import StoreFull
from counterfoil.evidence.verify import verify
from counterfoil.projections import Projection
from counterfoil.store.unit import Checkpoint
from tests.running import types_of

NOTED = "x.noted"


def said(state, event):
    return [*state, event.content.get("said")]


NOTES = Projection("notes", 1, [], said, types=frozenset({NOTED}))
TOTAL = Projection("total", 1, 0, lambda state, event: state + 1, types=frozenset({NOTED}), over="tenant")


@pytest.fixture
def place(anywhere):
    return anywhere or ":memory:"


def opened(place, *projections):
    ledger = counterfoil.open(place, projections=projections or (NOTES, TOTAL))
    ledger.declare(NOTED)
    return ledger


def note(ledger, *texts, conversation="c"):
    with ledger.run("a", conversation=conversation) as run:
        for text in texts:
            run.record(NOTED, {"said": text})


def spoil(ledger, **changed):
    """A checkpoint that nobody wrote so, put into the table by the store's own means."""
    stream_id = ledger.stream_of("c")
    found = ledger.store.checkpoint(stream_id, "notes", 1)
    ledger.store.save_checkpoint(replace(found, **changed))


def test_they_are_kept_and_found_by_the_next_process(place):
    with opened(place) as ledger:
        note(ledger, "one")
        first = ledger.projection("notes", "c")
        assert (first.state, ledger.projection("total").state) == (["one"], 1)
        if place == ":memory:":
            return
    with opened(place) as again:
        note(again, "two")
        view = again.projection("notes", "c")
        assert view.state == ["one", "two"]
        assert view.began_at > first.began_at
        total = again.projection("total")
        assert (total.state, total.began_at > 0) == (2, True)
        report = verify(again.store, again.keyring, FEATURES, registry=again.registry)
        assert (report.exit_code, report.rows_differ) == (0, ())


def test_a_spoilt_checkpoint_is_rejected_once_and_made_anew(place):
    with opened(place) as ledger:
        note(ledger, "one", "two")
        spoil(ledger, record=b"\x01" + b"x" * 80)
        assert ledger.projection("notes", "c").state == ["one", "two"]
        assert ledger.projection("notes", "c").refused == []
        assert types_of(ledger, "c").count("checkpoint.rejected") == 1
        assert [row["rejected"] for row in ledger.projection_rows("c")] == ["damaged"]


@pytest.mark.parametrize("anywhere", ["sqlite"], indirect=True)
def test_a_checkpoint_that_claims_more_than_there_is_gives_way(anywhere):
    with opened(anywhere) as ledger:
        note(ledger, "one")
    with closing(sqlite3.connect(anywhere / "ledger.db")) as database, database:
        # As after a backup was put back beside a newer table.
        database.execute("UPDATE checkpoint SET up_to_sequence = 9999 WHERE projection = 'notes'")
    with opened(anywhere) as ledger:
        view = ledger.projection("notes", "c")
        assert (view.state, [one.cause for one in view.refused]) == (["one"], ["ahead"])
        again = ledger.projection("notes", "c")
        assert (again.refused, again.began_at > 0) == ([], True)


def test_a_reader_without_the_right_to_write_folds_anew_and_records_nothing(anywhere):
    if anywhere is None:
        return
    with opened(anywhere) as ledger:
        note(ledger, "one")
        spoil(ledger, commitment="0" * 64)
        before = types_of(ledger, "c")
    with counterfoil.open(anywhere, read_only=True, projections=[NOTES]) as reader:
        reader.declare(NOTED)
        view = reader.projection("notes", "c")
        assert (view.state, [one.cause for one in view.refused]) == (["one"], ["damaged"])
        assert types_of(reader, "c") == before


def test_a_content_in_the_clear_is_folded_and_kept_as_well(place):
    with counterfoil.open(place, content="clear", projections=[NOTES]) as ledger:
        ledger.declare(NOTED)
        note(ledger, "one")
        view = ledger.projection("notes", "c")
        assert (view.state, view.began_at > 0) == (["one"], True)


def test_tasks_at_once_are_all_folded(place):
    async def serve(ledger, number):
        async with ledger.run("a", conversation=f"c{number}") as run:
            await asyncio.gather(*(run.arecord(NOTED, {"said": f"{number}.{each}"}) for each in range(5)))

    async def work(ledger):
        await asyncio.gather(*(serve(ledger, number) for number in range(4)))

    with opened(place) as ledger:
        asyncio.run(work(ledger))
        for number in range(4):
            view = ledger.projection("notes", f"c{number}")
            assert sorted(view.state) == [f"{number}.{each}" for each in range(5)]
            assert view.began_at > 0
        assert ledger.projection("total").state == 20


def test_a_store_that_fails_while_a_checkpoint_is_kept_hurts_no_run(place, monkeypatch, caplog):
    with opened(place) as ledger:

        def fails(_checkpoint: Checkpoint) -> None:
            raise StoreFull("the disk is full")

        monkeypatch.setattr(ledger.store, "save_checkpoint", fails)
        with ledger.run("a", conversation="c") as run:
            run.record(NOTED, {"said": "one"})
        assert run.terminal == "success"
        assert "not checkpointed" in caplog.text
        monkeypatch.undo()
        # The event has the state all the same, and the table is only a cache.
        view = ledger.projection("notes", "c")
        assert (view.state, view.began_at > 0) == (["one"], True)
