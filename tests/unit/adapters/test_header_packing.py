"""Packed headers: every header comes back as the bytes that were hashed, and damage is handed on as it lies there."""

from __future__ import annotations

import hashlib
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterfoil
from counterfoil.adapters.sqlite.packing import (
    DICTIONARY,
    PACKED,
    PACKED_TYPES,
    packed_header,
    plain_header,
    stored_form,
)
from tests.running import ScriptedModel

TEXTS = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=60)
DIGESTS = st.binary(min_size=16, max_size=16) | st.binary(min_size=32, max_size=32)
PIECES = st.lists(TEXTS | DIGESTS.map(lambda digest: f'"{digest.hex()}"'), max_size=12)


@given(PIECES)
def test_any_header_comes_back_as_it_was(pieces):
    header = ("{" + ",".join(pieces) + "}").encode()
    assert plain_header(packed_header(header)) == header


def test_the_dictionary_stays_as_it_is():
    # Files are unpacked with it for as long as there are any: another one is another first byte.
    assert hashlib.sha256(DICTIONARY).hexdigest() == DICTIONARY_SHA256


DICTIONARY_SHA256 = "9bd0244e6a03e2675a90916c7b9e6cd8d770bd118435f958380e9648c6606394"


def headers(place):
    """Type and stored header of every event, as they lie in the file."""
    with sqlite3.connect(place / "ledger.db") as file:
        return file.execute("SELECT event_type, header FROM event ORDER BY position").fetchall()


@pytest.fixture
def shop(tmp_path):
    place = tmp_path / "shop"
    with counterfoil.open(place) as ledger, ledger.run("agent", conversation="c", message="hi") as run:
        run.ask(ScriptedModel("one", "two"), "q")
        run.step("look", str.upper, "x")
    return place


def test_headers_of_model_calls_take_a_third_and_read_as_ever(shop):
    stored = headers(shop)
    packed = [header for _, header in stored if header[:1] == PACKED]
    assert len(packed) >= 8
    with counterfoil.open(shop, read_only=True) as ledger:
        events = list(ledger.events("c"))
    assert [event.type for event in events] == [kind for kind, _ in stored][-len(events) :]
    whole = sum(len(plain_header(header)) for header in packed)
    assert sum(map(len, packed)) < 0.4 * whole
    assert {kind.partition(".")[0] + "." for kind, header in stored if header[:1] == PACKED} <= set(
        PACKED_TYPES
    )


def test_a_file_with_plain_headers_goes_on_with_packed_ones(tmp_path, monkeypatch):
    monkeypatch.setattr("counterfoil.adapters.sqlite.transaction.stored_form", lambda _, header: header)
    with counterfoil.open(tmp_path / "shop") as ledger, ledger.run("agent", conversation="c") as run:
        run.ask(ScriptedModel("one"), "q")
    assert all(header[:1] == b"{" for _, header in headers(tmp_path / "shop"))
    monkeypatch.undo()
    with counterfoil.open(tmp_path / "shop") as ledger:
        with ledger.run("agent", conversation="c") as run:
            run.ask(ScriptedModel("two"), "q")
        assert {header[:1] for _, header in headers(tmp_path / "shop")} == {b"{", PACKED}
        assert len({found.body for found in ledger.requests("c")}) == 1


@pytest.mark.parametrize("at", [0, 1, 5, -1])
def test_a_damaged_packed_header_is_handed_on_as_it_lies_there(at):
    header = b'{"actor":{"id":"agent","type":"agent"},"data":{"request":"' + b"ab" * 32 + b'"}}'
    packed = bytearray(packed_header(header))
    packed[at] ^= 0xFF
    found = plain_header(bytes(packed))
    assert found != header
    cut = packed_header(header)[:-1]
    assert plain_header(cut) == cut


@pytest.mark.parametrize("stored", [None, "text", b"", b"{}", 7, b"\x01", b"\x02abc"], ids=repr)
def test_what_is_no_packed_header_is_left_alone(stored):
    assert plain_header(stored) == stored


def test_headers_of_effects_stay_plain():
    assert stored_form("effect.intended", b'{"a":"' + b"ab" * 32 + b'"}').startswith(b"{")


def test_a_header_that_would_grow_is_left_alone():
    assert stored_form("run.started", b"{}") == b"{}"
