"""Genesis beyond the vectors: making one, and what each member must be."""

from __future__ import annotations

import pytest

from counterfoil.core.genesis import make_genesis, parse_genesis
from counterfoil.errors import GenesisInvalid

MEMBERS = {
    "ledger": "ldg_01J9ZC3Y3V7W2R5T8QK4M6N0PG",
    "tenant": "default",
    "stream_id": "str_01J9ZC3Y3V7W2R5T8QK4M6N0PS",
    "kind": "conversation",
    "key": "dk_01J9ZC3Y3V7W2R5T8QK4M6N0PK",
}


@pytest.mark.parametrize(
    "extra", [{}, {"content": "clear"}, {"kind": "system/keys"}, {"tenant": "acme/eu+1"}]
)
def test_a_genesis_is_read_back_as_made(extra):
    made = make_genesis(**{**MEMBERS, **extra})
    assert parse_genesis(made.text) == made


def test_a_stream_may_continue_another():
    before = ("str_01J9ZC3Y3V7W2R5T8QK4M6N0PV", 12, "ab" * 32)
    made = make_genesis(**MEMBERS, continues=before)
    assert parse_genesis(made.text).continues == before


@pytest.mark.parametrize(
    "member, bad",
    [
        ("ledger", "str_01J9ZC3Y3V7W2R5T8QK4M6N0PG"),
        ("tenant", "a b"),
        ("tenant", ""),
        ("stream_id", "conversation-7"),
        ("kind", "chat"),
        ("kind", "system/"),
        ("kind", "system/a b"),
        ("key", "dk_x"),
        ("content", "plain"),
        ("continues", ("str_01J9ZC3Y3V7W2R5T8QK4M6N0PV", -1, "ab" * 32)),
        ("continues", ("str_01J9ZC3Y3V7W2R5T8QK4M6N0PV", 1, "AB" * 32)),
        ("continues", ("str_01J9ZC3Y3V7W2R5T8QK4M6N0PV", True, "ab" * 32)),
        ("continues", ("x", 1, "ab" * 32)),
    ],
)
def test_a_member_of_another_form_is_refused_by_name(member, bad):
    with pytest.raises(GenesisInvalid) as refusal:
        make_genesis(**{**MEMBERS, member: bad})
    assert refusal.value.member == member


def test_a_genesis_does_not_change():
    with pytest.raises(AttributeError):
        make_genesis(**MEMBERS).tenant = "other"


def test_an_endless_genesis_is_refused_before_it_is_read():
    with pytest.raises(GenesisInvalid):
        parse_genesis(b" " * 100_000)
