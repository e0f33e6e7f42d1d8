"""A key store that was restored from before a rotation or an erasure: read with, never written with (FORMAT 12)."""

from __future__ import annotations

import shutil

import pytest

import counterfoil
from counterfoil.client.custody import older_epoch
from counterfoil.core.event import Draft, Part
from counterfoil.core.forms import time_text
from counterfoil.errors import ChainBroken, KeyStoreStale
from counterfoil.flow.requests import Entry, UnitDraft
from counterfoil.keys.rotation import destroy_epoch, rotate

ACTOR = {"type": "system", "id": "counterfoil"}


@pytest.fixture
def place(tmp_path):
    """A closed ledger with one conversation in it."""
    with counterfoil.open(tmp_path / "ledger") as ledger, ledger.run("a", conversation="case-1") as run:
        run.finish("done")
    return tmp_path / "ledger"


def record(ledger, stream_id, event_type, data, content=None):
    draft = Draft(
        ledger.ports.new_id("evt"),
        event_type,
        time_text(ledger.ports.now_ms()),
        ACTOR,
        data,
        (Part(content),) if content else (),
    )
    ledger.ports.append(UnitDraft((Entry(stream_id, (draft,)),)))


def rotate_and_record(ledger):
    done = rotate(ledger.keyring)
    held = {"key_store": ledger.keyring.store.store_id, "kek": done.epoch_to}
    data = {"epoch_from": 1, "epoch_to": 2, "keys": done.keys}
    record(ledger, ledger.streams.id_of("keys"), "keys.rotated", data, held)
    return done


def erase(ledger, subject):
    """What an erasure of this person leaves: no key, and a certificate in the stream."""
    stream_id = ledger.stream_of("case-1")
    key_id = ledger.keyring.subject_key(stream_id, subject).key_id
    ledger.keyring.store.delete([key_id])
    data = {
        "deletion_id": ledger.ports.new_id("del"),
        "certificate": ledger.ports.new_id("ers"),
        "ground": "request",
        "key": key_id,
        "contents": 0,
        "objects": 0,
        "copies": "not_covered",
    }
    record(ledger, stream_id, "deletion.completed", data)
    return key_id


def with_a_run(ledger):
    with ledger.run("a"):
        pass


def test_a_copy_from_before_a_rotation_is_refused_for_writing_and_read(place, tmp_path):
    shutil.copy(place / "keys.db", tmp_path / "keys.db")
    with counterfoil.open(place) as ledger:
        rotate_and_record(ledger)
        with_a_run(ledger)
    shutil.copy(tmp_path / "keys.db", place / "keys.db")
    with counterfoil.open(place) as ledger:
        assert ledger.read_only
        with pytest.raises(KeyStoreStale) as refused:
            with_a_run(ledger)
        assert "backup" in refused.value.hint
        assert next(info.name for info in ledger.conversations()) == "case-1"


def test_a_rotation_that_was_not_yet_recorded_is_no_old_copy(place):
    with counterfoil.open(place) as ledger:
        done = rotate(ledger.keyring)
        destroy_epoch(ledger.keyring, done.epoch_from)
    with counterfoil.open(place) as ledger:
        with_a_run(ledger)


def test_the_key_store_that_the_ledger_was_rotated_with_is_written_with(place):
    with counterfoil.open(place) as ledger:
        done = rotate_and_record(ledger)
        destroy_epoch(ledger.keyring, done.epoch_from)
    with counterfoil.open(place) as ledger:
        with_a_run(ledger)


def test_a_copy_that_holds_an_erased_key_is_refused_for_writing_until_it_is_destroyed_again(place, tmp_path):
    with counterfoil.open(place) as ledger:
        ledger.keyring.subject_key(ledger.stream_of("case-1"), "dana@example.com")
    shutil.copy(place / "keys.db", tmp_path / "keys.db")
    with counterfoil.open(place) as ledger:
        key_id = erase(ledger, "dana@example.com")
    with counterfoil.open(place) as ledger:
        with_a_run(ledger)
    shutil.copy(tmp_path / "keys.db", place / "keys.db")
    with counterfoil.open(place) as ledger, pytest.raises(KeyStoreStale) as refused:
        with_a_run(ledger)
    assert refused.value.fields["key_id"] == key_id
    with counterfoil.open(place, read_only=True) as ledger:
        ledger.keyring.store.delete([key_id])
        rotate(ledger.keyring)
    with counterfoil.open(place) as ledger:
        with_a_run(ledger)


def test_damage_in_the_record_of_epochs_is_for_verify_to_name_and_no_reason_to_refuse(place, monkeypatch):
    def damaged(query):
        raise ChainBroken("a header that is none")

    with counterfoil.open(place) as ledger:
        monkeypatch.setattr(ledger.ports, "events", damaged)
        assert older_epoch(ledger.ports, ledger.streams.id_of("keys"), str(place)) is None
