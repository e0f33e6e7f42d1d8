"""The bytes of artifacts: streams, the other implementation at hand, and every kind of damage."""

from __future__ import annotations

import hashlib

import pytest

from counterfoil.core.artifact import (
    CHUNK_BYTES,
    HEAD_BYTES,
    SALT_BYTES,
    SEALED_CHUNK_BYTES,
    TAG_BYTES,
    Opener,
    Reference,
    Sealer,
    check_class,
    checked_pieces,
    open_artifact,
    opened_pieces,
    reference_of,
    salt_for,
    seal_artifact,
    sealed_bytes,
    storage_ref,
)
from counterfoil.core.header import is_artifact_ref
from counterfoil.core.keyed import KeyMaterial
from counterfoil.errors import ArtifactDamaged, InvalidForm

KEY, STREAM = "dk_01J9ZC3Y3V7W2R5T8QK4M6N0PK", "str_01J9ZC3Y3V7W2R5T8QK4M6N0PS"
OTHER_KEY, OTHER_STREAM = "dk_01J9ZC3Y3V7W2R5T8QK4M6N0PM", "str_01J9ZC3Y3V7W2R5T8QK4M6N0PT"
SIZES = [0, 1, 100, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES, 50_000]


@pytest.fixture
def material():
    return KeyMaterial(KEY, STREAM, bytes(range(32)))


