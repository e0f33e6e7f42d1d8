"""Any bytes in any pieces come back; any change to their object is found; any value that spills comes back as it was."""

from __future__ import annotations

import hashlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.artifacts.spill import restored, spill
from counterfoil.core.artifact import (
    CHUNK_BYTES,
    HEAD_BYTES,
    SALT_BYTES,
    SEALED_CHUNK_BYTES,
    Opener,
    Sealer,
    open_artifact,
    seal_artifact,
    sealed_bytes,
    size_class,
)
from counterfoil.core.event import Draft, Part
from counterfoil.core.keyed import KeyMaterial
from counterfoil.core.limits import SPILL_BYTES
from counterfoil.core.values import from_json, to_json
from counterfoil.errors import ArtifactDamaged

KEY = KeyMaterial("dk_01J9ZC3Y3V7W2R5T8QK4M6N0PK", "str_01J9ZC3Y3V7W2R5T8QK4M6N0PS", bytes(range(32)))

near_chunks = st.builds(
    lambda chunks, more: max(0, chunks * CHUNK_BYTES + more), st.integers(0, 3), st.integers(-3, 3)
)
sizes = st.one_of(st.integers(0, 100), near_chunks)
cuts = st.lists(st.integers(0, 4 * CHUNK_BYTES), max_size=8)


def some(size):
    return hashlib.shake_128(str(size).encode()).digest(size)


def pieces(data, at):
    places = [0, *sorted(place for place in at if place < len(data)), len(data)]
    return [data[low:high] for low, high in pairwise(places)]


@given(sizes, cuts, cuts, st.binary(min_size=SALT_BYTES, max_size=SALT_BYTES))
def test_bytes_in_any_pieces_come_back_in_any_pieces(size, written, read, salt):
    data, sealer = some(size), Sealer(KEY, salt)
    stored = b"".join([*map(sealer.update, pieces(data, written)), sealer.finish()])
    assert len(stored) == sealed_bytes(size)
    opener = Opener(KEY, sealer.address.hex())
    assert b"".join([*map(opener.update, pieces(stored, read)), opener.finish()]) == data


@given(sizes, st.data())
def test_any_changed_bit_is_found(size, draw):
    stored, address = seal_artifact(KEY, some(size))
    bit = draw.draw(st.integers(0, 8 * len(stored) - 1))
    changed = bytearray(stored)
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(ArtifactDamaged):
        open_artifact(KEY, bytes(changed), address)


@given(sizes, st.data())
def test_any_cut_is_found(size, draw):
    stored, address = seal_artifact(KEY, some(size))
    with pytest.raises(ArtifactDamaged):
        open_artifact(KEY, stored[: draw.draw(st.integers(0, len(stored) - 1))], address)


@given(st.integers(1, 3), st.permutations(range(4)), st.integers(0, 100))
def test_any_other_order_of_chunks_is_found(whole, order, rest):
    stored, address = seal_artifact(KEY, some(whole * CHUNK_BYTES + rest))
    body = stored[HEAD_BYTES:]
    chunks = [body[at : at + SEALED_CHUNK_BYTES] for at in range(0, len(body), SEALED_CHUNK_BYTES)]
    moved = [chunks[place] for place in order if place < len(chunks)]
    if moved == chunks:
        return
    with pytest.raises(ArtifactDamaged):
        open_artifact(KEY, stored[:HEAD_BYTES] + b"".join(moved), address)


@given(st.integers(0, 2**50))
def test_the_size_class_is_the_smallest_that_holds_it(size):
    found = size_class(size)
    assert 2**found >= size
    assert found == 0 or 2 ** (found - 1) < size


long_bytes = st.integers(4_000, 4_200).map(some)
leaves = st.one_of(
    st.none(),
    st.integers(),
    st.text(max_size=20),
    st.binary(max_size=40),
    long_bytes,
    st.just("x" * (SPILL_BYTES // 2)),
)
names = st.one_of(st.text(max_size=5), st.sampled_from(["$bytes", "$spilled", "$literal", "$type", "value"]))
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4), st.tuples(inner, inner)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "result", "about"]), values, min_size=1, max_size=3))
def test_any_value_that_spills_comes_back_as_it_was(content):
    recorded = {name: to_json(value) for name, value in content.items()}
    draft = Draft(
        "evt_01J9ZC3Y3V7W2R5T8QK4M6N0PE",
        "order.noted",
        "2026-09-01T14:31:08.412Z",
        {},
        parts=(Part(recorded),),
    )
    outcome = spill(draft, KEY, usable=True)
    objects = {hashlib.sha256(data).hexdigest(): data for data in outcome.objects}
    (part,) = outcome.drafts[-1].parts
    found = restored(part.value, lambda name: open_artifact(KEY, objects[name]))
    assert found == recorded
    assert {name: from_json(value) for name, value in found.items()} == content
    named = {member["sha256"] for member in outcome.drafts[-1].artifact_refs}
    assert named == set(objects)
