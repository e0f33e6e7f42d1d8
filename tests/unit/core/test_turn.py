"""Turn events: what is refused, and how a summary is cleaned."""

from __future__ import annotations

import pytest

from counterfoil.core.turn import TURN_ROOT, clean_summary, turn_hash
from counterfoil.errors import InvalidForm

GIVEN = {
    "previous": TURN_ROOT,
    "turn_id": "trn_01J9ZC3Y3V7W2R5T8QK4M6N0PN",
    "agent_id": "support",
    "sequence": 0,
    "kind": "INTAKE",
    "payload_hash": "ab" * 32,
    "summary": "session=3f1c90ab52de",
    "created_at_ms": 1788273068412,
}


@pytest.mark.parametrize(
    "member, bad",
    [
        ("previous", "0" * 63),
        ("payload_hash", ""),
        ("payload_hash", "AB" * 32),
        ("kind", "intake"),
        ("sequence", -1),
        ("turn_id", "a|b"),
        ("agent_id", "a|b"),
        ("agent_id", "\ud800"),
    ],
)
def test_a_turn_event_of_another_form_is_refused(member, bad):
    with pytest.raises(InvalidForm):
        turn_hash(**{**GIVEN, member: bad})


@pytest.mark.parametrize(
    "member, other", [("sequence", 1), ("kind", "GUARD"), ("payload_hash", None), ("summary", "x|y")]
)
def test_every_field_counts(member, other):
    assert turn_hash(**{**GIVEN, member: other}) != turn_hash(**GIVEN)


def test_lone_surrogates_are_replaced_and_pairs_joined():
    assert clean_summary("a\ud800b \ud83d\ude00") == "a\ufffdb \U0001f600"
    assert turn_hash(**{**GIVEN, "summary": "\ud800"}) == turn_hash(**{**GIVEN, "summary": "\ufffd"})
