"""Wrapping by AES-KW and deriving from a key-encryption key."""

from __future__ import annotations

import pytest

from counterfoil.core.keyed import hmac_sha256
from counterfoil.errors import InternalError, KeyDamaged
from counterfoil.keys import wrapping

KEK = bytes(range(32))
KEK_ID = "kek_01J9ZC3Y3V7W2R5T8QK4M6N0PK"
# RFC 3394, section 4.6: 256 bits of key data wrapped with a 256-bit key.
DATA = bytes.fromhex("00112233445566778899AABBCCDDEEFF000102030405060708090A0B0C0D0E0F")
WRAPPED = bytes.fromhex("28C9F404C4B810F4CBCCB35CFB87F8263F5786E2D80ED326CBC7F0E71A99F43BFB988B9B7A02DD21")


def test_a_data_key_is_wrapped_as_rfc_3394_says():
    assert wrapping.wrap(KEK, DATA) == WRAPPED
    assert wrapping.unwrap(KEK_ID, KEK, WRAPPED) == DATA


@pytest.mark.parametrize("bit", range(0, 320, 7))
def test_a_changed_bit_does_not_unwrap(bit):
    changed = bytearray(WRAPPED)
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(KeyDamaged):
        wrapping.unwrap(KEK_ID, KEK, bytes(changed))


def test_another_key_encryption_key_does_not_unwrap():
    with pytest.raises(KeyDamaged) as caught:
        wrapping.unwrap(KEK_ID, bytes(32), WRAPPED)
    assert caught.value.kek_id == KEK_ID


@pytest.mark.parametrize("wrapped", [b"", WRAPPED[:-1], WRAPPED + b"\0", "x" * 40, None, 40])
def test_anything_but_40_bytes_is_damaged(wrapped):
    with pytest.raises(KeyDamaged):
        wrapping.unwrap(KEK_ID, KEK, wrapped)


@pytest.mark.parametrize("length", [0, 16, 24, 31, 33, 40])
def test_a_data_key_of_another_length_is_not_wrapped(length):
    with pytest.raises(InternalError):
        wrapping.wrap(KEK, bytes(length))


def test_what_is_derived_differs_by_purpose_and_by_key():
    derived = wrapping.derive(KEK, "subject-box")
    assert derived == hmac_sha256(KEK, b"counterfoil/subject-box/v1\x01")
    assert (
        len({derived, wrapping.derive(KEK, "subject-lookup"), wrapping.derive(bytes(32), "subject-box"), KEK})
        == 4
    )


def test_the_id_of_a_new_key_is_greater_than_the_newest_whatever_the_clock_says():
    old, new = "kek_01J9ZC3Y3V7W2R5T8QK4M6N0PK", "kek_01J9ZC3Y3V7W2R5T8QK4M6N0PM"
    assert wrapping.greater_id(new, old) == new
    assert wrapping.greater_id(old, new) == "kek_01J9ZC3Y3V7W2R5T8QK4M6N0PN"
    assert wrapping.greater_id(old, "") == old


def test_no_id_is_greater_than_the_last_and_that_is_said():
    with pytest.raises(KeyDamaged, match="no key-encryption key can follow on"):
        wrapping.greater_id("kek_01J9ZC3Y3V7W2R5T8QK4M6N0PK", "kek_7ZZZZZZZZZZZZZZZZZZZZZZZZZ")
