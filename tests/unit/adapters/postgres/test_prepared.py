"""Statements are prepared where the server itself answers, and nowhere else; plans go by keys whatever a table holds."""

from __future__ import annotations

import time

import pytest

from counterfoil.adapters.postgres.connect import PREPARE_THRESHOLD, BoundedConnection, connect, run
from counterfoil.adapters.postgres.faults import Verdict, verdict
from counterfoil.adapters.postgres.place import parse_place
from counterfoil.store.rows import Column, Put, TableSpec
from tests.unit.adapters.postgres.conftest import receipt

pytestmark = pytest.mark.postgres


@pytest.fixture(autouse=True)
def _nothing_has_failed_yet(monkeypatch):
    monkeypatch.setattr(BoundedConnection, "may_prepare", True)


@pytest.fixture
def connection(cluster):
    made = opened(cluster.url())
    yield made
    made.close()


def opened(url):
    return connect(parse_place(url), give_up_at=time.monotonic() + 30, writable=True)


def test_a_statement_is_prepared_where_the_server_itself_answers(connection):
    for _ in range(PREPARE_THRESHOLD + 1):
        run(connection, "SELECT 1")
    ((prepared,),) = run(connection, "SELECT count(*) FROM pg_prepared_statements").fetchall()
    assert prepared == 1


@pytest.mark.pooler
def test_no_statement_is_prepared_behind_a_pooler(cluster, pooler):
    behind = opened(cluster.url(port=pooler.port))
    threshold = behind.prepare_threshold
    behind.close()
    assert threshold is None


def test_a_process_whose_prepared_statement_was_not_there_prepares_no_more(cluster, connection):
    for _ in range(PREPARE_THRESHOLD + 1):
        run(connection, "SELECT 1")
    connection.execute(
        "DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$"
    )  # as if another server process answered
    with pytest.raises(Exception, match="does not exist") as caught:
        run(connection, "SELECT 1")
    assert verdict(caught.value, connection) is Verdict.LOST
    assert connection.closed
    again = opened(cluster.url())
    threshold = again.prepare_threshold
    again.close()
    assert threshold is None


def test_every_function_on_the_way_of_an_append_finds_rows_by_their_keys(ledger):
    ledger.open()
    rows = ledger.behind(
        "SELECT proname, coalesce(array_to_string(proconfig, ','), '') FROM pg_proc"
        " WHERE pronamespace = '{s}'::regnamespace AND proname ~ '^(begin_append|record_|append_|lock_|write_)'"
    )
    assert {name for name, _ in rows} >= {"begin_append", "append_lone", "append_lone_event", "record_events"}
    assert [name for name, settings in rows if "enable_seqscan=off" not in settings] == []


def test_a_column_may_be_called_like_a_parameter_of_the_functions(ledger, stream):
    names = ("gone", "fresh", "changed", "held", "keys", "was", "kept", "missing", "found_rows")
    odd = TableSpec("odd", (Column("odd_id"), Column("stream_id"), *map(Column, names)), key=("odd_id",))
    store = ledger.open((odd,))
    row = {"odd_id": "o", "stream_id": stream.stream_id} | dict.fromkeys(names, "x")
    for value in ("1", "2", "3"):
        receipt(store, stream.unit(stream.event(), rows=(Put("odd", row | {"held": value}),)))
    assert (store.get("odd", ("o",))["held"], store.get("odd", ("o",))["row_version"]) == ("3", 3)
