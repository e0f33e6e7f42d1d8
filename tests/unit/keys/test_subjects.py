"""Keys of people: found by a lookup and named in a box that only the current key-encryption key opens."""

from __future__ import annotations

import hmac
import threading

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec.structs import replace

from counterfoil.errors import ContentDamaged, InvalidForm
from counterfoil.keys.environment import EnvironmentKeyProvider
from counterfoil.keys.keyring import CACHE_S, Keyring
from counterfoil.keys.links import LinkKeys
from counterfoil.keys.rotation import rotate

PERSON = "ann@example.com"
THREADS = 8


@pytest.fixture
def link_keys(provider):
    return LinkKeys(provider, provider.new_epoch())


def test_a_person_has_one_key_in_a_stream(keyring, stream_id):
    assert keyring.subject_key(stream_id, PERSON) is keyring.subject_key(stream_id, PERSON)


def test_a_person_has_another_key_in_every_stream(keyring, ids, stream_id):
    first, second = keyring.subject_key(stream_id, PERSON), keyring.subject_key(ids.new("str"), PERSON)
    assert first.key_id != second.key_id
    assert first.stream_id == stream_id != second.stream_id


def test_two_people_have_two_keys(keyring, stream_id):
    keys = {
        keyring.subject_key(stream_id, person).key_id for person in (PERSON, "bob", "Ann@example.com", "ann")
    }
    assert len(keys) == 4


def test_another_keyring_finds_the_same_key(keyring, store, provider, clock, ids, stream_id):
    key_id = keyring.subject_key(stream_id, PERSON).key_id
    assert Keyring(store, provider, clock, ids).subject_key(stream_id, PERSON).key_id == key_id
    assert len(store.of_stream(stream_id)) == 1


def test_a_person_who_is_known_is_not_put_again(keyring, store, provider, clock, ids, stream_id, monkeypatch):
    key_id = keyring.subject_key(stream_id, PERSON).key_id
    monkeypatch.setattr(store, "put", None)
    for other in (keyring, Keyring(store, provider, clock, ids)):
        assert other.subject_key(stream_id, PERSON).key_id == key_id


def test_who_comes_second_takes_the_key_of_who_came_first(
    store, provider, clock, ids, stream_id, monkeypatch
):
    first, second = (Keyring(store, provider, clock, ids) for _ in range(2))
    first.new_stream_key(ids.new("str"))
    real, found = store.put, []

    def overtaken(keys, subjects=()):
        monkeypatch.setattr(store, "put", real)
        found.append(second.subject_key(stream_id, PERSON).key_id)
        real(keys, subjects)

    monkeypatch.setattr(store, "put", overtaken)
    assert [first.subject_key(stream_id, PERSON).key_id] == found
    assert [row.key_id for row in store.of_stream(stream_id)] == found


def test_a_person_of_another_tenant_is_another_person(keyring, store, provider, clock, ids, stream_id):
    key_id = keyring.subject_key(stream_id, PERSON).key_id
    north = Keyring(store, provider, clock, ids, tenant="north")
    assert north.subject_key(stream_id, PERSON).key_id != key_id


def test_the_key_and_its_link_are_in_the_store_when_it_is_handed_out(keyring, store, stream_id):
    key_id = keyring.subject_key(stream_id, PERSON).key_id
    (link,) = store.subjects_of(key_id)
    assert store.get(key_id).kek_id == link.kek_id
    assert keyring.link_keys(link.kek_id).open(link) == ("default", PERSON)


def test_nothing_stored_says_who_it_is(keyring, store, stream_id):
    key_id = keyring.subject_key(stream_id, PERSON).key_id
    (link,) = store.subjects_of(key_id)
    for stored in (link.box, link.lookup, store.get(key_id).wrapped):
        assert b"ann" not in stored


