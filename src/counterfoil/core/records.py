"""Sealed records: content encrypted or clear, its commitment, and openings that prove one part (FORMAT 6)."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from hmac import compare_digest
from typing import Final, Literal, NamedTuple

from counterfoil.core.forms import is_digest
from counterfoil.core.genesis import ContentMode
from counterfoil.core.keyed import KEY_BYTES, KeyMaterial, hmac_sha256
from counterfoil.core.limits import PACK_BYTES_MIN, PACK_SMALL_BYTES_MIN, PART_BYTES_MAX
from counterfoil.errors import ContentDamaged, ContentTooLarge, KeyMissing

Pack = Literal["auto", "small", "never"]
"""When content is packed: from 2 KiB on, from small sizes on, or never, which hides what lengths tell."""

_PACK_FROM: Final = {"auto": PACK_BYTES_MIN, "small": PACK_SMALL_BYTES_MIN}

PLAIN: Final = b"\x00"
ZLIB: Final = b"\x01"
RECORD_CLEAR: Final = b"\x00"
RECORD_SEALED: Final = b"\x01"
NONCE_BYTES: Final = 12
GCM_TAG_BYTES: Final = 16
_ZLIB_LEVEL: Final = 6
_SEALED_BYTES_MIN: Final = 1 + NONCE_BYTES + 1 + GCM_TAG_BYTES
_CLEAR_BYTES_MIN: Final = 1 + KEY_BYTES + 1


class Sealed(NamedTuple):
    """One record as it is stored, with the two digests (hex) that the header keeps."""

    commitment: str
    sha256: str
    record: bytes


class Opening(NamedTuple):
    """Proves one part to anyone: ``HMAC(salt, 0x00 || content)`` is the commitment in the header."""

    part: int
    content: bytes
    salt: bytes


def pack_content(content: bytes, pack: Pack = "auto") -> bytes:
    """``0x00 || content``, or ``0x01 || zlib(content)`` where that is shorter; ``never`` hides what lengths tell."""
    if pack != "never" and len(content) >= _PACK_FROM[pack]:
        squeezed = zlib.compress(content, _ZLIB_LEVEL)
        if len(squeezed) < len(content):
            return ZLIB + squeezed
    return PLAIN + content


def unpack_content(packed: bytes) -> bytes:
    """The content, at most 4 MiB. Raises ContentDamaged unless it is one whole zlib stream with nothing after it."""
    kind = packed[:1]
    if kind == PLAIN:
        if len(packed) > PART_BYTES_MAX + 1:
            raise _damaged("packing", f"the content is longer than {PART_BYTES_MAX} bytes")
        return packed[1:]
    if kind != ZLIB:
        raise _damaged("packing", "the packing byte is neither 0x00 nor 0x01")
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(packed[1:], PART_BYTES_MAX + 1)
    except zlib.error:
        raise _damaged("packing", "the packed content is not a zlib stream") from None
    if len(content) > PART_BYTES_MAX:
        raise _damaged("packing", f"the content unpacks to more than {PART_BYTES_MAX} bytes")
    if not stream.eof:
        raise _damaged("packing", "the zlib stream ends early")
    if stream.unused_data:
        raise _damaged("packing", "bytes follow the zlib stream")
    return content


def seal(
    material: KeyMaterial,
    purpose: str,
    ids: Sequence[str | int],
    content: bytes,
    *,
    mode: ContentMode = "sealed",
    pack: Pack = "auto",
) -> Sealed:
    """Make the record of ``content``, a pure function of its arguments. Raises ContentTooLarge over 4 MiB."""
    return seal_in_context(material, material.context(purpose, ids), content, mode, pack)


def seal_in_context(
    material: KeyMaterial, context: bytes, content: bytes, mode: ContentMode, pack: Pack = "auto"
) -> Sealed:
    """As :func:`seal`, for a context made before."""
    if len(content) > PART_BYTES_MAX:
        raise ContentTooLarge(
            f"content of {len(content)} bytes; one part holds at most {PART_BYTES_MAX}",
            hint="keep it as an artifact (run.artifact) and record that, or split it over several events",
            bytes=len(content),
        )
    salt = material.salt_of(context)
    packed = pack_content(content, pack)
    if packed[0] == 0:
        commitment = mac = hmac_sha256(salt, packed)
    else:
        commitment = hmac_sha256(salt, PLAIN + content)
        mac = hmac_sha256(salt, packed) if mode == "sealed" else b""
    if mode == "sealed":
        nonce = mac[:NONCE_BYTES]
        record = RECORD_SEALED + nonce + material.cipher.encrypt(nonce, packed, context)
    else:
        record = RECORD_CLEAR + salt + packed
    return Sealed(commitment.hex(), hashlib.sha256(record).hexdigest(), record)


def open_record(
    material: KeyMaterial | None,
    purpose: str,
    ids: Sequence[str | int],
    record: bytes,
    commitment: str,
    *,
    mode: ContentMode,
) -> bytes:
    """The content of a record, accepted only after its commitment is recomputed.

    Raises ContentDamaged with field ``check`` (form, tag, packing, nonce or commitment), or KeyMissing when the
    record is encrypted and no key is given. A clear record needs no key.
    """
    context = b"" if material is None else material.context(purpose, ids)
    return open_in_context(material, context, record, commitment, mode)


def open_in_context(
    material: KeyMaterial | None, context: bytes, record: bytes, commitment: str, mode: ContentMode
) -> bytes:
    """As :func:`open_record`, for a context made before."""
    if mode == "clear":
        salt, packed = _open_clear(record)
    else:
        if material is None:
            raise KeyMissing("the record is encrypted and its data key is not at hand")
        salt, packed = _open_sealed(material, context, record)
    content = unpack_content(packed)
    plain = packed[0] == 0
    found = hmac_sha256(salt, packed if plain else PLAIN + content)
    if not compare_digest(found.hex(), commitment):
        raise _damaged("commitment", "the content is not the one that the header commits to")
    if mode == "sealed":
        mac = found if plain else hmac_sha256(salt, packed)
        if mac[:NONCE_BYTES] != record[1 : 1 + NONCE_BYTES]:
            raise _damaged("nonce", "the nonce is not the one that the content makes")
    return content


def _open_clear(record: bytes) -> tuple[bytes, bytes]:
    if record[:1] != RECORD_CLEAR or len(record) < _CLEAR_BYTES_MIN:
        raise _damaged("form", "the record has not the form of a clear stream")
    return record[1 : 1 + KEY_BYTES], record[1 + KEY_BYTES :]


def _open_sealed(material: KeyMaterial, context: bytes, record: bytes) -> tuple[bytes, bytes]:
    if record[:1] != RECORD_SEALED or len(record) < _SEALED_BYTES_MIN:
        raise _damaged("form", "the record has not the form of a sealed stream")
    nonce = record[1 : 1 + NONCE_BYTES]
    try:
        packed = material.cipher.decrypt(nonce, record[1 + NONCE_BYTES :], context)
    except Exception as error:
        # Imported where it is needed: for each record that opens, the import alone would take a microsecond.
        from cryptography.exceptions import InvalidTag

        if not isinstance(error, InvalidTag):
            raise
        raise _damaged("tag", "the record does not decrypt under its data key") from None
    return material.salt_of(context), packed


def record_digest(record: bytes) -> str:
    """SHA-256 of a stored record as hex: proves the stored bytes without any key."""
    return hashlib.sha256(record).hexdigest()


def make_opening(material: KeyMaterial, event_id: str, part: int, content: bytes) -> Opening:
    """The opening of one content part; it tells nothing about any other part or event."""
    return Opening(part, content, material.salt("content", (event_id, part)))


def check_opening(opening: Opening, commitment: str) -> bool:
    """Whether the opening proves that the commitment was made of this content. The salt has exactly 32 bytes."""
    # HMAC pads a short key with zero bytes, so a shorter salt could stand for the same digest.
    if len(opening.salt) != KEY_BYTES or not is_digest(commitment):
        return False
    return compare_digest(hmac_sha256(opening.salt, PLAIN + opening.content).hex(), commitment)


def _damaged(check: str, what: str) -> ContentDamaged:
    return ContentDamaged(what, check=check)