def some(size):
    return (bytes(range(251)) * (size // 251 + 1))[:size]


def flipped(data, bit):
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def check_of(material, stored, address=None):
    with pytest.raises(ArtifactDamaged) as refusal:
        open_artifact(material, stored, address)
    return refusal.value.check


# ---- the construction ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_another_implementation_opens_what_was_sealed_here_and_the_other_way_round(material, size):
    cobblestone = pytest.importorskip("cryptography.cobblestone")
    data, context = some(size), material.context("artifact", ())
    stored, address = seal_artifact(material, data)
    theirs = cobblestone.Cobblestone256Decryptor(material.artifact_key, context)
    assert theirs.update(stored) + theirs.finalize() == data
    sealer = cobblestone.Cobblestone256Encryptor(material.artifact_key, context)
    assert open_artifact(material, sealer.update(data) + sealer.finalize(), address) == data


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("step", [1, 7, 4096, CHUNK_BYTES, CHUNK_BYTES + TAG_BYTES, 100_000])
def test_pieces_of_any_length_make_and_open_the_same_object(material, size, step):
    if step == 1 and size > 100:
        step = 1021
    data = some(size)
    whole, address = seal_artifact(material, data)
    sealer = Sealer(material, salt_for(material, material.address(data)))
    stored = b"".join(sealer.update(data[at : at + step]) for at in range(0, size, step)) + sealer.finish()
    assert (stored, sealer.address.hex(), sealer.size, len(stored)) == (
        whole,
        address,
        size,
        sealed_bytes(size),
    )
    opener = Opener(material, address)
    opened = b"".join(opener.update(whole[at : at + step]) for at in range(0, len(whole), step))
    assert opened + opener.finish() == data
    assert opener.size == size


def test_a_sealer_holds_one_chunk_at_most(material):
    sealer = Sealer(material, bytes(SALT_BYTES))
    for _ in range(100):
        sealer.update(some(10_000))
        assert len(sealer._rest) < CHUNK_BYTES


def test_equal_bytes_make_equal_objects_under_one_key_and_others_under_another(material):
    other = KeyMaterial(OTHER_KEY, STREAM, bytes(range(1, 33)))
    assert seal_artifact(material, b"same") == seal_artifact(material, b"same")
    mine, theirs = seal_artifact(material, b"same"), seal_artifact(other, b"same")
    assert mine[0] != theirs[0]
    assert mine[1] != theirs[1]


def test_different_bytes_never_share_a_salt(material):
    salts = {seal_artifact(material, str(number).encode())[0][:SALT_BYTES] for number in range(200)}
    assert len(salts) == 200


def test_a_salt_of_another_length_is_refused(material):
    with pytest.raises(InvalidForm):
        Sealer(material, bytes(SALT_BYTES - 1))


# ---- damage ----------------------------------------------------------------------------------------------------------


def test_every_single_bit_of_an_object_counts(material):
    stored, address = seal_artifact(material, b"short")
    for bit in range(8 * len(stored)):
        assert check_of(material, flipped(stored, bit), address) in {"commitment", "chunk"}


@pytest.mark.parametrize("chunk", [0, 1, 2])
@pytest.mark.parametrize("place", [0, 1, CHUNK_BYTES // 2, -TAG_BYTES, -1])
def test_a_bit_in_any_chunk_counts(material, chunk, place):
    stored, address = seal_artifact(material, some(2 * CHUNK_BYTES + 100))
    first = HEAD_BYTES + chunk * SEALED_CHUNK_BYTES
    last = min(first + SEALED_CHUNK_BYTES, len(stored))
    at = first + min(place, last - first - 1) if place >= 0 else last + place
    assert check_of(material, flipped(stored, 8 * at), address) == "chunk"


def test_an_object_cut_anywhere_is_refused(material):
    stored, address = seal_artifact(material, b"short")
    assert {check_of(material, stored[:size], address) for size in range(HEAD_BYTES)} == {"length"}
    found = {check_of(material, stored[:size], address) for size in range(HEAD_BYTES, len(stored))}
    assert found == {"cut", "chunk"}


@pytest.mark.parametrize("kept", [1, 2])
def test_an_object_cut_between_two_chunks_is_refused(material, kept):
    stored, address = seal_artifact(material, some(2 * CHUNK_BYTES + 100))
    assert check_of(material, stored[: HEAD_BYTES + kept * SEALED_CHUNK_BYTES], address) == "cut"


def test_chunks_cannot_change_places_come_twice_or_be_left_out(material):
    stored, address = seal_artifact(material, some(3 * CHUNK_BYTES))
    head, rest = stored[:HEAD_BYTES], stored[HEAD_BYTES:]
    parts = [rest[at : at + SEALED_CHUNK_BYTES] for at in range(0, len(rest), SEALED_CHUNK_BYTES)]
    for order in ([1, 0, 2, 3], [0, 2, 1, 3], [0, 0, 1, 2, 3], [0, 2, 3], [1, 2, 3], [0, 1, 2, 3, 3]):
        assert check_of(material, head + b"".join(parts[number] for number in order), address) == "chunk"


def test_a_chunk_of_another_object_under_the_same_key_is_refused(material):
    mine, address = seal_artifact(material, some(2 * CHUNK_BYTES))
    other, _ = seal_artifact(material, some(2 * CHUNK_BYTES + 1))
    end = HEAD_BYTES + SEALED_CHUNK_BYTES
    assert check_of(material, mine[:HEAD_BYTES] + other[HEAD_BYTES:end] + mine[end:], address) == "chunk"


def test_another_whole_object_under_the_same_key_is_found_by_its_address(material):
    _, address = seal_artifact(material, b"asked for")
    assert check_of(material, seal_artifact(material, b"another")[0], address) == "address"


def test_an_object_opens_under_no_other_key_and_in_no_other_stream(material):
    stored, address = seal_artifact(material, b"mine")
    for key, stream, data_key in (
        (OTHER_KEY, STREAM, bytes(range(1, 33))),
        (KEY, OTHER_STREAM, bytes(range(32))),
    ):
        assert check_of(KeyMaterial(key, stream, data_key), stored, address) == "commitment"


def test_pieces_before_the_damage_are_handed_out_and_none_after_it(material):
    stored, address = seal_artifact(material, some(3 * CHUNK_BYTES))
    damaged = flipped(stored, 8 * (HEAD_BYTES + 2 * SEALED_CHUNK_BYTES))
    pieces = opened_pieces(
        material, address, [damaged[at : at + 1000] for at in range(0, len(damaged), 1000)]
    )
    got = b""
    with pytest.raises(ArtifactDamaged):
        for piece in pieces:
            got += piece
    assert got == some(3 * CHUNK_BYTES)[: 2 * CHUNK_BYTES]


@pytest.mark.parametrize("stored", [[], [b"a"], [b"a", b"bc", b"d"]], ids=len)
def test_public_bytes_are_compared_with_their_name(stored):
    whole = b"".join(stored)
    name = hashlib.sha256(whole).hexdigest()
    assert b"".join(checked_pieces(name, stored)) == whole
    with pytest.raises(ArtifactDamaged):
        list(checked_pieces("0" * 64, stored))


def test_the_last_piece_of_public_bytes_comes_only_after_the_check():
    pieces = checked_pieces("0" * 64, [b"first", b"last"])
    assert next(pieces) == b"first"
    with pytest.raises(ArtifactDamaged):
        next(pieces)


# ---- references ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("klass", ["public", "internal", "confidential", "personal", "secret"])
def test_a_reference_comes_back_from_its_entry_in_a_header(klass):
    address, key = (None, None) if klass == "public" else ("b" * 64, OTHER_KEY)
    reference = Reference("report", klass, "a" * 64, address, key)
    assert is_artifact_ref(reference.member(KEY))
    assert reference_of(reference.member(KEY), KEY) == reference


def test_the_stream_key_is_not_named():
    reference = Reference("report", "secret", "a" * 64, "b" * 64, KEY)
    assert "key" not in reference.member(KEY)
    assert reference_of(reference.member(KEY), KEY) == reference


def test_a_storage_ref_names_the_object_and_no_place():
    assert storage_ref("a" * 64) == f"artifact:sha256:{'a' * 64}"


def test_a_class_that_is_none_is_refused():
    assert check_class("secret") == "secret"
    with pytest.raises(InvalidForm, match="public"):
        check_class("hidden")
