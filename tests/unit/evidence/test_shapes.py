"""Patterns of headers admit what the strict reader admits, and never more."""

from __future__ import annotations

import re

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.core.catalogue import EVENT_TYPES, Registry
from counterfoil.core.forms import is_digest
from counterfoil.core.header import parse_event_header
from counterfoil.core.ids import PREFIXES, is_id, ulid_encode
from counterfoil.errors import CounterfoilError
from counterfoil.evidence.shapes import FIXED, SHAPES_PER_TYPE_MAX, Shapes, shape_pattern

REGISTRY = Registry()
REGISTRY.declare("order.paid", 1, {"order": "name", "amount?": "decimal", "due?": "time", "lines": "n"})

ULIDS = st.integers(0, 2**128 - 1).map(ulid_encode)
LABELS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.:/+-]{0,20}", fullmatch=True)
HEX64 = st.binary(min_size=32, max_size=32).map(bytes.hex)
TIMES = st.datetimes().map(lambda t: f"{t.replace(microsecond=0).isoformat()}.{t.microsecond // 1000:03d}Z")
INTEGERS = st.one_of(st.integers(0, 9), st.integers(-(2**53) + 1, 2**53 - 1))


LEFT_TO_STRICT_READING = re.compile(r'[0-9]{16}[,}\]]|"stream_sequence":[0-9]{9}|"0[0-9]{3}-|00-02-29')
"""Long numbers, early years and leap days of a new century have no place in a pattern."""


PAID = {
    "actor": {"id": "shop", "type": "agent"},
    "content": [
        {"commitment": "a" * 64, "sha256": "b" * 64},
        {"commitment": "c" * 64, "key": "dk_" + "0" * 26, "sha256": "d" * 64},
    ],
    "ctx": "counterfoil/event/v1",
    "data": {"due": "2026-01-02T03:04:05.006Z", "lines": 2, "order": "o-1"},
    "event_id": "evt_" + "0" * 26,
    "event_schema_version": 1,
    "event_type": "order.paid",
    "occurred_at": "2026-01-02T03:04:06.007Z",
    "previous_event_hash": "e" * 64,
    "recorded_at": "2026-01-02T03:04:07.008Z",
    "stream_id": "str_" + "0" * 26,
    "stream_sequence": 12,
}


def ids(*prefixes):
    return st.builds("{}_{}".format, st.sampled_from(prefixes or tuple(PREFIXES)), ULIDS)


def values(form):
    simple = {
        "h": HEX64,
        "sha": HEX64,
        "t": HEX64.map(lambda text: text[:32]),
        "n": INTEGERS,
        "bool": st.booleans(),
        "label": LABELS,
        "name": st.one_of(LABELS, st.just("~0123456789abcdef")),
        "decimal": st.from_regex(r"-?(0|[1-9][0-9]{0,8})(\.[0-9]{1,9})?", fullmatch=True),
        "time": TIMES,
        "type": st.sampled_from(sorted(EVENT_TYPES)),
        "labels": st.lists(LABELS, max_size=4),
        "types": st.lists(st.sampled_from(sorted(EVENT_TYPES)), max_size=3),
        "ids": st.lists(ids(*form.choices), max_size=3),
        "id": ids(*form.choices),
        "enum": st.sampled_from(form.choices or ("x",)),
    }
    return simple[form.kind]


@st.composite
def headers(draw):
    spec = draw(st.sampled_from(REGISTRY.types()))
    group = draw(st.sampled_from(spec.groups)) if spec.groups else frozenset()
    barred = frozenset().union(*spec.groups) - group
    wanted = [
        n
        for n, f in spec.fields.items()
        if n not in barred and (n in group or not f.optional or draw(st.booleans()))
    ]
    kind = draw(st.sampled_from(["agent", "user", "system"]))
    raw = {
        "actor": {"id": draw(ids("dk") if kind == "user" else LABELS), "type": kind},
        "ctx": "counterfoil/event/v1",
        "data": {name: draw(values(spec.fields[name])) for name in wanted},
        "event_id": draw(ids("evt")),
        "event_schema_version": spec.version,
        "event_type": spec.event_type,
        "occurred_at": draw(TIMES),
        "previous_event_hash": draw(HEX64),
        "recorded_at": draw(TIMES),
        "stream_id": draw(ids("str")),
        "stream_sequence": draw(st.integers(1, 2**28)),
    }
    part = {"commitment": HEX64, "sha256": HEX64}
    parts = st.fixed_dictionaries(
        part, optional={"key": ids("dk"), "class": st.sampled_from(["public", "secret"])}
    )
    ref = {"kind": LABELS, "class": st.just("personal"), "sha256": HEX64}
    refs = st.fixed_dictionaries(ref, optional={"address": HEX64, "key": ids("dk")})
    optional = {
        "artifact_refs": st.lists(refs, min_size=1, max_size=6),
        "attempt": st.integers(1, 2**53 - 1),
        "causation_event_id": ids("evt"),
        "content": st.lists(parts, min_size=1, max_size=3),
        "correlation_id": ids(),
        "run_id": ids("run"),
        "step_id": ids("stp"),
        "trace_id": HEX64.map(lambda text: text[:32]),
    }
    for name, strategy in optional.items():
        if draw(st.booleans()):
            raw[name] = draw(strategy)
    return raw


