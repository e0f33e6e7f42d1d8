"""A leader and its replica: replicas follow synchronously or are refused, and only the leader is written to."""

from __future__ import annotations

import time
from contextlib import suppress

import psycopg
import pytest

from counterfoil.errors import AppendTimeout, ConfigInvalid, StoreReadOnly
from counterfoil.testing.events import SampleStream
from counterfoil.testing.manual import SequentialIds
from tests.servers.cluster import Cluster
from tests.servers.patience import hasty
from tests.unit.adapters.postgres.conftest import Ledger, outcome, receipt, thing
from tests.unit.adapters.postgres.test_roles import login, make

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def pair(clusters):
    """A leader of its own with a replica, so that no other test meets it."""
    leader = Cluster(clusters("packaged").binaries).start()
    replica = Cluster(leader.binaries, follows=leader).start()
    yield leader, replica
    replica.destroy()
    leader.destroy()


@pytest.fixture
def leader(pair):
    """The leader, with replicas that follow behind."""
    synchronously(pair[0], "")
    wait_for(pair[0], "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'")
    return pair[0]


@pytest.fixture
def ledger(leader, tmp_path):
    made = Ledger(leader, tmp_path)
    yield made
    made.close()


def synchronously(leader, names):
    leader.sql(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'", "SELECT pg_reload_conf()")
    wait_for(leader, f"SELECT 1 WHERE current_setting('synchronous_standby_names') = '{names}'")


def wait_for(server, sql):
    """Ask until there is an answer: a replica follows in a moment, and tells nobody when."""
    deadline = time.monotonic() + 60
    while True:
        with suppress(psycopg.errors.UndefinedTable):
            if server.sql(sql):
                return
        assert time.monotonic() < deadline, sql


def open_async(ledger, **options):
    from counterfoil.adapters.postgres import open_postgres
    from counterfoil.testing.events import SAMPLE_LEDGER
    from tests.unit.adapters.postgres.conftest import THING

    place = ledger.url(replicas="async")
    store = open_postgres(place, tables=(THING,), create=True, ledger_id=SAMPLE_LEDGER, keys=True, **options)
    ledger.handles.append(store)
    return store


def test_replicas_that_follow_behind_are_refused_with_the_way_out(ledger):
    with pytest.raises(ConfigInvalid, match="follow behind") as caught:
        ledger.open()
    assert "synchronous_standby_names" in caught.value.hint
    assert "replicas=async" in caught.value.hint


def test_who_accepts_that_says_so(ledger):
    store = open_async(ledger)
    assert store.notices == ()
    stream = SampleStream()
    receipt(store, stream.unit(stream.event(), create=True))


def test_a_login_that_cannot_see_what_a_replica_is_gets_a_notice(ledger, caplog):
    open_async(ledger)
    make(ledger)
    store = ledger.open(user=login(ledger, "worker", "worker"), create=False)
    assert ["follow behind" in notice for notice in store.notices] == [True]
    assert "follow behind" in caplog.text


def test_replicas_that_follow_synchronously_are_what_is_wanted(ledger, pair):
    leader, replica = pair
    synchronously(leader, "*")
    store, stream = ledger.open(), SampleStream()
    assert store.notices == ()
    receipt(store, stream.unit(stream.event(), create=True))
    wait_for(replica, f"SELECT 1 FROM {ledger.schema}.event")


def test_what_no_replica_has_confirmed_is_not_acknowledged_and_lands_once(ledger, pair):
    leader, replica = pair
    synchronously(leader, "*")
    store = ledger.open(wait_s=60, answer_s=20)
    one, other = SampleStream(), SampleStream(SequentialIds("other"))
    for stream in (one, other):
        receipt(store, stream.unit(stream.event(), create=True))
    units = [one.unit(one.event()), other.unit(other.event(), rows=(thing("new", other),))]
    with replica.frozen(), hasty(store):
        for unit in units:
            with pytest.raises(AppendTimeout):
                outcome(store, unit)
    assert [receipt(store, unit).positions[0].sequence for unit in units] == [2, 2]
    assert [len(store.read(stream.stream_id)) for stream in (one, other)] == [2, 2]


def test_a_replica_is_read_from_and_never_written_to(ledger, pair):
    _, replica = pair
    store, stream = open_async(ledger), SampleStream()
    receipt(store, stream.unit(stream.event(), create=True))
    wait_for(replica, f"SELECT 1 FROM {ledger.schema}.event")
    behind = Ledger(replica, "")
    behind.schema = ledger.schema
    with pytest.raises(StoreReadOnly) as caught:
        behind.open(create=False, wait_s=1)
    assert "target_session_attrs" in caught.value.hint
    reader = behind.open(create=False, read_only=True)
    assert [event.sequence for event in reader.read(stream.stream_id)] == [1]
    behind.close()


def test_of_several_hosts_the_leader_is_found(ledger, pair):
    from counterfoil.adapters.postgres import open_postgres

    leader, replica = pair
    first = open_async(ledger)
    both = ledger.url(replicas="async").replace(
        f"127.0.0.1:{leader.port}", f"127.0.0.1:{replica.port},127.0.0.1:{leader.port}"
    )
    store, stream = open_postgres(both, create=False), SampleStream()
    ledger.handles.append(store)
    receipt(store, stream.unit(stream.event(), create=True))
    assert first.head(stream.stream_id).sequence == 1
