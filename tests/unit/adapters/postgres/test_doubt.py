"""Connections lost at every moment of an append: looked up by id under the head's lock, and only then told."""

from __future__ import annotations

import pytest

from counterfoil.adapters.postgres.heads import HeadMemory
from counterfoil.errors import AppendTimeout, Fenced, StoreError, StoreIO
from counterfoil.store.unit import Receipt
from tests.servers.patience import hasty, hourglass
from tests.servers.proxy import Proxy
from tests.unit.adapters.postgres.conftest import outcome, receipt, refusal, thing

pytestmark = pytest.mark.postgres

MOMENTS = ("drop", "pass and drop")


@pytest.fixture
def proxy(cluster):
    made = Proxy(cluster.port)
    yield made
    made.close()


@pytest.fixture
def through(ledger, stream, proxy):
    """A handle whose connections go through the proxy; it has seen the stream's head.

    It waits long: a connection that is cut is noticed at once, and only what is kept back takes a short deadline.
    """
    store = ledger.open(port=proxy.port, wait_s=60, answer_s=20)
    receipt(store, stream.unit(stream.event()))
    receipt(store, stream.unit(stream.event()))
    return store


@pytest.fixture
def glass():
    """Deadlines of calls under way pass when the test says so."""
    with hourglass() as made:
        yield made


def committing(chunk):
    return b"COMMIT\x00" in chunk or b"append_quick" in chunk


def lone(chunk):
    return b"append_lone" in chunk


def locking(chunk):
    return b"begin_append" in chunk


def asking(store):
    """The same handle, which remembers nothing: a batch asks first what is there, and then sends what it adds."""
    store._engine._heads = HeadMemory()
    return store


def sequences(store, stream):
    return [event.sequence for event in store.read(stream.stream_id)]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_lone_append_whose_answer_is_lost_lands_once_and_is_told(through, store, stream, proxy, moment):
    happened = proxy.once(moment, lone)
    told = receipt(through, stream.unit(stream.event()))
    assert happened.is_set()
    assert (told.duplicate, told.positions[0].sequence) == (False, 6)
    assert sequences(store, stream) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_append_with_rows_whose_commit_is_lost_lands_once_and_is_told(
    through, store, stream, proxy, moment
):
    happened = proxy.once(moment, committing)
    told = receipt(through, stream.unit(stream.event(), rows=(thing("new", stream),)))
    assert happened.is_set()
    assert (told.duplicate, told.positions[0].sequence) == (False, 6)
    assert sequences(store, stream) == [1, 2, 3, 4, 5, 6]
    assert store.get("thing", ("new",))["row_version"] == 1


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_batch_that_goes_by_copy_lands_once(through, store, stream, proxy, moment):
    happened = proxy.once(moment, committing)
    held = receipt(store, stream.unit(stream.event()))
    units = [stream.unit(event) for event in stream.events(20)]
    told = through.append(units).result()
    assert happened.is_set()
    assert all(isinstance(one, Receipt) and not one.duplicate for one in told)
    assert sequences(store, stream) == list(range(1, held.positions[0].sequence + 21))


@pytest.mark.parametrize("what", ["drop", "swallow", "half-close"])
def test_a_connection_lost_before_anything_was_sent_to_be_kept_is_no_matter(
    through, store, stream, proxy, what
):
    happened = proxy.once(what, locking)
    with hasty(through, wait_s=60, answer_s=1):
        told = receipt(asking(through), stream.unit(stream.event(), rows=(thing("new", stream),)))
    assert happened.is_set()
    assert (told.duplicate, told.positions[0].sequence) == (False, 6)


def test_an_answer_that_never_comes_is_no_reason_to_wait_for_ever(through, store, stream, proxy):
    happened = proxy.once("swallow", lambda chunk: b"INSERT 0" in chunk or b"SELECT 1" in chunk, answers=True)
    with hasty(through, wait_s=60, answer_s=1):
        told = receipt(through, stream.unit(stream.event()))
    assert happened.is_set()
    assert told.duplicate is False
    assert sequences(store, stream) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("moment", MOMENTS)
def test_what_cannot_be_looked_up_in_time_is_told_as_unknown_and_lands_once_later(
    through, store, stream, proxy, glass, moment
):
    unit = stream.unit(stream.event(), rows=(thing("new", stream),))

    def and_refuse(chunk):
        if not committing(chunk):
            return False
        proxy.refusing = True
        glass.run_out()
        return True

    proxy.once(moment, and_refuse)
    with pytest.raises(AppendTimeout) as caught:
        outcome(through, unit)
    assert caught.value.retryable
    assert "same ids" in caught.value.hint
    proxy.calm()
    assert receipt(through, unit).positions[0].sequence == 6
    assert sequences(store, stream) == [1, 2, 3, 4, 5, 6]
    assert store.get("thing", ("new",))["row_version"] == 1


