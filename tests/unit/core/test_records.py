"""Sealed records beyond the vectors: packing, bounds, keys, and what changes with each byte."""

from __future__ import annotations

import zlib

import pytest

from counterfoil.core.keyed import hmac_sha256
from counterfoil.core.limits import PACK_BYTES_MIN, PART_BYTES_MAX
from counterfoil.core.records import (
    check_opening,
    make_opening,
    open_record,
    pack_content,
    seal,
    unpack_content,
)
from counterfoil.errors import ContentDamaged, ContentTooLarge, KeyMissing

IDS = ["evt_01J9ZC3Y3V7W2R5T8QK4M6N0PE", 0]
CONTENT = b'{"message":"Where is my order?"}'
LONG = b'{"text":"' + b"The order has not arrived. " * 100 + b'"}'


def test_sealing_again_gives_the_same_bytes(stream, stream_of):
    assert seal(stream.material, "content", IDS, CONTENT) == seal(
        stream_of(1).material, "content", IDS, CONTENT
    )


@pytest.mark.parametrize("mode", ["sealed", "clear"])
@pytest.mark.parametrize("content", [CONTENT, LONG, b"{}"])
def test_a_record_opens_to_what_was_sealed(stream, mode, content):
    sealed = seal(stream.material, "content", IDS, content, mode=mode)
    assert (
        open_record(stream.material, "content", IDS, sealed.record, sealed.commitment, mode=mode) == content
    )


def test_a_clear_record_is_proven_without_a_key(stream):
    sealed = seal(stream.material, "content", IDS, CONTENT, mode="clear")
    assert open_record(None, "content", IDS, sealed.record, sealed.commitment, mode="clear") == CONTENT


def test_an_encrypted_record_without_a_key_is_not_opened(stream):
    sealed = seal(stream.material, "content", IDS, CONTENT)
    with pytest.raises(KeyMissing):
        open_record(None, "content", IDS, sealed.record, sealed.commitment, mode="sealed")


@pytest.mark.parametrize("mode", ["sealed", "clear"])
@pytest.mark.parametrize("content", [CONTENT, LONG], ids=["plain", "packed"])
def test_a_changed_byte_anywhere_is_noticed(stream, mode, content):
    sealed = seal(stream.material, "content", IDS, content, mode=mode)
    for at in range(len(sealed.record)):
        changed = sealed.record[:at] + bytes([sealed.record[at] ^ 1]) + sealed.record[at + 1 :]
        with pytest.raises(ContentDamaged):
            open_record(stream.material, "content", IDS, changed, sealed.commitment, mode=mode)


@pytest.mark.parametrize("mode", ["sealed", "clear"])
def test_a_record_cut_or_lengthened_is_noticed(stream, mode):
    sealed = seal(stream.material, "content", IDS, CONTENT, mode=mode)
    for changed in [sealed.record[:at] for at in range(len(sealed.record))] + [sealed.record + b"\0"]:
        with pytest.raises(ContentDamaged):
            open_record(stream.material, "content", IDS, changed, sealed.commitment, mode=mode)


def test_a_record_belongs_to_its_event_part_stream_and_key(stream, other_stream):
    sealed = seal(stream.material, "content", IDS, CONTENT)
    elsewhere = [
        (stream.material, "content", [IDS[0], 1]),
        (stream.material, "content", ["evt_01J9ZC3Y3V7W2R5T8QK4M6N0PF", 0]),
        (stream.material, "turn", IDS),
        (other_stream.material, "content", IDS),
        (stream.person(), "content", IDS),
    ]
    for material, purpose, ids in elsewhere:
        with pytest.raises(ContentDamaged):
            open_record(material, purpose, ids, sealed.record, sealed.commitment, mode="sealed")


def test_equal_content_in_two_events_looks_different(stream):
    one = seal(stream.material, "content", IDS, CONTENT)
    other = seal(stream.material, "content", ["evt_01J9ZC3Y3V7W2R5T8QK4M6N0PF", 0], CONTENT)
    assert (one.commitment, one.record) != (other.commitment, other.record)


def test_short_content_and_content_that_does_not_shrink_is_not_packed():
    dense = b"".join(hmac_sha256(bytes(32), bytes([i])) for i in range(200))
    assert pack_content(b"a" * (PACK_BYTES_MIN - 1))[:1] == b"\x00"
    assert pack_content(dense)[:1] == b"\x00"
    assert pack_content(b"a" * PACK_BYTES_MIN)[:1] == b"\x01"


def test_packing_can_be_turned_off():
    assert pack_content(LONG, "never") == b"\x00" + LONG


def test_the_commitment_does_not_depend_on_packing(stream):
    packed = seal(stream.material, "content", IDS, LONG)
    plain = seal(stream.material, "content", IDS, LONG, pack="never")
    assert packed.commitment == plain.commitment
    assert packed.sha256 != plain.sha256
    assert len(packed.record) < len(plain.record)


def test_a_part_of_4_mib_is_sealed_and_opened_and_one_more_byte_refused(stream):
    content = b"a" * PART_BYTES_MAX
    sealed = seal(stream.material, "content", IDS, content)
    assert (
        open_record(stream.material, "content", IDS, sealed.record, sealed.commitment, mode="sealed")
        == content
    )
    with pytest.raises(ContentTooLarge):
        seal(stream.material, "content", IDS, content + b"a")


def test_unpacking_stops_at_the_limit():
    bomb = zlib.compress(bytes(32 * 1024 * 1024), 9)
    with pytest.raises(ContentDamaged) as refusal:
        unpack_content(b"\x01" + bomb)
    assert refusal.value.check == "packing"


def test_plain_content_beyond_the_limit_is_refused_too():
    with pytest.raises(ContentDamaged):
        unpack_content(b"\x00" + b"a" * (PART_BYTES_MAX + 1))


@pytest.mark.parametrize("salt_bytes", [0, 31, 33, 64])
def test_an_opening_has_a_salt_of_32_bytes(stream, salt_bytes):
    sealed = seal(stream.material, "content", IDS, CONTENT)
    opening = make_opening(stream.material, IDS[0], 0, CONTENT)
    assert check_opening(opening, sealed.commitment)
    assert not check_opening(opening._replace(salt=bytes(salt_bytes)), sealed.commitment)


def test_an_opening_is_judged_against_a_commitment_of_64_hex(stream):
    sealed = seal(stream.material, "content", IDS, CONTENT)
    opening = make_opening(stream.material, IDS[0], 0, CONTENT)
    assert not check_opening(opening, sealed.commitment.upper())
    assert not check_opening(opening, "")
    assert not check_opening(opening, "\u00e9")