def encoded(raw):
    return orjson.dumps(raw, option=orjson.OPT_SORT_KEYS)


def strictly_valid(data):
    try:
        raw = parse_event_header(data)
    except CounterfoilError:
        return False
    return REGISTRY.fault(raw["event_type"], raw["event_schema_version"], raw["data"]) is None


def shape_of(raw):
    pattern = shape_pattern(raw, REGISTRY)
    return None if pattern is None else re.compile(pattern).fullmatch


def recognised(shape, data):
    """Whether the pattern matches, and what it steps over is what verify compares it with: hash, run, stream."""
    found = shape(data.decode("latin-1"))
    if found is None:
        return False
    _, previous, _, _, run, stream, _ = found.groups()[-FIXED:]
    return is_digest(previous) and (run is None or is_id(run, "run")) and is_id(stream, "str")


@given(headers())
def test_what_the_strict_reader_accepts_is_recognised_by_its_own_shape(raw):
    data = encoded(raw)
    assert strictly_valid(data)
    shape = shape_of(parse_event_header(data))
    if shape is not None and LEFT_TO_STRICT_READING.search(data.decode()) is None:
        assert recognised(shape, data)


@given(headers(), st.data())
def test_no_changed_header_is_recognised_that_the_strict_reader_refuses(raw, data):
    text = bytearray(encoded(raw))
    shape = shape_of(raw)
    if shape is None:
        return
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        new = data.draw(st.one_of(st.sampled_from(list(b'0123456789"\\,:{}[]_-. ')), st.integers(0, 255)))
        match data.draw(st.sampled_from(["replace", "insert", "delete", "repeat"])):
            case "replace":
                text[at] = new
            case "insert":
                text.insert(at, new)
            case "delete":
                del text[at]
            case _:
                text[at:at] = text[at : at + data.draw(st.integers(1, 40))]
    if recognised(shape, bytes(text)):
        assert strictly_valid(bytes(text))


@given(headers(), headers())
def test_another_header_is_recognised_by_a_shape_only_if_it_is_valid_itself(one, other):
    shape = shape_of(one)
    mixed = {**one, **{name: other[name] for name in list(other)[::2]}}
    if shape is not None and recognised(shape, encoded(mixed)):
        assert strictly_valid(encoded(mixed))


def test_the_groups_are_the_values_that_verify_compares():
    found = shape_of(PAID)(encoded(PAID).decode())
    assert found is not None
    groups = found.groups()
    assert groups[:-FIXED] == ("a" * 64, None, "b" * 64, "c" * 64, "dk_" + "0" * 26, "d" * 64)
    assert groups[-FIXED:] == (
        *("evt_" + "0" * 26, "e" * 64, "2026-01-02T03:04:07", "008", None, "str_" + "0" * 26, "12"),
    )


def test_public_fields_that_no_registered_form_bounds_get_no_pattern():
    raw = {"event_type": "order.shipped", "event_schema_version": 1, "data": {"note": "x"}, "actor": {}}
    assert shape_pattern(raw, REGISTRY) is None


@pytest.mark.parametrize("day", ["2026-02-29", "2026-04-31", "2026-13-01", "2026-00-10", "2100-02-29"])
def test_a_day_that_is_not_in_the_calendar_is_not_recognised(day):
    raw = {**PAID, "occurred_at": f"{day}T00:00:00.000Z"}
    assert not recognised(shape_of(PAID), encoded(raw))


@pytest.mark.parametrize("day", ["2024-02-29", "2026-02-28", "1996-02-29", "2026-12-31", "2026-04-30"])
def test_a_day_of_the_calendar_is_recognised(day):
    raw = {**PAID, "occurred_at": f"{day}T23:59:59.999Z"}
    assert recognised(shape_of(PAID), encoded(raw))


def test_a_shape_that_recognises_a_header_is_tried_first_from_then_on():
    shapes = Shapes(REGISTRY)
    shapes.learn(PAID)
    shapes.learn({**PAID, "attempt": 1})
    known = shapes.by_type["order.paid"]
    second = known[1]
    assert shapes.other(known, encoded(PAID).decode()) is not None
    assert known[0] is second


def test_a_type_keeps_a_bounded_number_of_shapes():
    shapes = Shapes(REGISTRY)
    raw = {
        "actor": {"id": "shop", "type": "agent"},
        "data": {},
        "event_schema_version": 1,
        "event_type": "record.noted",
    }
    for _ in range(2 * SHAPES_PER_TYPE_MAX):
        shapes.learn(raw)
    assert len(shapes.by_type["record.noted"]) == SHAPES_PER_TYPE_MAX
