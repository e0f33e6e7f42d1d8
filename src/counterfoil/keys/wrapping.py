"""Wrapping a data key under a key-encryption key, and deriving from one: the arithmetic every provider shares."""

from __future__ import annotations

from typing import Final

from counterfoil.core.ids import ulid_decode, ulid_encode
from counterfoil.core.keyed import KEY_BYTES, hmac_sha256
from counterfoil.errors import InternalError, InvalidId, KeyDamaged

WRAPPED_BYTES: Final = KEY_BYTES + 8
"""AES-KW (RFC 3394) adds one block of eight bytes."""


def wrap(kek: bytes, data_key: bytes) -> bytes:
    """``data_key`` wrapped by AES-KW with a 256-bit key."""
    from cryptography.hazmat.primitives.keywrap import aes_key_wrap

    if len(data_key) != KEY_BYTES:
        raise InternalError(f"a data key has {KEY_BYTES} bytes, this one {len(data_key)}")
    return aes_key_wrap(kek, data_key)


def unwrap(kek_id: str, kek: bytes, wrapped: bytes) -> bytes:
    """What :func:`wrap` was given. Raises KeyDamaged when these bytes were not wrapped under this key."""
    from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap

    if not has_bytes(wrapped, WRAPPED_BYTES):
        raise KeyDamaged(f"a wrapped data key has {WRAPPED_BYTES} bytes; this one has not", kek_id=kek_id)
    try:
        return aes_key_unwrap(kek, wrapped)
    except InvalidUnwrap:
        raise KeyDamaged(
            f"a data key does not unwrap under {kek_id}",
            hint="its row was changed, or the key-encryption key is not the one it was wrapped under",
            kek_id=kek_id,
        ) from None


def has_bytes(value: object, count: int) -> bool:
    """Whether a stored value is ``count`` bytes: a damaged row may hold anything."""
    return isinstance(value, bytes) and len(value) == count


def derive(kek: bytes, purpose: str) -> bytes:
    """HKDF-Expand (RFC 5869) of a key-encryption key to one block, as FORMAT 3 does with data keys."""
    return hmac_sha256(kek, f"counterfoil/{purpose}/v1".encode() + b"\x01")


def greater_id(minted: str, newest: str) -> str:
    """The id of a new key-encryption key: ``minted``, or the next after ``newest`` (empty: none) where that is greater.

    The newest id is the current epoch, so a clock that went back must not mint an older one. Raises KeyDamaged where
    there is no greater one.
    """
    if minted > newest:
        return minted
    try:
        return f"kek_{ulid_encode(ulid_decode(newest.removeprefix('kek_')) + 1)}"
    except InvalidId:
        raise KeyDamaged(
            f"no key-encryption key can follow on {newest}, the last id that there is",
            hint="it is nothing that was made here: take it away from the others",
            kek_id=newest,
        ) from None
