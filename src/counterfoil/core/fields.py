"""Public fields of an event type: their forms, a small notation for them, and quick checks (FORMAT 7)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from operator import call
from typing import Any, Final, cast

from msgspec import Struct

from counterfoil.core.forms import is_decimal, is_digest, is_event_type, is_label, is_name, is_tag, is_time
from counterfoil.core.ids import ID_FORMS, PREFIXES, is_id
from counterfoil.core.limits import DATA_LIST_MAX, HEADER_INTEGER_MAX
from counterfoil.errors import InvalidForm

Check = Callable[[Any], bool]

holds: Final = cast("Callable[[Check, Any], bool]", call)
"""``holds(check, value)`` is ``check(value)``; written in C, so that many checks run in one ``map``."""

_FIELD_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}").fullmatch
_NOTATION: Final = re.compile(
    r"(?P<kind>[a-z]+)(?::(?P<prefixes>[a-z,]+))?|\{(?P<choices>[A-Za-z0-9_,]+)\}"
).fullmatch
_SHAPES_KEPT_MAX: Final = 64


def is_integer(value: object) -> bool:
    """An integer of a header: within ±(2^53−1), and not a boolean."""
    return type(value) is int and -HEADER_INTEGER_MAX <= value <= HEADER_INTEGER_MAX


def _is_boolean(value: object) -> bool:
    return value is True or value is False


_WORDS: Final[dict[str, tuple[Check, str]]] = {
    "h": (is_digest, "a keyed digest, 64 hex"),
    "t": (is_tag, "a tag, 32 hex"),
    "sha": (is_digest, "a SHA-256, 64 hex"),
    "n": (is_integer, "an integer within 2^53-1"),
    "bool": (_is_boolean, "true or false"),
    "label": (is_label, "a label of 1 to 128 characters A-Za-z0-9_.:/+-"),
    "name": (is_name, "a label, or ~ and 16 hex for a name nobody declared"),
    "decimal": (is_decimal, "decimal text of at most 40 characters"),
    "time": (is_time, "a time YYYY-MM-DDTHH:MM:SS.mmmZ"),
    "type": (is_event_type, "an event type"),
}
_LISTS: Final[dict[str, tuple[Check, str]]] = {
    "labels": (is_label, "labels"),
    "types": (is_event_type, "event types"),
}


def is_flat(data: Mapping[str, Any]) -> bool:
    """Whether ``data`` holds only strings, integers, booleans, and lists of at most 64 strings or integers."""
    for value in data.values():
        kind = type(value)
        if kind is str or kind is bool or is_integer(value) or _is_plain_list(value):
            continue
        return False
    return True


def _is_plain_list(value: Any) -> bool:
    return (
        type(value) is list
        and len(value) <= DATA_LIST_MAX
        and (all(type(item) is str for item in value) or all(is_integer(item) for item in value))
    )


class FieldForm(Struct, frozen=True):
    """The form of one public field.

    ``kind`` is a word of the notation (``h t sha n bool label name decimal time type labels types``), ``id`` or
    ``ids`` with the allowed prefixes in ``choices`` (none: any id minted by Counterfoil), or ``enum`` with its values.
    """

    kind: str
    choices: tuple[str, ...] = ()
    optional: bool = False

    def check(self) -> Check:
        """The compiled check of this form."""
        if self.kind in _WORDS:
            return _WORDS[self.kind][0]
        if self.kind == "enum":
            allowed = frozenset(self.choices)
            return lambda value: type(value) is str and value in allowed
        if self.kind == "id":
            return _id_check(self.choices)
        return _list_check(_id_check(self.choices) if self.kind == "ids" else _LISTS[self.kind][0])

    def describe(self) -> str:
        """The form in words, for errors and documents."""
        if self.kind in _WORDS:
            return _WORDS[self.kind][1]
        if self.kind == "enum":
            return f"one of {', '.join(self.choices)}"
        prefixes = " or ".join(f"{prefix}_…" for prefix in self.choices) or "minted by Counterfoil"
        if self.kind == "id":
            return f"an id {prefixes}"
        what = f"ids {prefixes}" if self.kind == "ids" else _LISTS[self.kind][1]
        return f"a list of at most {DATA_LIST_MAX} {what}"

    def notation(self) -> str:
        """The form in the notation of :func:`parse_form`."""
        if self.kind == "enum":
            return f"{{{','.join(self.choices)}}}"
        return f"{self.kind}:{','.join(self.choices)}" if self.choices else self.kind


def _id_check(prefixes: tuple[str, ...]) -> Check:
    if len(prefixes) == 1:
        form = ID_FORMS[prefixes[0]]
        return lambda value: type(value) is str and form(value) is not None
    return lambda value: is_id(value, *prefixes)


def _list_check(each: Check) -> Check:
    return lambda value: type(value) is list and len(value) <= DATA_LIST_MAX and all(map(each, value))


def parse_form(notation: str, *, optional: bool = False) -> FieldForm:
    """The form behind ``h``, ``label``, ``id:evt``, ``ids:eff``, ``{a,b}`` …; raises InvalidForm for another text."""
    found = _NOTATION(notation.strip())
    if found is not None and found["choices"]:
        return FieldForm("enum", tuple(found["choices"].split(",")), optional)
    if found is not None:
        kind, prefixes = found["kind"], tuple(filter(None, (found["prefixes"] or "").split(",")))
        if kind in ("id", "ids") and all(prefix in PREFIXES for prefix in prefixes):
            return FieldForm(kind, prefixes, optional)
        if kind in (*_WORDS, *_LISTS) and not prefixes:
            return FieldForm(kind, (), optional)
    raise InvalidForm(
        f"no public field has the form {notation!r}",
        hint=f"write one of {', '.join((*_WORDS, *_LISTS))}, id:PREFIX, ids:PREFIX or {{a,b}}; free text is content",
    )


def shown_field(name: object) -> str:
    """A field's name as an error may show it: only one that could be declared, since any other may be private."""
    return name if isinstance(name, str) and _FIELD_NAME(name) else "of an odd name"


