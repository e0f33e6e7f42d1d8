"""Key material beyond the vectors: HMAC, contexts of any text, and that keys do not leave."""

from __future__ import annotations

import hashlib
import hmac
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from counterfoil.core import canonical
from counterfoil.core.keyed import HmacState, KeyMaterial, hmac_sha256, index_value
from counterfoil.errors import InvalidForm, InvalidId

KEY = bytes(range(32))


@pytest.mark.parametrize("length", [0, 1, 55, 56, 63, 64, 65, 119, 120, 1000])
def test_hmac_is_the_one_of_the_standard_library(length):
    data = bytes(range(256)) * 4
    wanted = hmac.new(KEY, data[:length], hashlib.sha256).digest()
    assert hmac_sha256(KEY, data[:length]) == wanted
    assert HmacState(KEY).digest(data[:length]) == wanted


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_key_of_another_length_is_refused(length, stream):
    for call in (
        lambda: hmac_sha256(bytes(length), b""),
        lambda: HmacState(bytes(length)),
        lambda: KeyMaterial(stream.key_id, stream.stream_id, bytes(length)),
        lambda: index_value(bytes(length), "effect", "default", "x"),
    ):
        with pytest.raises(InvalidForm):
            call()


def test_one_state_serves_many_threads():
    state = HmacState(KEY)
    texts = [str(number).encode() * 50 for number in range(500)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(state.digest, texts))
    assert found == [hmac_sha256(KEY, text) for text in texts]


@pytest.mark.parametrize(
    "ids", [[], ["a", 1], ['quote "', 0], ["back\\slash"], ["\u00e9", "\U0001f600"], ["\ud800"], ["\x7f"]]
)
def test_a_context_is_canonical_json_whatever_stands_in_it(stream, ids):
    wanted = canonical.encode(["counterfoil/derived-id/v1", stream.stream_id, *ids])
    assert stream.material.context("derived-id", ids) == wanted


def test_the_context_of_content_is_the_general_one(stream):
    event_id = stream.draft().event_id
    assert stream.material.content_context(event_id, 7) == stream.material.context("content", [event_id, 7])


def test_different_purposes_ids_streams_and_keys_make_different_values(stream, stream_of):
    others = [
        stream.material.keyed("memo", ["a"], b"x"),
        stream.material.keyed("name", ["a"], b"x"),
        stream.material.keyed("memo", ["b"], b"x"),
        stream.material.keyed("memo", ["a", 1], b"x"),
        stream.material.keyed("memo", [], b"x"),
        stream.person().keyed("memo", ["a"], b"x"),
        KeyMaterial(stream.key_id, stream_of(3).stream_id, bytes([1]) * 32).keyed("memo", ["a"], b"x"),
    ]
    assert len(set(others)) == len(others)


def test_a_node_hangs_on_32_bytes(stream):
    with pytest.raises(InvalidForm):
        stream.material.node(bytes(31), b"{}")


def test_key_material_names_its_key_and_shows_none_of_it(stream):
    shown = repr(stream.material)
    assert stream.key_id in shown
    assert stream.material.artifact_key.hex() not in shown
    with pytest.raises(TypeError):
        pickle.dumps(stream.material)


def test_key_material_wants_ids_of_a_key_and_a_stream(stream):
    with pytest.raises(InvalidId):
        KeyMaterial(stream.stream_id, stream.stream_id, KEY)
    with pytest.raises(InvalidId):
        KeyMaterial(stream.key_id, stream.key_id, KEY)
