"""Headers and chains: the quick way accepts only what the slow way accepts, and no single change goes unseen."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from counterfoil.core import shape
from counterfoil.core.chain import ChainState
from counterfoil.core.event import event_hash, splice
from counterfoil.core.forms import time_text
from counterfoil.core.header import _faulty_member, parse_event_header
from counterfoil.core.records import open_record, seal
from counterfoil.errors import HeaderInvalid, UnknownFormat
from counterfoil.store.unit import StoredEvent
from counterfoil.testing.events import SampleStream
from counterfoil.testing.manual import START_MS

COUNT = 8
RUN = "run_01J9ZC3Y3V7W2R5T8QK4M6N0PR"


def chain(count: int = COUNT) -> tuple[SampleStream, list[StoredEvent]]:
    """An invented stream with its events as stored."""
    sample = SampleStream()
    previous, rows = sample.genesis.hash, []
    for sequence in range(1, count + 1):
        prepared = sample.event(
            f"number {sequence}", run_id=RUN if sequence % 2 else None, parts=sequence % 3
        )
        recorded_ms = START_MS + sequence
        header = splice(prepared, sequence, time_text(recorded_ms), previous.hex())
        previous = event_hash(header)
        row = StoredEvent(
            sequence,
            sample.stream_id,
            sequence,
            prepared.event_id,
            prepared.event_type,
            prepared.run_id,
            recorded_ms,
            header,
            previous,
            prepared.records,
        )
        rows.append(row)
    return sample, rows


SAMPLE, ROWS = chain()


def faults_of(rows: list[StoredEvent]) -> list[Any]:
    state = ChainState(SAMPLE.genesis)
    found = [fault for row in rows for fault in state.step(row)]
    return found + list(state.finish(COUNT, ROWS[-1].hash))


# ---- headers -----------------------------------------------------------------------------------------------------

pieces = st.sampled_from(
    [
        b'"',
        b",",
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b"0",
        b"1.0",
        b"-0",
        b" ",
        b"\\",
        b"\x7f",
        b"\xc3\xa9",
        b"null",
        b"true",
        b"Z",
        b"~",
    ]
)
places = st.integers(0, len(ROWS[0].header))


def is_json(text):
    try:
        orjson.loads(text)
    except ValueError:
        return False
    return True


@settings(max_examples=400)
@given(st.sampled_from(ROWS), places, st.integers(0, 3), st.one_of(pieces, st.binary(max_size=3)))
def test_whatever_the_pattern_accepts_is_canonical_and_well_formed(row, at, cut, piece):
    data = row.header[:at] + piece + row.header[at + cut :]
    try:
        raw = orjson.loads(data)
    except ValueError:
        text = shape.glance(data)
        assert text is None or not is_json(text)
        return
    if type(raw) is dict and shape.glance(data) is not None and shape.vouches(data, raw):
        assert orjson.dumps(raw, option=orjson.OPT_SORT_KEYS) == data
        assert _faulty_member(raw) is None


@settings(max_examples=400)
@given(st.sampled_from(ROWS), places, st.integers(0, 3), st.one_of(pieces, st.binary(max_size=3)))
def test_a_changed_header_is_read_as_canonical_or_refused_with_a_typed_error(row, at, cut, piece):
    data = row.header[:at] + piece + row.header[at + cut :]
    try:
        members = parse_event_header(data)
    except (HeaderInvalid, UnknownFormat):
        return
    assert orjson.dumps(members, option=orjson.OPT_SORT_KEYS) == data


# ---- chains ------------------------------------------------------------------------------------------------------


def test_the_untouched_chain_has_no_fault():
    assert faults_of(ROWS) == []


@given(st.integers(0, COUNT - 1), st.data())
def test_one_changed_byte_of_header_hash_or_record_is_found_at_its_sequence(place, data):
    row = ROWS[place]
    targets = ["header", "hash", *range(len(row.content))]
    target = data.draw(st.sampled_from(targets))
    old = row.content[target] if isinstance(target, int) else getattr(row, target)
    at = data.draw(st.integers(0, len(old) - 1))
    flip = data.draw(st.integers(1, 255))
    new = old[:at] + bytes([old[at] ^ flip]) + old[at + 1 :]
    if isinstance(target, int):
        content = (*row.content[:target], new, *row.content[target + 1 :])
        changed = structs.replace(row, content=content)
    else:
        changed = structs.replace(row, **{target: new})
    found = faults_of([*ROWS[:place], changed, *ROWS[place + 1 :]])
    assert [fault.sequence for fault in found] == [place + 1]


@given(st.permutations(range(COUNT)))
def test_a_chain_in_any_other_order_has_a_fault(order):
    rows = [structs.replace(ROWS[place], sequence=number) for number, place in enumerate(order, 1)]
    assert bool(faults_of(rows)) == (list(order) != sorted(order))


@given(st.sets(st.integers(0, COUNT - 1), min_size=1, max_size=COUNT))
def test_a_chain_with_events_taken_out_names_every_stretch_that_is_missing(gone):
    found = faults_of([row for place, row in enumerate(ROWS) if place not in gone])
    named = {
        number for fault in found for number in range(fault.sequence, (fault.through or fault.sequence) + 1)
    }
    assert named == {place + 1 for place in gone}
    assert {fault.code for fault in found} == {"removed"}


@settings(max_examples=200)
@given(st.lists(st.integers(0, COUNT - 1), max_size=12), st.lists(st.integers(1, 12), max_size=12))
def test_any_rows_at_all_are_checked_to_the_end(places, numbers):
    rows = [
        structs.replace(ROWS[place], sequence=number)
        for place, number in zip(places, sorted(numbers), strict=False)
    ]
    faults = faults_of(rows)
    assert bool(faults) == (rows != ROWS)
    assert len(faults) <= len(rows) + 2 * COUNT


# ---- records -----------------------------------------------------------------------------------------------------


@given(st.binary(max_size=3000), st.sampled_from(["sealed", "clear"]), st.sampled_from(["auto", "never"]))
def test_any_bytes_are_sealed_and_opened(content, mode, pack):
    ids = [ROWS[0].event_id, 0]
    sealed = seal(SAMPLE.material, "content", ids, content, mode=mode, pack=pack)
    assert (
        open_record(SAMPLE.material, "content", ids, sealed.record, sealed.commitment, mode=mode) == content
    )