def test_of_many_threads_that_need_a_person_at_once_all_get_one_key(store, provider, clock, ids, stream_id):
    gate, found = threading.Barrier(THREADS), []

    def ask():
        keyring = Keyring(store, provider, clock, ids)
        gate.wait()
        found.append(keyring.subject_key(stream_id, PERSON).key_id)

    threads = [threading.Thread(target=ask) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == THREADS
    assert len(set(found)) == 1
    assert [row.key_id for row in store.of_stream(stream_id)] == [found[0]]


def test_a_person_is_found_again_after_the_cache_has_run_out(keyring, clock, stream_id):
    key_id = keyring.subject_key(stream_id, PERSON).key_id
    clock.advance(int(CACHE_S * 1000))
    assert keyring.subject_key(stream_id, PERSON).key_id == key_id


def test_a_person_is_found_after_another_process_has_rotated(keyring, store, provider, clock, ids, stream_id):
    key_id = keyring.subject_key(stream_id, PERSON).key_id
    rotate(Keyring(store, provider, clock, ids))
    assert keyring.subject_key(stream_id, PERSON).key_id == key_id
    other = keyring.subject_key(ids.new("str"), PERSON).key_id
    assert store.get(other).kek_id == store.epochs()["default"]


def test_a_person_whom_a_rotated_store_knows_gets_no_second_key(
    keyring, store, provider, clock, ids, stream_id
):
    other = Keyring(store, provider, clock, ids)
    key_id = other.subject_key(stream_id, PERSON).key_id
    keyring.epoch()
    rotate(other)
    assert keyring.subject_key(stream_id, PERSON).key_id == key_id
    assert len(store.of_stream(stream_id)) == 1


def test_a_nameless_subject_is_refused(keyring, stream_id):
    with pytest.raises(InvalidForm):
        keyring.subject_key(stream_id, "")


def test_people_of_a_clear_ledger_have_keys_too(store, clock, ids, stream_id):
    provider = EnvironmentKeyProvider(environment={})
    first, second = (Keyring(store, provider, clock, ids, content="clear") for _ in range(2))
    key_id = first.subject_key(stream_id, PERSON).key_id
    assert second.subject_key(stream_id, PERSON).key_id == key_id


def test_a_lookup_differs_by_key_encryption_key_tenant_and_person(provider, link_keys):
    other = LinkKeys(provider, provider.new_epoch())
    lookups = {
        link_keys.lookup("default", PERSON),
        link_keys.lookup("north", PERSON),
        link_keys.lookup("default", "bob"),
        other.lookup("default", PERSON),
    }
    assert len(lookups) == 4
    assert link_keys.lookup("default", PERSON) in lookups


def test_a_box_is_a_nonce_and_what_aes_gcm_makes_of_tenant_and_person(provider, link_keys, ids):
    key_id = ids.new("dk")
    box = link_keys.link(key_id, "default", PERSON).box
    cipher = AESGCM(provider.derive(link_keys.kek_id, "subject-box"))
    context = f'["counterfoil/subject/v1","{key_id}"]'.encode()
    assert cipher.decrypt(box[:12], box[12:], context) == f'["default","{PERSON}"]'.encode()


def test_a_lookup_is_the_hmac_of_tenant_and_person(provider, link_keys):
    key = provider.derive(link_keys.kek_id, "subject-lookup")
    text = f'["counterfoil/subject/v1","default","{PERSON}"]'.encode()
    assert link_keys.lookup("default", PERSON) == hmac.digest(key, text, "sha256")


def test_two_boxes_of_one_person_do_not_look_alike(link_keys, ids):
    key_id = ids.new("dk")
    first, second = link_keys.link(key_id, "default", PERSON), link_keys.link(key_id, "default", PERSON)
    assert first.box != second.box
    assert first.lookup == second.lookup


@pytest.mark.parametrize("damage", ["box", "lookup", "key_id", "short box", "empty box", "no bytes"])
def test_a_link_that_was_changed_is_damaged(link_keys, ids, damage):
    link = link_keys.link(ids.new("dk"), "default", PERSON)
    changes = {
        "box": {"box": link.box[:-1] + bytes([link.box[-1] ^ 1])},
        "lookup": {"lookup": bytes(32)},
        "key_id": {"key_id": ids.new("dk")},
        "short box": {"box": link.box[:11]},
        "empty box": {"box": b""},
        "no bytes": {"box": "text"},
    }[damage]
    with pytest.raises(ContentDamaged):
        link_keys.open(replace(link, **changes))


@pytest.mark.parametrize("person", ["x", "名前", "a\x00b", '"]', "x" * 10_000])
def test_any_id_from_outside_can_be_linked(link_keys, ids, person):
    assert link_keys.open(link_keys.link(ids.new("dk"), "default", person)) == ("default", person)
