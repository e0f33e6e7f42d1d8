"""Events of a long record: headers at hand, content read when it is looked at, pages ahead, and let go of."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from counterfoil.client import lightly
from counterfoil.errors import ContentUnavailable, InputError
from counterfoil.flow.requests import Events
from counterfoil.testing.manual import ManualClock
from tests.running import World, vanish


@pytest.fixture
def world():
    return World(clock=ManualClock())


@pytest.fixture
def ledger(world):
    ledger = world.worker()
    with ledger.run("a", conversation="c") as run:
        for number in range(40):
            run.step("s", lambda number: {"number": number, "text": "x" * 100}, number)
    return ledger


def read(ledger, **how):
    query = Events(ledger.stream_of("c"), types=frozenset({"step.finished"}), lightly=True, **how)
    return list(ledger.ports.events(query))


def test_they_are_the_events_that_reading_them_whole_gives(ledger):
    whole = list(ledger.ports.events(Events(ledger.stream_of("c"))))
    light = list(ledger.ports.events(Events(ledger.stream_of("c"), lightly=True)))
    assert [(one.header, one.hash, one.content, one.content_state) for one in light] == [
        (one.header, one.hash, one.content, one.content_state) for one in whole
    ]


def test_a_limit_and_a_place_to_begin_hold(ledger):
    found = read(ledger, after=10, limit=5)
    assert len(found) == 5
    assert found[0].sequence > 10


def test_who_goes_on_reads_a_page_and_not_each_event(ledger, monkeypatch):
    asked = []
    plain = ledger.store.read

    def counted(*words, **how):
        asked.append(words)
        return plain(*words, **how)

    monkeypatch.setattr(ledger.store, "read", counted)
    found = read(ledger)
    asked.clear()
    assert [one.content["result"]["number"] for one in found] == list(range(40))
    assert len(asked) <= 4
    asked.clear()
    assert found[-1].content["result"]["number"] == 39
    assert asked == []


def test_few_contents_are_kept_however_many_were_looked_at(ledger):
    found = read(ledger)
    for one in found:
        assert one.content
    pages = found[0]._pages
    assert len(pages._opened) <= lightly.OPENED_KEPT
    assert all(one._opened is None for one in found)


def test_pages_become_smaller_where_records_are_large(world, monkeypatch):
    monkeypatch.setattr(lightly, "PAGE_BYTES", 100)
    ledger = world.worker()
    with ledger.run("a", conversation="c") as run:
        for number in range(20):
            run.step("s", lambda number: "x" * 50 + str(number), number)
    found = read(ledger)
    assert [one.content["result"][50:] for one in found] == [str(number) for number in range(20)]
    assert [len(page) for page in found[0]._pages._pages] == [1] * lightly.PAGES_KEPT


def test_siblings_in_any_order_do_not_read_whole_pages_for_one_of_them(world, monkeypatch):
    ledger = world.worker()
    with ledger.run("a", conversation="c") as run:
        for number in range(300):
            run.step("s", str, number)
    found = read(ledger)
    records = []
    original = ledger.store.read

    def counted(*args, **options):
        page = original(*args, **options)
        records.extend(page)
        return page

    monkeypatch.setattr(ledger.store, "read", counted)
    far_apart = [number * 101 % 300 for number in range(300)]
    assert [found[number].content["result"] for number in far_apart] == [str(number) for number in far_apart]
    assert len(records) < 4 * 300
    records.clear()
    assert [one.content["result"] for one in found] == [str(number) for number in range(300)]
    assert len(records) < 2 * 300


def test_a_record_that_went_meanwhile_is_missing_and_never_empty(ledger):
    found = read(ledger)
    stream = ledger.store._state.streams[ledger.stream_of("c")]
    stream.events[:] = [replace(event, content=()) for event in stream.events]
    assert found[3].content_state == "missing"
    with pytest.raises(ContentUnavailable):
        _ = found[3].content


def test_a_run_is_resumed_from_it_in_any_order_of_its_siblings(world):
    ledger = world.worker()
    vanish(
        ledger.run("a", conversation="d", dedupe="m"),
        lambda run: [run.step("s", lambda number: number * 2, number) for number in range(30)],
    )
    world.expire_leases()
    with ledger.run("a", conversation="d", dedupe="m") as run:
        for number in reversed(range(30)):
            assert run.step("s", lambda number: "never", number) == number * 2


def resumed_with_a_header_changed(world, change):
    """Resume a run in whose record the header of one step's end was changed; returns what was raised, and its place."""
    ledger = world.worker()
    vanish(
        ledger.run("a", conversation="d", dedupe="m"), lambda run: [run.step("s", str, n) for n in range(5)]
    )
    world.expire_leases()
    events = ledger.store._state.streams[ledger.stream_of("d")].events
    place = [number for number, event in enumerate(events) if event.event_type == "step.finished"][2]
    events[place] = replace(events[place], header=change(events[place].header))
    with pytest.raises(InputError) as caught, world.worker().run("a", conversation="d", dedupe="m"):
        pytest.fail("the run was entered")
    return caught.value, events[place]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda header: b"garbage", id="no JSON"),
        pytest.param(lambda header: header[:-10], id="cut"),
        pytest.param(lambda header: header.replace(b'"memo"', b'"nemo"'), id="a field of another name"),
        pytest.param(lambda header: header.replace(b"event/v1", b"event/v9"), id="another format"),
    ],
)
def test_a_run_whose_record_has_a_damaged_header_is_told_which_event_and_what_to_do(world, change):
    error, event = resumed_with_a_header_changed(world, change)
    assert f"event {event.sequence} of {event.stream_id}" in str(error)
    assert (error.sequence, error.stream_id) == (event.sequence, event.stream_id)
    assert error.hint


def test_whoever_meets_content_that_cannot_be_read_is_told_what_to_do(ledger):
    found = read(ledger)
    stream = ledger.store._state.streams[ledger.stream_of("c")]
    stream.events[:] = [replace(event, content=()) for event in stream.events]
    with pytest.raises(ContentUnavailable) as caught:
        _ = found[3].content
    assert "backup" in caught.value.hint
