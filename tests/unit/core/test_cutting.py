"""Requests that somebody else has encoded: cut where their messages lie, and never changed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.core.cutting import cut_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
WAYS = st.sampled_from([{}, {"separators": (",", ":")}, {"indent": 2}, {"ensure_ascii": False}])


@given(st.sampled_from(["messages", "input", "contents"]), st.lists(VALUES, max_size=6), VALUES, WAYS)
def test_any_encoding_is_cut_at_its_messages_and_makes_the_same_bytes(name, messages, other, way):
    whole = json.dumps({"model": other, name: messages, "stream": True}, **way).encode("utf-8", "replace")
    cut = cut_json(whole)
    assert cut.whole() == whole
    assert [json.loads(body) for body in cut.bodies] == messages


@given(st.binary(max_size=40) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_stay_as_they_are(whole):
    assert cut_json(whole).whole() == whole


@pytest.mark.parametrize(
    "whole",
    [
        b'{"messages":[1, 2,3]}',
        b'{"prompt":"hello"}',
        b'{"messages":"hello"}',
        b'{"inner":{"messages":[1]}}',
        b'[{"messages":[1]}]',
        b'{"a":' * 9000,
        b"",
    ],
    ids=["divided in two ways", "none", "no list", "inside", "a list", "deep", "empty"],
)
def test_what_holds_no_messages_in_order_is_left_whole(whole):
    assert cut_json(whole).bodies == ()
    assert cut_json(whole).whole() == whole