def test_what_was_surely_not_recorded_is_refused_with_the_way_out(through, store, stream, proxy, glass):
    proxy.refusing = True
    proxy.cut()
    glass.run_out()
    error = refusal(asking(through), stream.unit(stream.event(), rows=(thing("new", stream),)), StoreError)
    assert error.retryable
    assert error.hint
    assert sequences(store, stream) == [1, 2, 3, 4, 5]


def test_a_server_that_comes_back_in_time_is_no_error(through, store, stream, proxy):
    refused = []

    def refuse_twice(chunk):
        refused.append(chunk)
        return "drop" if len(refused) <= 2 else None

    proxy.sent = refuse_twice
    proxy.cut()
    assert (
        receipt(through, stream.unit(stream.event(), rows=(thing("a", stream),))).positions[0].sequence == 6
    )
    assert len(refused) > 2


def test_a_refusal_stays_a_refusal_when_the_others_answers_are_lost(through, store, stream, proxy):
    proxy.once("pass and drop", committing)
    known = stream.event()
    receipt(store, stream.unit(known))
    new, wrong, old = through.append(
        [stream.unit(stream.event()), stream.unit(stream.event(), token=9), stream.unit(known)]
    ).result()
    assert (new.duplicate, old.duplicate) == (False, True)
    assert isinstance(wrong.error, Fenced)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_claim_whose_answer_is_lost_is_looked_up(through, store, stream, proxy, moment):
    proxy.once(moment, committing)
    unit = stream.unit(stream.event(), token=1)
    if moment == "pass and drop":
        claimed = through.claim(stream.stream_id, "me", 30_000, 0, unit)
        assert store.head(stream.stream_id).lease == claimed.lease
        assert claimed.receipt.positions[0].sequence == 6
    else:
        with pytest.raises(AppendTimeout):
            through.claim(stream.stream_id, "me", 30_000, 0, unit)
        assert store.head(stream.stream_id).token == 0
        assert through.claim(stream.stream_id, "me", 30_000, 0, unit).lease.token == 1


@pytest.mark.parametrize("moment", MOMENTS)
def test_renewing_and_releasing_go_on_over_a_lost_answer(through, store, stream, proxy, moment):
    lease = through.claim(stream.stream_id, "me", 30_000, 0).lease
    proxy.once(moment, committing)
    assert through.renew(lease, 60_000).expires_at_ms == lease.expires_at_ms + 30_000
    proxy.once(moment, committing)
    through.release(lease)
    assert store.head(stream.stream_id).lease is None


def test_a_read_is_asked_again_on_a_new_connection(through, stream, proxy):
    assert len(through.read(stream.stream_id)) == 5
    proxy.cut()
    assert len(through.read(stream.stream_id)) == 5


def test_reading_from_a_server_that_is_away_says_so_within_the_deadline(through, stream, proxy):
    proxy.refusing = True
    proxy.cut()
    with hasty(through), pytest.raises(StoreIO) as caught:
        through.read(stream.stream_id)
    assert caught.value.retryable


def test_a_snapshot_whose_connection_is_lost_says_so(through, stream, proxy):
    with pytest.raises(StoreIO), through.snapshot() as snapshot:
        snapshot.head(stream.stream_id)
        proxy.cut()
        snapshot.head(stream.stream_id)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_data_key_whose_answer_is_lost_is_there_once_or_told_as_unknown(ledger, through, proxy, moment):
    from counterfoil.abc.keys import KeyRow
    from counterfoil.adapters.postgres import PostgresKeyStore

    keys = PostgresKeyStore(ledger.url(port=proxy.port))
    ledger.handles.append(keys)
    keys.replace("default", "kek_1", [], [])
    row = KeyRow("dk_a", "str_a", "kek_1", b"wrapped", b"check")
    proxy.once(moment, committing)
    if moment == "pass and drop":
        keys.put([row])
    else:
        with pytest.raises(AppendTimeout):
            keys.put([row])
        assert keys.get("dk_a") is None
        keys.put([row])
    assert keys.get("dk_a") == row


def test_two_handles_go_on_when_every_other_commit_is_dropped(ledger, through, store, stream, proxy):
    drops = iter([True, False] * 20)
    proxy.sent = lambda chunk: "pass and drop" if committing(chunk) and next(drops, False) else None
    units = [stream.unit(stream.event(), rows=(thing(f"n{n}", stream),)) for n in range(10)]
    for unit in units:
        assert receipt(through, unit).duplicate is False
        receipt(store, stream.unit(stream.event()))
    assert sequences(store, stream) == list(range(1, 26))
    assert len(store.select("thing")) == 13
