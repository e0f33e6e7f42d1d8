"""A ledger that was dumped and restored into another server: it opens, verifies, and its feed goes on."""

from __future__ import annotations

import subprocess

import psycopg
import pytest

from counterfoil.errors import NotPermitted
from counterfoil.testing.events import SampleStream
from counterfoil.testing.manual import SequentialIds
from tests.unit.adapters.postgres.conftest import THING, Ledger, receipt, thing
from tests.unit.adapters.postgres.test_roles import login, make

pytestmark = pytest.mark.postgres


def moved(ledger, target):
    """The same schemas on the target, by the tools that everybody uses."""
    tools = ledger.cluster.binaries
    source = ledger.cluster.url()
    command = [str(tools / "pg_dump"), source, "-n", ledger.schema, "-n", f"{ledger.schema}_keys"]
    dumped = subprocess.run(command, capture_output=True, check=True)
    restore = [str(tools / "psql"), "-q", "-v", "ON_ERROR_STOP=1", target.url()]
    subprocess.run(restore, input=dumped.stdout, capture_output=True, check=True)


@pytest.fixture
def restored(ledger, store, stream, own_cluster, tmp_path):
    """The ledger on a server whose transactions count from the beginning."""
    for _ in range(200):
        ledger.behind("SELECT pg_current_xact_id()")
    other = SampleStream(SequentialIds("other"))
    receipt(store, other.unit(*other.events(2), create=True, rows=(thing("o", other),)))
    ledger.cursor = store.feed().cursor
    there = Ledger(own_cluster, tmp_path)
    moved(ledger, own_cluster)
    assert there.behind("SELECT max(xact) > pg_current_xact_id()::text::bigint FROM {s}.event") == [(True,)]
    yield there
    there.close()


def test_everything_is_there_and_the_feed_goes_on_from_an_old_cursor(ledger, store, stream, restored):
    copied = restored.open()
    assert copied.ledger_id == store.ledger_id
    assert copied.streams() == store.streams()
    assert copied.read(stream.stream_id) == store.read(stream.stream_id)
    assert copied.select("thing") == store.select("thing")
    page = copied.feed()
    assert (len(page.events), page.caught_up, page.lag) == (5, True, "")
    assert copied.feed(ledger.cursor).events == ()
    receipt(copied, stream.unit(stream.event()))
    receipt(copied, stream.unit(*stream.events(9)))
    following = copied.feed(ledger.cursor)
    assert [event.sequence for event in following.events] == list(range(4, 14))
    assert following.caught_up
    positions = [event.position for event in copied.feed().events]
    assert positions == sorted(set(positions))


def test_it_is_taken_over_once_and_by_its_owner(restored, stream):
    assert len(make(restored)) == 6
    worker = login(restored, "worker", "worker")
    with pytest.raises(NotPermitted):
        restored.open(user=worker, create=False)
    restored.open()
    offset = restored.behind("SELECT value FROM {s}.meta WHERE name = 'xact_offset'")
    store = restored.open(user=worker, create=False)
    receipt(store, stream.unit(stream.event()))
    restored.open()
    assert restored.behind("SELECT value FROM {s}.meta WHERE name = 'xact_offset'") == offset


def test_guards_and_row_level_security_are_restored_too(restored, stream):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        restored.behind("DELETE FROM {s}.event")
    rows = restored.behind(
        "SELECT relname FROM pg_class WHERE relrowsecurity AND relnamespace = '{s}'::regnamespace"
    )
    assert {"event", "event_content", "stream", "head", f"row_{THING.name}"} <= {name for (name,) in rows}
