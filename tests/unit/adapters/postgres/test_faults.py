"""What a server does to its clients: frozen, crashed, read-only, terminated, out of connections, deadlocked."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from counterfoil.adapters.postgres import keystore, leases, transaction
from counterfoil.adapters.postgres.connect import BoundedConnection
from counterfoil.errors import (
    AppendTimeout,
    InputError,
    LedgerNotFound,
    NotPermitted,
    StoreBusy,
    StoreIO,
    StoreReadOnly,
)
from counterfoil.store.rows import RowIs
from counterfoil.store.unit import Lease, Receipt
from counterfoil.testing.events import SampleStream
from counterfoil.testing.manual import SequentialIds
from tests.servers.patience import hasty, hourglass
from tests.unit.adapters.postgres.conftest import Ledger, outcome, receipt, refusal, thing

pytestmark = pytest.mark.postgres

DEADLINE_S = 60


@pytest.fixture
def seen(ledger, stream):
    """A patient handle that has seen the stream's head."""
    store = ledger.open(wait_s=60, answer_s=20)
    receipt(store, stream.unit(stream.event()))
    receipt(store, stream.unit(stream.event()))
    return store


@pytest.fixture
def glass():
    """Deadlines of calls under way pass when the test says so."""
    with hourglass() as made:
        yield made


def sequences(store, stream):
    return [event.sequence for event in store.read(stream.stream_id)]


# ---- frozen ----------------------------------------------------------------------------------------------------------


def test_every_call_to_a_frozen_server_returns_with_an_error_that_names_its_way_out(ledger, seen, stream):
    lone = stream.unit(stream.event())
    rows = stream.unit(stream.event(), rows=(thing("new", stream),))
    reading = (
        lambda: seen.read(stream.stream_id),
        lambda: seen.head(stream.stream_id),
        seen.feed,
        lambda: seen.snapshot().__enter__(),
        lambda: ledger.open(wait_s=1, answer_s=0.4),
    )
    with ledger.cluster.frozen(), hasty(seen), ThreadPoolExecutor(len(reading)) as pool:
        asked = [pool.submit(call) for call in reading]
        with pytest.raises(AppendTimeout) as unknown:
            outcome(seen, lone)
        told = [unknown.value, refusal(seen, rows, StoreIO)]
        with pytest.raises(StoreIO) as caught:
            seen.claim(stream.stream_id, "me", 1000, 0)
        told += [caught.value, *(call.exception(DEADLINE_S) for call in asked)]
    assert "same ids" in unknown.value.hint
    assert all(isinstance(error, StoreIO) for error in told[1:])
    assert all(error.retryable and error.hint for error in told)
    assert receipt(seen, lone).positions[0].sequence in (6, 7)
    assert receipt(seen, rows).positions[0].sequence in (6, 7)
    assert sequences(seen, stream) == [1, 2, 3, 4, 5, 6, 7]


def test_appends_that_meet_a_freeze_go_on_after_it(ledger, stream):
    store = ledger.open(wait_s=60, answer_s=0.5)
    units = [stream.unit(event, rows=(thing(f"f{n}", stream),)) for n, event in enumerate(stream.events(6))]
    with ledger.cluster.frozen():
        futures = []
        waiting = threading.Thread(target=lambda: futures.extend(store.append([unit]) for unit in units))
        waiting.start()
        waiting.join(1)
    waiting.join(DEADLINE_S)
    told = [future.result(DEADLINE_S)[0] for future in futures]
    assert all(isinstance(one, Receipt) and not one.duplicate for one in told)
    assert sequences(store, stream) == list(range(1, 10))


def test_a_snapshot_of_a_server_that_freezes_meanwhile_says_so(ledger, seen, stream):
    with pytest.raises(StoreIO), seen.snapshot() as snapshot:
        snapshot.head(stream.stream_id)
        with ledger.cluster.frozen():
            snapshot._connection.answer_s = 0.4
            snapshot.read(stream.stream_id)


# ---- crashed, terminated, read-only ----------------------------------------------------------------------------------


