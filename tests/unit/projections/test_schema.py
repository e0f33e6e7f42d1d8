"""Schemas of states: what fits, what does not and where, and that nothing is passed over in silence."""

from __future__ import annotations

import pytest

from counterfoil.errors import InvalidForm
from counterfoil.projections.schema import check_schema, misfit

LINES = {
    "type": "object",
    "properties": {
        "lines": {"type": "array", "items": {"type": "integer", "minimum": 1}, "maxItems": 3},
        "note": {"type": ["string", "null"], "maxLength": 4, "pattern": "^[a-z]*$"},
        "kind": {"enum": ["a", 1, None]},
    },
    "required": ["lines"],
    "additionalProperties": False,
}

FITS = [
    ({"lines": []}, LINES),
    ({"lines": [1, 2], "note": "abc", "kind": None}, LINES),
    (5, {"type": "integer"}),
    (5.0, {"type": "integer"}),
    (1.5, {"type": "number", "maximum": 2}),
    ("x", {"anyOf": [{"type": "null"}, {"const": "x"}]}),
    ("x", {"oneOf": [{"type": "string"}, {"type": "null"}]}),
    ("x", {"not": {"type": "null"}}),
    ({"any": "thing"}, {"additionalProperties": {"type": "string"}}),
    ([], True),
]

MISFITS = [
    ({}, LINES, ("", "required")),
    ({"lines": [1, 0]}, LINES, ("/lines/1", "minimum")),
    ({"lines": [True]}, LINES, ("/lines/0", "type")),
    ({"lines": [1, 1, 1, 1]}, LINES, ("/lines", "maxItems")),
    ({"lines": [], "note": "abcde"}, LINES, ("/note", "maxLength")),
    ({"lines": [], "note": "ABC"}, LINES, ("/note", "pattern")),
    ({"lines": [], "kind": "b"}, LINES, ("/kind", "enum")),
    ({"lines": [], "Jane Doe": 1}, LINES, ("", "additionalProperties")),
    ("5", {"type": "integer"}, ("", "type")),
    (True, {"type": "number"}, ("", "type")),
    ("x", {"oneOf": [{"type": "string"}, {"const": "x"}]}, ("", "oneOf")),
    (None, {"not": {"type": "null"}}, ("", "not")),
    ("x", {"allOf": [{"type": "string"}, {"minLength": 2}]}, ("", "minLength")),
    ({"a": {"b": 1}}, {"properties": {"a": False}}, ("/a", "false")),
]


@pytest.mark.parametrize("case", range(len(FITS)))
def test_a_value_that_fits(case):
    value, schema = FITS[case]
    check_schema(schema, "p")
    assert misfit(value, schema) is None


@pytest.mark.parametrize("case", range(len(MISFITS)))
def test_a_value_that_does_not_fit_is_told_where_and_by_which_keyword(case):
    value, schema, wanted = MISFITS[case]
    check_schema(schema, "p")
    assert misfit(value, schema) == wanted


@pytest.mark.parametrize(
    "schema",
    [
        {"format": "date"},
        {"$ref": "#/x"},
        {"type": "text"},
        {"type": []},
        {"minimum": "1"},
        {"pattern": "("},
        {"anyOf": []},
        {"properties": {"a": {"uniqueItems": True}}},
        {"required": [1]},
        [],
    ],
    ids=str,
)
def test_a_schema_that_cannot_be_checked_whole_is_refused(schema):
    with pytest.raises(InvalidForm):
        check_schema(schema, "p")


def test_a_schema_nested_without_end_is_refused():
    schema = {"type": "object"}
    for _ in range(100):
        schema = {"items": schema}
    with pytest.raises(InvalidForm, match="nested"):
        check_schema(schema, "p")
