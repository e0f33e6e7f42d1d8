"""Handles of a ledger on a server: opened by its address, closed, forked, and without the package that they need."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

import counterfoil
from counterfoil.errors import (
    ConfigInvalid,
    CounterfoilError,
    HandleForked,
    InputError,
    KeyStoreMissing,
    LedgerNotFound,
    StoreClosed,
    StoreReadOnly,
)
from counterfoil.keys.environment import VARIABLE
from tests.unit.adapters.postgres.conftest import receipt

pytestmark = pytest.mark.postgres


@pytest.fixture
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


# ---- by its address ---------------------------------------------------------------------------------------------------


def test_an_address_opens_a_ledger_that_is_made_when_it_is_not_there(place, home):
    with pytest.raises(LedgerNotFound):
        counterfoil.open(place, create=False)
    with counterfoil.open(place) as ledger:
        assert ledger.created
        assert ledger.store.capabilities.engine == "postgresql"
        assert ledger.place == place
        ledger_id = ledger.id
    with counterfoil.open(place.replace("postgresql://", "postgres://")) as again:
        assert (again.created, again.id) == (False, ledger_id)


def test_key_encryption_keys_lie_in_the_home_directory_unless_told_otherwise(place, home):
    with counterfoil.open(place) as ledger:
        assert len(list((home / ".counterfoil" / ledger.id / "kek").iterdir())) == 1
        assert ledger.keyring.provider.arrangement() == "covered"


def test_key_encryption_keys_lie_where_the_address_says(place, home):
    with counterfoil.open(f"{place}&kek={home / 'elsewhere' / 'kek'}"):
        assert len(list((home / "elsewhere" / "kek").iterdir())) == 1
    assert not (home / ".counterfoil").exists()


def test_key_encryption_keys_come_from_the_environment_when_it_holds_some(place, home, monkeypatch):
    monkeypatch.setenv(VARIABLE, f"kek_01J9ZC3Y3V7W2R5T8QK4M6N0PK={'ab' * 32}")
    with (
        counterfoil.open(place) as ledger,
        ledger.run("agent", conversation="case", message="hello", dedupe="m"),
    ):
        pass
    assert not (home / ".counterfoil").exists()
    with counterfoil.open(place) as ledger:
        assert next(ledger.events("case", types={"admission.accepted"})).content["message"] == "hello"


def test_a_ledger_whose_key_store_is_gone_opens_for_headers_only(place, home, cluster):
    with counterfoil.open(place) as ledger, ledger.run("agent", conversation="case", dedupe="m"):
        stream_id = ledger.conversations()[0].stream_id
    schema = place.rpartition("=")[2]
    cluster.sql(f"DROP SCHEMA {schema}_keys CASCADE")
    with counterfoil.open(place) as ledger:
        assert ledger.read_only
        assert next(ledger.events(stream_id)).content_state == "withheld"
        with pytest.raises(KeyStoreMissing):
            ledger.run("agent", conversation="case", dedupe="m")


def test_reading_only_makes_nothing(place, home, cluster):
    with pytest.raises(LedgerNotFound):
        counterfoil.open(place, read_only=True)
    with counterfoil.open(place) as ledger:
        assert not ledger.read_only
    with counterfoil.open(place, read_only=True) as ledger, pytest.raises(StoreReadOnly):
        ledger.run("agent", conversation="case", dedupe="m")


def test_the_driver_is_imported_only_for_an_address_of_a_server(tmp_path):
    code = (
        "import sys, counterfoil\n"
        f"counterfoil.open({str(tmp_path / 'ledger')!r}).close()\n"
        "assert 'psycopg' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_the_driver_the_way_out_is_named(monkeypatch):
    for name in list(sys.modules):
        if name.startswith("counterfoil.adapters.postgres"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InputError, match="psycopg") as caught:
        counterfoil.open("postgresql://localhost/ledger")
    assert "counterfoil[postgres]" in caught.value.hint


def test_a_wrong_address_is_said_before_anything_is_asked():
    with pytest.raises(ConfigInvalid):
        counterfoil.open("postgresql://localhost/ledger?schema=No")


# ---- closed and forked ----------------------------------------------------------------------------------------------


def test_a_closed_handle_leaves_no_connection_behind(ledger, store, stream):
    store.read(stream.stream_id)
    with store.snapshot() as snapshot:
        snapshot.head(stream.stream_id)
    keys = ledger.key_store()
    keys.epochs()
    store.close()
    keys.close()
    counted = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'counterfoil' AND query LIKE '%{s}%'"
    )
    for _ in range(1000):
        if ledger.behind(counted) == [(0,)]:
            break
    assert ledger.behind(counted) == [(0,)]
    for call in (lambda: store.head("x"), store.feed, lambda: keys.get("x"), lambda: store.append([])):
        with pytest.raises(StoreClosed):
            call()


def test_closing_does_not_wait_for_a_server_that_is_away(ledger, stream):
    store = ledger.open(wait_s=60, answer_s=1)
    receipt(store, stream.unit(stream.event()))
    failures = []

    def append():
        try:
            store.append([stream.unit(stream.event())]).result()
        except CounterfoilError as error:
            failures.append(error)

    with ledger.cluster.frozen():
        waiting = threading.Thread(target=append)
        waiting.start()
        waiting.join(0.3)
        store.close()
        waiting.join(60)
    assert not waiting.is_alive()
    assert len(failures) == 1


def test_a_handle_used_after_a_fork_refuses_and_the_parents_goes_on(ledger, store, stream):
    keys = ledger.key_store()
    before = keys.epochs()
    store.head(stream.stream_id)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            try:
                store.head(stream.stream_id)
            except HandleForked:
                # A key store goes on working: the child opens connections of its own.
                code = 0 if keys.epochs() == before else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert keys.epochs() == before
    assert receipt(store, stream.unit(stream.event())).positions[0].sequence == 4
    assert len(store.read(stream.stream_id)) == 4
