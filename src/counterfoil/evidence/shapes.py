"""Headers recognised in one pass: a pattern for each shape of header that the strict reader has accepted before.

Reading every header strictly costs several times what reading its bytes costs. Headers of one type and shape differ
only in values, so the first of a shape is read by ``core`` (canonical form, members, public fields) and turned into
a pattern that admits the same members with any values of the same forms and nothing else. A header that matches is
canonical and of valid form; one that does not match is read strictly. The pattern is a shortcut and never a judge.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from counterfoil.core.catalogue import FieldForm, Registry
from counterfoil.core.header import CTX
from counterfoil.core.ids import PREFIXES

SHAPES_PER_TYPE_MAX: Final = 24
TYPES_MAX: Final = 512
REFS_MAX: Final = 4
"""Artifact references up to which a header gets a pattern; longer lists are read strictly."""

_ULID: Final = "[0-7][0-9A-HJKMNP-TV-Z]{25}"
_LABEL: Final = "[A-Za-z0-9_][A-Za-z0-9_.:/+-]{0,127}"
_NAME: Final = f"(?:{_LABEL}|~[0-9a-f]{{16}})"
_HEX64: Final = "[0-9a-f]{64}"
_HEX32: Final = "[0-9a-f]{32}"
# Fifteen digits stay below 2^53 and eight below 2^28; longer numbers are read strictly. The same for decimals.
_POSITIVE: Final = "[1-9][0-9]{0,14}"
_INTEGER: Final = f"(?:0|-?{_POSITIVE})"
_SEQUENCE: Final = "([1-9][0-9]{0,7})"
_DECIMAL: Final = r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,20})?"
# Leap days at the turn of a century are left to the strict reader, and so are the years before 1000.
_DAY: Final = (
    "(?:[1-9][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))|[1-9][0-9](?:0[48]|[2468][048]|[13579][26])-02-29)"
)
_SECOND: Final = f"{_DAY}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_TIME: Final = rf"{_SECOND}\.[0-9]{{3}}Z"
_RECORDED: Final = rf"({_SECOND})\.([0-9]{{3}})Z"
# Stepped over without a look: what stands there is compared with a value that is known to be right.
_ANY: Final = "(?s:.)"
_NOTHING: Final = "((?!))?"
"""A group that stays None."""
_ANY_ID: Final = f"(?:{'|'.join(PREFIXES)})_{_ULID}"

_PLAIN_FIELDS: Final = {
    "h": f'"{_HEX64}"',
    "sha": f'"{_HEX64}"',
    "t": f'"{_HEX32}"',
    "n": _INTEGER,
    "bool": "(?:true|false)",
    "label": f'"{_LABEL}"',
    "name": f'"{_NAME}"',
    "decimal": f'"{_DECIMAL}"',
    "time": f'"{_TIME}"',
}

FIXED: Final = 7
"""Groups at the end of every pattern: event id, previous hash, second and milliseconds of recorded_at, run id or
None, stream id, sequence. Before them stand three for each part: commitment, key or None, sha256."""

Match = Callable[[str], "re.Match[str] | None"]


class Shapes:
    """The patterns of the shapes met so far, by event type; the one that was found last comes first."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.by_type: dict[str, list[Match]] = {}

    def learn(self, raw: Mapping[str, Any]) -> None:
        """Add the shape of a header that was read strictly and accepted, if it can have a pattern."""
        event_type = raw["event_type"]
        shapes = self.by_type.get(event_type)
        if shapes is None:
            if len(self.by_type) >= TYPES_MAX:
                return
            shapes = self.by_type[event_type] = []
        if len(shapes) < SHAPES_PER_TYPE_MAX:
            pattern = shape_pattern(raw, self._registry)
            if pattern is not None:
                shapes.insert(0, re.compile(pattern).fullmatch)

    def other(self, shapes: list[Match], header: str) -> re.Match[str] | None:
        """What another shape than the first makes of a header; one that recognises it comes first from now on."""
        for place in range(1, len(shapes)):
            found = shapes[place](header)
            if found is not None:
                shapes.insert(0, shapes.pop(place))
                return found
        return None


