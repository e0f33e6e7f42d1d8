"""Messages that repeat the text of a response: named and not written out, and made again to the byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.core import canonical
from counterfoil.core.context import ContextTree, SaidText, cut_request, is_said, said_body
from counterfoil.core.keyed import KeyMaterial
from counterfoil.errors import ContentDamaged

EVENT = "evt_01J9ZC3Y3V7W2R5T8QK4M6N0PE"


def tree():
    return ContextTree(
        KeyMaterial("dk_01J9ZC3Y3V7W2R5T8QK4M6N0PK", "str_01J9ZC3Y3V7W2R5T8QK4M6N0PS", bytes(32))
    )


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_a_message_with_the_text_of_a_response_is_made_of_both(text, role):
    message = canonical.encode({"content": text, "role": role})
    (branch,) = (
        tree().exact(cut_request(message, [message]), [SaidText(EVENT, canonical.encode(text))]).branches
    )
    (entry,) = branch["bodies"]
    assert is_said(entry)
    assert said_body(entry, text) == message


def test_a_tree_takes_such_a_body_in_without_the_text():
    writer, reader = tree(), tree()
    said = [SaidText(EVENT, b'"the answer"')]
    message = b'{"content":"the answer","role":"assistant"}'
    exact = writer.exact(cut_request(b"[" + message + b"]", [message]), said)
    (body,) = reader.add(exact.branches[0])
    assert (body.data, reader.knows(exact.tip)) == (None, True)
    assert (
        reader.rebuild(exact.segments, exact.request, {body.address: message}.__getitem__)
        == b"[" + message + b"]"
    )


def test_a_message_that_repeats_nothing_is_written_out():
    (branch,) = tree().exact(cut_request(b'"x"', [b'"x"']), [SaidText(EVENT, b'"y"')]).branches
    assert branch["bodies"] == ['"x"']


@pytest.mark.parametrize(
    "entry",
    [
        {"body": "11" * 32, "said": EVENT},
        {"body": "11" * 32, "said": "evt_1", "in": ["", ""]},
        {"body": "11" * 32, "said": EVENT, "in": [""]},
        {"body": "11" * 32, "said": EVENT, "in": ["", 1]},
        {"body": "11" * 32, "said": EVENT, "in": ["", ""], "more": 1},
        {"body": "1", "said": EVENT, "in": ["", ""]},
    ],
    ids=["no sides", "no id", "one side", "no text", "more", "no address"],
)
def test_any_other_form_is_refused(entry):
    with pytest.raises(ContentDamaged):
        tree().add({"parent": "00" * 32, "bodies": [entry]})
