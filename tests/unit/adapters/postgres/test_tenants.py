"""Two tenants of one ledger, each with a login of its own: they neither see nor collide with each other."""

from __future__ import annotations

import psycopg
import pytest

from counterfoil.abc.keys import KeyRow, SubjectRow
from counterfoil.errors import EpochMoved, NotPermitted, StoreBusy, StreamNotFound
from counterfoil.store.rows import Absent
from counterfoil.testing.events import SampleStream
from counterfoil.testing.manual import SequentialIds
from tests.unit.adapters.postgres.conftest import receipt, refusal, thing
from tests.unit.adapters.postgres.test_roles import login, make

pytestmark = pytest.mark.postgres

TENANTS = ("north", "south")


class Side:
    """One tenant: its login, its handles, and a stream with two events and a row."""

    def __init__(self, ledger, tenant):
        self.user = login(ledger, tenant, "worker", tenant)
        self.store = ledger.open(user=self.user, create=False)
        self.keys = ledger.key_store(user=self.user)
        self.stream = SampleStream(SequentialIds(tenant), tenant=tenant)
        self.ids = SequentialIds(f"keys of {tenant}")
        self.kek = self.ids.new("kek")
        rows = (thing(f"of {tenant}", self.stream),)
        receipt(self.store, self.stream.unit(*self.stream.events(2), create=True, rows=rows))
        self.keys.replace(tenant, self.kek, [], [])
        self.key = KeyRow(self.ids.new("dk"), self.stream.stream_id, self.kek, b"wrapped", b"check")
        self.keys.put([self.key], [SubjectRow(self.key.key_id, self.kek, b"ann", b"box")])


@pytest.fixture
def sides(ledger, store):
    make(ledger)
    return [Side(ledger, tenant) for tenant in TENANTS]


def test_a_tenant_sees_its_own_streams_events_rows_and_feed(sides):
    for mine, theirs in (sides, sides[::-1]):
        assert [found.stream_id for found in mine.store.streams()] == [mine.stream.stream_id]
        assert mine.store.streams(theirs.stream.genesis.tenant) == []
        assert mine.store.read(theirs.stream.stream_id) == []
        assert mine.store.head(theirs.stream.stream_id) is None
        assert [row["tenant"] for row in mine.store.select("thing")] == [mine.stream.genesis.tenant]
        assert {event.stream_id for event in mine.store.feed().events} == {mine.stream.stream_id}
        assert mine.store.strays() == []


def test_a_tenant_cannot_append_to_another_ones_stream_or_make_one_for_it(sides):
    mine, theirs = sides
    refusal(mine.store, theirs.stream.unit(theirs.stream.event()), StreamNotFound)
    forged = SampleStream(SequentialIds("forged"), tenant="south")
    refusal(mine.store, forged.unit(forged.event(), create=True), NotPermitted)
    taken = theirs.stream.unit(theirs.stream.event(), create=True)
    refusal(mine.store, taken, NotPermitted)
    # The same id under its own tenant: it exists, unseen, and nothing can be put in its place.
    disguised = SampleStream(SequentialIds("x"), tenant="north", stream_id=theirs.stream.stream_id)
    refusal(mine.store, disguised.unit(disguised.event(), create=True), StoreBusy)
    assert theirs.store.head(theirs.stream.stream_id).sequence == 2


def test_a_row_of_another_tenant_cannot_be_read_changed_or_taken(sides):
    mine, theirs = sides
    assert mine.store.get("thing", ("of south",)) is None
    stream = mine.stream
    refusal(
        mine.store, stream.unit(stream.event(), rows=(thing("forged", stream, tenant="south"),)), NotPermitted
    )
    receipt(mine.store, stream.unit(stream.event(), guards=(Absent("thing", ("nobody's",)),)))
    assert theirs.store.get("thing", ("of south",))["row_version"] == 1


def test_units_of_another_tenant_in_one_batch_do_not_take_their_neighbours_along(sides):
    mine, _ = sides
    forged = SampleStream(SequentialIds("forged"), tenant="south")
    good = [mine.stream.unit(mine.stream.event(), rows=(thing(f"good {n}", mine.stream),)) for n in range(2)]
    first, wrong, last = mine.store.append(
        [good[0], forged.unit(forged.event(), create=True), good[1]]
    ).result()
    assert [place.sequence for told in (first, last) for place in told.positions] == [3, 4]
    assert isinstance(wrong.error, NotPermitted)


def test_keys_of_another_tenant_are_not_there(sides):
    for mine, theirs in (sides, sides[::-1]):
        assert dict(mine.keys.epochs()) == {mine.stream.genesis.tenant: mine.kek}
        assert mine.keys.scan() == [mine.key]
        assert mine.keys.get(theirs.key.key_id) is None
        assert mine.keys.find_subject(b"ann", theirs.stream.stream_id) is None
        assert mine.keys.subjects_of(theirs.key.key_id) == []
        assert mine.keys.delete([theirs.key.key_id]) == 0


def test_a_key_cannot_be_made_under_another_tenants_epoch(sides):
    mine, theirs = sides
    with pytest.raises(EpochMoved):
        mine.keys.put([KeyRow(mine.ids.new("dk"), "str_a", theirs.kek, b"x", b"c")])
    with pytest.raises(NotPermitted):
        mine.keys.replace("south", mine.ids.new("kek"), [], [])


def test_one_key_encryption_key_does_not_serve_two_tenants(ledger, sides):
    login(ledger, "third", "worker", "west")
    third = ledger.key_store(user=f"{ledger.schema}_third_login")
    with pytest.raises(EpochMoved, match="another tenant"):
        third.replace("west", sides[0].kek, [], [])


def test_unwrapped_keys_of_clear_ledgers_are_kept_apart_too(sides):
    mine, theirs = sides
    clear = KeyRow(mine.ids.new("dk"), mine.stream.stream_id, "", b"k" * 32, b"check")
    mine.keys.put([clear])
    assert mine.keys.get(clear.key_id) == clear
    assert theirs.keys.get(clear.key_id) is None


def test_a_tenant_cannot_see_more_by_settings_or_roles_of_its_own(ledger, sides):
    mine, _ = sides
    with psycopg.connect(ledger.cluster.url(user=mine.user), autocommit=True) as connection:
        connection.execute("SET row_security = off")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"SELECT * FROM {ledger.schema}.event")
        connection.execute("SET row_security = on")
        connection.execute(f'SET ROLE "{ledger.schema}_worker"')
        (count,) = connection.execute(f"SELECT count(*) FROM {ledger.schema}.event").fetchone()
        assert count == 2


def test_a_login_with_every_tenant_sees_all_and_one_that_was_dismissed_nothing(ledger, sides):
    everyone = login(ledger, "everyone", "auditor", "*")
    store = ledger.open(user=everyone, create=False)
    assert len(store.streams()) == 2
    ledger.behind(f"SELECT {{s}}.dismiss('{everyone}', '*')")
    assert store.streams() == []


def test_every_table_of_the_product_tells_the_tenant_or_the_stream_of_its_rows():
    from counterfoil.adapters.postgres.tables import row_condition
    from counterfoil.client.features import TABLES

    untold = [spec.name for spec in TABLES if row_condition(spec, "s").startswith("'*'")]
    assert untold == []