def test_nothing_acknowledged_is_lost_when_the_server_crashes_under_appends(own_cluster, tmp_path):
    ledger = Ledger(own_cluster, tmp_path)
    store = ledger.open(wait_s=60, answer_s=10)
    begun, acknowledged = threading.Semaphore(0), []

    def work(name):
        mine = SampleStream(SequentialIds(name))
        receipt(store, mine.unit(create=True))
        for n in range(40):
            event = mine.event()
            told = outcome(store, mine.unit(event, rows=(thing(f"{name}{n}", mine),) if n % 2 else ()))
            assert isinstance(told, Receipt), told
            acknowledged.append((mine.stream_id, event.event_id, told.positions[0].sequence))
            begun.release()

    threads = [threading.Thread(target=work, args=(f"crash {n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        for _ in range(20):
            assert begun.acquire(timeout=DEADLINE_S)
        own_cluster.restart(signal.SIGQUIT)
    for thread in threads:
        thread.join(DEADLINE_S)
    assert len(acknowledged) == 160
    there = ledger.behind("SELECT stream_id, event_id, seq FROM {s}.event")
    assert set(acknowledged) <= set(there)
    assert len(there) == 160
    ledger.close()


def test_a_session_that_an_administrator_ends_is_replaced(ledger, store, stream):
    receipt(store, stream.unit(stream.event()))
    for _ in range(3):
        ledger.behind(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'counterfoil'"
        )
        assert receipt(store, stream.unit(stream.event(), rows=(thing("a", stream),))).duplicate is False
        assert len(store.streams()) == 1


@pytest.fixture
def read_only_server(ledger):
    """A server of which every session is told that it may not write, as a demoted leader's are."""
    ledger.behind("ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
    for _ in range(1000):
        # Sessions are told in passing; a new one knows when the server itself has read the setting.
        if ledger.behind("SHOW default_transaction_read_only") == [("on",)]:
            break
    yield
    undo = "SET default_transaction_read_only = off; ALTER SYSTEM RESET default_transaction_read_only"
    with psycopg.connect(ledger.cluster.url(), autocommit=True) as connection:
        for statement in undo.split(";"):
            connection.execute(statement)
        connection.execute("SELECT pg_reload_conf()")


def test_a_leader_that_is_demoted_under_us_refuses_and_reading_goes_on(
    ledger, seen, stream, read_only_server, glass
):
    glass.run_out()
    error = refusal(seen, stream.unit(stream.event(), rows=(thing("new", stream),)), StoreReadOnly)
    assert "target_session_attrs" in error.hint
    reader = ledger.open(read_only=True, create=False)
    assert len(reader.read(stream.stream_id)) == 5


def test_a_handle_that_may_only_read_refuses_to_write_and_needs_no_primary(
    ledger, store, stream, read_only_server
):
    reader = ledger.open(read_only=True, create=False)
    assert reader.read_only
    assert len(reader.select("thing")) == 3
    with pytest.raises(StoreReadOnly):
        reader.append([stream.unit(stream.event())])
    with pytest.raises(StoreReadOnly):
        reader.claim(stream.stream_id, "me", 1, 0)


# ---- locks and races -------------------------------------------------------------------------------------------------


def test_a_deadlock_with_somebody_else_is_run_again(ledger, store, stream):
    guard = RowIs("thing", ("t0",))
    with psycopg.connect(ledger.cluster.url()) as other:
        other.execute("SET deadlock_timeout = '1h'")
        other.execute(f"SELECT 1 FROM {ledger.schema}.row_thing WHERE thing_id = 't0' FOR UPDATE")
        future = []
        unit = stream.unit(stream.event(), guards=(guard,))
        waiting = threading.Thread(target=lambda: future.append(store.append([unit])))
        waiting.start()
        other.execute("SET lock_timeout = '30s'")
        # Waits for the head that the append has locked, while the append waits for the row.
        _until_waiting(ledger)
        other.execute(f"UPDATE {ledger.schema}.head SET token = token")
        other.rollback()
    waiting.join(DEADLINE_S)
    assert isinstance(future[0].result(DEADLINE_S)[0], Receipt)


def _until_waiting(ledger):
    for _ in range(1000):
        (count,) = ledger.behind("SELECT count(*) FROM pg_locks WHERE NOT granted")[0]
        if count:
            return
    raise AssertionError("nobody waits for a lock")


def test_a_head_that_somebody_holds_too_long_is_busy(ledger, seen, stream, glass, monkeypatch):
    monkeypatch.setattr(transaction, "LOCK_SHARE", 0.001)
    glass.run_out()
    with psycopg.connect(ledger.cluster.url()) as other:
        other.execute(f"SELECT 1 FROM {ledger.schema}.head FOR UPDATE")
        error = refusal(seen, stream.unit(stream.event(), rows=(thing("new", stream),)), StoreBusy)
        assert error.retryable
    assert isinstance(outcome(seen, stream.unit(stream.event())), Receipt)


def test_a_last_try_that_the_deadline_cuts_short_tells_what_the_ones_before_waited_for(
    ledger, seen, stream, glass, monkeypatch
):
    firsts, real = iter([1]), transaction.WriteTransaction.begin

    def begin(self, *args):
        # The server says of the first try that the lock was not given; the next one's answer does not come in time.
        first = next(firsts, None)
        monkeypatch.setattr(self, "lock_ms", first or DEADLINE_S * 1000)
        if first is None:
            self.connection.answer_s = 0.2
            glass.run_out()
        real(self, *args)

    monkeypatch.setattr(transaction.WriteTransaction, "begin", begin)
    with psycopg.connect(ledger.cluster.url()) as other:
        other.execute(f"SELECT 1 FROM {ledger.schema}.head FOR UPDATE")
        refusal(seen, stream.unit(stream.event(), rows=(thing("new", stream),)), StoreBusy)


def test_whether_a_claim_stands_is_told_when_the_commit_under_way_is_over(ledger, store, stream):
    lease = Lease(stream.stream_id, 1, "me", 5)
    with (
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(ledger.cluster.url()) as other,
        BoundedConnection.connect(ledger.cluster.url(), autocommit=True) as looking,
    ):
        looking.answer_s = DEADLINE_S
        other.execute(f"UPDATE {ledger.schema}.head SET token = 1, lease_owner = 'me', lease_until = 5")
        told = pool.submit(leases.stands, looking, ledger.schema, lease)
        _until_waiting(ledger)
        other.commit()
        assert told.result(DEADLINE_S)


def test_whether_keys_were_put_is_told_when_every_commit_under_way_is_over(ledger, store):
    keys = ledger.key_store()
    with ThreadPoolExecutor(1) as pool, psycopg.connect(ledger.cluster.url()) as other:
        other.execute(f"SELECT {keystore.UNDER_WAY}", (f"{ledger.schema}_keys",))
        told = pool.submit(keys._none_under_way)
        _until_waiting(ledger)
        other.commit()
        assert told.result(DEADLINE_S)


def test_a_row_that_somebody_inserts_meanwhile_is_seen_on_the_second_try(ledger, store, stream):
    other = SampleStream(SequentialIds("other"))
    second = ledger.open()
    receipt(second, other.unit(create=True))
    for n in range(10):
        futures = [
            handle.append([made.unit(made.event(), rows=(thing(f"same{n}", made),))])
            for handle, made in ((store, stream), (second, other))
        ]
        assert all(isinstance(future.result(DEADLINE_S)[0], Receipt) for future in futures)
        assert store.get("thing", (f"same{n}",))["row_version"] == 2


def test_rebuilding_rows_may_take_longer_than_a_call_as_long_as_the_server_answers(ledger, stream):
    store, never = ledger.open(wait_s=60, answer_s=20), threading.Event()

    def slowly():
        for number in range(2):
            never.wait(0.1)
            yield thing(f"again {number}", stream)

    with hasty(store, wait_s=0.1, answer_s=20):
        store.rebuild_rows(stream.stream_id, slowly())
    assert [row["thing_id"] for row in store.select("thing")] == ["again 0", "again 1"]


# ---- refused connections ---------------------------------------------------------------------------------------------


def test_a_server_that_is_not_there_is_said_at_once(ledger):
    from counterfoil.adapters.postgres import open_postgres
    from tests.servers.cluster import free_port

    with pytest.raises(StoreIO) as caught:
        open_postgres(ledger.url(port=free_port()))
    assert "see whether the server runs" in caught.value.hint


def test_a_database_that_is_not_there_is_no_ledger(ledger):
    from counterfoil.adapters.postgres import open_postgres

    with pytest.raises(LedgerNotFound, match="does not exist"):
        open_postgres(ledger.cluster.url(database="nowhere", schema="x"))


def test_a_login_that_is_not_there_is_refused_without_trying_again(ledger):
    from counterfoil.adapters.postgres import open_postgres

    with pytest.raises(NotPermitted):
        open_postgres(ledger.cluster.url(user="nobody_of_this_name"))


def test_a_schema_without_a_ledger_is_no_ledger(ledger):
    with pytest.raises(LedgerNotFound, match="no ledger"):
        ledger.open(create=False)


def test_a_server_without_room_for_another_connection_is_busy(ledger, store, stream):
    user = f"{ledger.schema}_one"
    ledger.behind(
        f'CREATE ROLE "{user}" LOGIN SUPERUSER', f'ALTER ROLE "{user}" NOSUPERUSER CONNECTION LIMIT 1'
    )
    ledger.behind(
        f'GRANT ALL ON SCHEMA {{s}} TO "{user}"', f'GRANT SELECT ON ALL TABLES IN SCHEMA {{s}} TO "{user}"'
    )
    with psycopg.connect(ledger.cluster.url(user=user)), pytest.raises(StoreBusy) as caught:
        ledger.open(user=user, create=False, wait_s=1, answer_s=1)
    assert "pooler" in caught.value.hint


def test_no_more_readers_than_allowed_are_connected(ledger, store, stream):
    from counterfoil.adapters.postgres import open_postgres

    few = open_postgres(ledger.url(connections=2, wait_s=60), tables=(), create=False)
    ledger.handles.append(few)
    with few.snapshot(), few.snapshot(), hasty(few, wait_s=0.2), pytest.raises(StoreBusy) as caught:
        few.head(stream.stream_id)
    assert "2 reading connections" in caught.value.message
    assert few.head(stream.stream_id).sequence == 3


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_login_with_another_isolation_level_appends_all_the_same(ledger, stream, level):
    user = f"{ledger.schema}_{level[0]}"
    ledger.behind(
        f'CREATE ROLE "{user}" LOGIN SUPERUSER',
        f"ALTER ROLE \"{user}\" SET default_transaction_isolation = '{level}'",
    )
    handles = [ledger.open(user=user) for _ in range(3)]
    units = [
        [
            stream.unit(event, rows=(thing("same", stream),) if n % 2 else ())
            for n, event in enumerate(stream.events(12))
        ]
        for _ in handles
    ]
    with ThreadPoolExecutor(len(handles)) as pool:
        list(pool.map(lambda handle, mine: [receipt(handle, unit) for unit in mine], handles, units))
    assert sequences(handles[0], stream) == list(range(1, 40))
    assert handles[0].get("thing", ("same",))["row_version"] == 18


# ---- durability that a login's own settings would give away ---------------------------------------------------------


def test_a_login_that_would_not_wait_for_the_disk_waits_all_the_same(ledger, stream):
    user = f"{ledger.schema}_fast"
    ledger.behind(
        f'CREATE ROLE "{user}" LOGIN SUPERUSER', f'ALTER ROLE "{user}" SET synchronous_commit = off'
    )
    store = ledger.open(user=user)
    receipt(store, stream.unit(stream.event()))
    seen = []
    engine = store._engine
    real = engine._transaction

    def looking(connection, attempt, work, jobs):
        def and_look(transaction):
            answer = work(transaction)
            seen.append(connection.execute("SELECT current_setting('synchronous_commit')").fetchone()[0])
            return answer

        return real(connection, attempt, and_look, jobs)

    engine._transaction = looking
    receipt(store, stream.unit(stream.event()))
    receipt(store, stream.unit(stream.event(), rows=(thing("new", stream),)))
    assert seen == ["on", "on"]


def test_a_server_without_fsync_is_refused(ledger, monkeypatch):
    from counterfoil.adapters.postgres import migrate

    real = migrate.fetch
    monkeypatch.setattr(
        migrate,
        "fetch",
        lambda connection, sql, *rest: (
            [(180000, "UTF8", "off")] if "fsync" in sql else real(connection, sql, *rest)
        ),
    )
    with pytest.raises(InputError, match="fsync"):
        ledger.open()


def test_a_database_of_another_encoding_is_refused(ledger):
    from counterfoil.adapters.postgres import open_postgres

    ledger.cluster.sql("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(InputError, match="UTF8"):
        open_postgres(ledger.cluster.url(database="latin"), create=True, ledger_id="ldg_x")