def shape_pattern(raw: Mapping[str, Any], registry: Registry) -> str | None:
    """The pattern that generalises one accepted header, or None where a pattern could not be as strict."""
    event_type, version = raw["event_type"], raw["event_schema_version"]
    spec = registry.spec(event_type, version)
    data = _data_pattern(raw["data"], None if spec is None else spec.fields)
    # A cause in another stream is compared with this one, which no pattern does.
    if data is None or len(raw.get("artifact_refs", ())) > REFS_MAX or "causation_stream_id" in raw:
        return None
    written = {name: _member(name, value) for name, value in raw.items() if name != "data"}
    written["data"] = data
    written.setdefault("run_id", None)
    pieces = [
        _NOTHING if pattern is None else f'{"," if name != "actor" else ""}"{name}":{pattern}'
        for name, pattern in sorted(written.items())
    ]
    return rf"\{{{''.join(pieces)}\}}"


def _member(name: str, value: Any) -> str | None:
    match name:
        case "actor":
            return _actor_pattern(value)
        case "artifact_refs":
            return rf"\[{','.join(map(_ref_pattern, value))}\]"
        case "content":
            return rf"\[{','.join(map(_part_pattern, value))}\]"
        case "event_schema_version":
            return str(value)
        case "event_type":
            return f'"{re.escape(value)}"'
        case _:
            return _MEMBERS[name]


_MEMBERS: Final = {
    "attempt": _POSITIVE,
    "causation_event_id": f'"evt_{_ULID}"',
    "correlation_id": f'"{_ANY_ID}"',
    "ctx": f'"{re.escape(CTX)}"',
    "event_id": f'"(evt_{_ULID})"',
    "ignorable": "true",
    "occurred_at": f'"{_TIME}"',
    "previous_event_hash": f'"({_ANY}{{64}})"',
    "recorded_at": f'"{_RECORDED}"',
    "run_id": f'"({_ANY}{{30}})"',
    "step_id": f'"stp_{_ULID}"',
    "stream_id": f'"({_ANY}{{30}})"',
    "stream_sequence": _SEQUENCE,
    "trace_id": f'"{_HEX32}"',
}


def _actor_pattern(actor: Mapping[str, str]) -> str:
    kind = actor["type"]
    name = f"dk_{_ULID}" if kind in ("user", "human") else _LABEL
    version = f',"identity_version":"{_LABEL}"' if "identity_version" in actor else ""
    return rf'\{{"id":"{name}"{version},"type":"{re.escape(kind)}"\}}'


def _part_pattern(part: Mapping[str, str]) -> str:
    klass = f'"class":"{re.escape(part["class"])}",' if "class" in part else ""
    key = f',"key":"(dk_{_ULID})"' if "key" in part else _NOTHING
    return rf'\{{{klass}"commitment":"({_HEX64})"{key},"sha256":"({_HEX64})"\}}'


def _ref_pattern(ref: Mapping[str, str]) -> str:
    address = f'"address":"{_HEX64}",' if "address" in ref else ""
    key = f'"key":"dk_{_ULID}",' if "key" in ref else ""
    return rf'\{{{address}"class":"{re.escape(ref["class"])}",{key}"kind":"{_LABEL}","sha256":"{_HEX64}"\}}'


def _data_pattern(data: Mapping[str, Any], fields: Mapping[str, FieldForm] | None) -> str | None:
    """The pattern of the public fields; None for fields that no registered form bounds."""
    if not data:
        return r"\{\}"
    if fields is None or not data.keys() <= fields.keys():
        return None
    pieces = []
    for name in sorted(data):
        form = _field_pattern(fields[name])
        if form is None:
            return None
        pieces.append(f'"{re.escape(name)}":{form}')
    return rf"\{{{','.join(pieces)}\}}"


def _field_pattern(form: FieldForm) -> str | None:
    if form.kind in _PLAIN_FIELDS:
        return _PLAIN_FIELDS[form.kind]
    prefixes = "|".join(form.choices or PREFIXES)
    match form.kind:
        case "enum":
            return f'"(?:{"|".join(map(re.escape, form.choices))})"'
        case "id":
            return f'"(?:{prefixes})_{_ULID}"'
        case "ids":
            return _list_pattern(f'"(?:{prefixes})_{_ULID}"')
        case "labels":
            return _list_pattern(f'"{_LABEL}"')
        case _:
            return None


def _list_pattern(each: str) -> str:
    return rf"\[(?:{each}(?:,{each}){{0,63}})?\]"