def parse_fields(public: Mapping[str, str | FieldForm]) -> dict[str, FieldForm]:
    """Fields from names and notations; a name ending in ``?`` is optional. Raises InvalidForm."""
    fields: dict[str, FieldForm] = {}
    for written, form in public.items():
        name = written.removesuffix("?")
        if not _FIELD_NAME(name):
            raise InvalidForm(f"a public field is named like effect_id, not {name[:64]!r}")
        optional = written.endswith("?")
        if isinstance(form, FieldForm):
            fields[name] = FieldForm(form.kind, form.choices, form.optional or optional)
        else:
            fields[name] = parse_form(form, optional=optional)
    return fields


def parse_row(text: str) -> dict[str, FieldForm]:
    """Fields from one line of the catalogue: ``effect_id id:eff, outcome {ok,error}, cost? decimal``."""
    entries = re.findall(r"[^,{]+(?:\{[^}]*\})?", text)
    return parse_fields(dict(_split_entry(entry) for entry in entries))


def _split_entry(entry: str) -> tuple[str, str]:
    name, _, form = entry.strip().partition(" ")
    return name, form or "label"


class DataCheck:
    """Checks the ``data`` of one type and version; compiled once, quick for shapes seen before."""

    __slots__ = ("_checks", "_groups", "_required", "_shapes")

    def __init__(self, fields: Mapping[str, FieldForm], groups: tuple[frozenset[str], ...] = ()) -> None:
        self._checks = {name: form.check() for name, form in fields.items()}
        self._required = frozenset(name for name, form in fields.items() if not form.optional)
        self._groups = groups
        self._shapes: dict[tuple[str, ...], tuple[Check, ...]] = {}

    def faulty(self, data: Mapping[str, Any]) -> str | None:
        """The name of the first field that is unknown, missing or of the wrong form; None if all is well."""
        names = tuple(data)
        checks = self._shapes.get(names)
        if checks is None:
            fault = self._shape_fault(data)
            if fault is not None:
                return fault
            checks = tuple(self._checks[name] for name in names)
            if len(self._shapes) < _SHAPES_KEPT_MAX:
                self._shapes[names] = checks
        if all(map(holds, checks, data.values())):
            return None
        return next(name for name in names if not self._checks[name](data[name]))

    def missing(self, data: Mapping[str, Any]) -> str | None:
        """The name of a field that every event of the type has and this one lacks; the forms are not looked at."""
        return None if self._required <= data.keys() else min(self._required - data.keys())

    def _shape_fault(self, data: Mapping[str, Any]) -> str | None:
        for name in data:
            if name not in self._checks:
                return name
        for name in sorted(self._required):
            if name not in data:
                return name
        present = [group for group in self._groups if not group.isdisjoint(data)]
        if self._groups and (len(present) != 1 or not present[0] <= set(data)):
            return min(self._groups[0])
        return None
