"""Reading headers: the quick pattern and the slow way agree, and a view is what was parsed."""

from __future__ import annotations

import pytest

from counterfoil.core import shape
from counterfoil.core.event import Part
from counterfoil.core.header import parse_event_header, peek_header, read_header, skim_header
from counterfoil.errors import HeaderInvalid, UnknownFormat

RUN = "run_01J9ZC3Y3V7W2R5T8QK4M6N0PR"


def test_the_pattern_recognises_an_ordinary_header(stream):
    header = stream.header(1, run_id=RUN, parts=(Part({"a": 1}), Part({"b": 1}, stream.person(), "secret")))
    assert shape.glance(header) is not None


def test_what_the_pattern_does_not_cover_is_read_the_slow_way(stream):
    header = stream.header(artifact_refs=({"kind": "a", "class": "public", "sha256": "ab" * 32},))
    assert shape.glance(header) is None
    assert read_header(header).artifact_refs[0]["kind"] == "a"


@pytest.mark.parametrize("member", ["occurred_at", "recorded_at"])
def test_the_pattern_knows_the_calendar(stream, member):
    header = stream.header()
    at = header.index(f'"{member}":"'.encode()) + len(member) + 4
    changed = header[:at] + b"2026-02-30" + header[at + 10 :]
    assert shape.glance(header) is not None
    assert shape.glance(changed) is None
    with pytest.raises(HeaderInvalid):
        parse_event_header(changed)


@pytest.mark.parametrize(
    "data",
    [
        b'{"b":1,"a":2}',
        b'{"a":1,"a":1}',
        b'{"a":1.0}',
        b'{"a":0.5}',
        b'{"a": 1}',
        b'{"a":-0}',
        b'{"a":null}',
        b'{"a":[1,"x"]}',
        b'{"a":9007199254740992}',
        b'{"a":1,}',
        b'{"a"}',
    ],
)
def test_data_that_is_not_canonical_and_flat_is_refused_though_the_rest_fits(stream, data):
    header = stream.header()
    start, end = header.index(b'"data":') + 7, header.index(b',"event_id"')
    with pytest.raises(HeaderInvalid):
        parse_event_header(header[:start] + data + header[end:])


def test_a_cause_in_another_stream_is_read_and_one_in_the_stream_itself_refused(stream, other_stream):
    cause = {"causation_event_id": "evt_01J9ZC3Y3V7W2R5T8QK4M6N0PE"}
    header = stream.header(1, causation_stream_id=other_stream.stream_id, **cause)
    assert read_header(header).causation_stream_id == other_stream.stream_id
    own = header.replace(other_stream.stream_id.encode(), stream.stream_id.encode())
    with pytest.raises(HeaderInvalid, match="only for another stream") as refused:
        read_header(own)
    assert refused.value.member == "causation_stream_id"


def test_a_view_shows_absent_members_as_none(stream):
    header = read_header(stream.header(parts=()))
    absent = (
        "run_id",
        "step_id",
        "attempt",
        "causation_event_id",
        "causation_stream_id",
        "correlation_id",
        "trace_id",
    )
    assert [getattr(header, name) for name in absent] == [None] * len(absent)
    assert (header.content, header.artifact_refs, header.ignorable) == ((), [], False)


def test_two_views_of_the_same_bytes_are_equal(stream):
    assert read_header(stream.header()) == read_header(stream.header())
    assert read_header(stream.header()) != read_header(stream.header(2))
    assert len({read_header(stream.header()), read_header(stream.header())}) == 1


def test_peeking_trusts_the_form_but_not_that_it_is_an_object(stream):
    assert peek_header(stream.header()) == parse_event_header(stream.header())
    for data in (b"[1]", b"{", b""):
        with pytest.raises(HeaderInvalid):
            peek_header(data)


@pytest.mark.parametrize("text", [b"[" * 3000, b"\xff" * 10, b"{" * 20000, b'{"actor":' * 1500])
def test_hostile_bytes_get_a_typed_error(text):
    with pytest.raises(HeaderInvalid):
        read_header(text)


def test_what_is_skimmed_of_a_header_is_what_is_read(stream):
    references = [{"address": "a" * 64, "class": "personal", "kind": "spill", "sha256": "b" * 64}]
    header = stream.header(1, run_id=RUN, parts=(Part({"a": 1}),), artifact_refs=references)
    skimmed, whole = skim_header(header), read_header(header)
    for name in ("event_id", "event_type", "event_schema_version", "data", "content"):
        assert getattr(skimmed, name) == getattr(whole, name)
    assert list(skimmed.artifact_refs) == whole.artifact_refs == references


@pytest.mark.parametrize(
    "old,new,refused",
    [
        (b"counterfoil/event/v1", b"counterfoil/event/v2", UnknownFormat),
        (b'"event_type"', b'"event_tipe"', HeaderInvalid),
        (b'"stream_id"', b'"stream_ie"', HeaderInvalid),
        (b'"data":{', b'"data":[{', HeaderInvalid),
        (b"}", b"", HeaderInvalid),
    ],
)
def test_a_header_of_another_version_or_without_its_members_is_not_skimmed_over(stream, old, new, refused):
    header = stream.header()
    assert old in header
    with pytest.raises(refused):
        skim_header(header.replace(old, new))


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"7", b"{}", b"\xff"])
def test_what_is_no_header_is_not_skimmed(data):
    with pytest.raises(HeaderInvalid):
        skim_header(data)
