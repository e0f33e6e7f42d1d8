"""Rotation: all keys under a new key-encryption key, so that the old one can be destroyed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from counterfoil.abc import KeyRow
from counterfoil.errors import EpochMoved, InternalError, KeyDamaged, KeyWithheld, StoreIO
from counterfoil.keys.environment import VARIABLE, EnvironmentKeyProvider
from counterfoil.keys.inspection import inspect
from counterfoil.keys.keyring import Keyring
from counterfoil.keys.rotation import Rotation, destroy_epoch, rotate


@pytest.fixture
def filled(keyring, ids):
    """Five streams with a key and a person each, and an index key."""
    for number in range(5):
        stream_id = ids.new("str")
        keyring.new_stream_key(stream_id)
        keyring.subject_key(stream_id, f"person {number % 2}")
    keyring.index_key(ids.new("str"))
    return keyring


def data_keys(keyring):
    return {row.key_id: keyring.unwrap(row) for row in keyring.store.scan()}


def test_every_key_and_link_is_under_the_new_epoch_and_still_the_same(filled, store, provider):
    before, epoch = data_keys(filled), filled.epoch()
    rotation = rotate(filled)
    assert rotation == Rotation(epoch, provider.current(), len(before))
    assert store.epochs() == {"default": provider.current()}
    assert {row.kek_id for row in store.scan()} == {provider.current()}
    assert {link.kek_id for _, link in store.scan_subjects()} == {provider.current()}
    assert data_keys(filled) == before
    assert list(inspect(filled)) == []


def test_every_wrapping_lookup_and_box_is_another_one(filled, store):
    keys, links = store.scan(), store.scan_subjects()
    rotate(filled)
    for old, new in zip(keys, store.scan(), strict=True):
        assert (old.key_id, old.stream_id, old.check) == (new.key_id, new.stream_id, new.check)
        assert old.wrapped != new.wrapped
    for (place, old), (new_place, new) in zip(links, store.scan_subjects(), strict=True):
        assert (place, old.key_id) == (new_place, new.key_id)
        assert old.lookup != new.lookup
        assert old.box != new.box


def test_an_older_copy_of_the_key_store_opens_nothing_once_the_epoch_is_destroyed(filled, store, provider):
    copy = store.scan()
    destroy_epoch(filled, rotate(filled).epoch_from)
    for row in copy:
        with pytest.raises(KeyWithheld):
            filled.unwrap(row)
    assert len(provider.epochs()) == 1
    assert list(inspect(filled)) == []


def test_nothing_derived_from_a_destroyed_epoch_is_kept(filled):
    epoch = filled.epoch()
    filled.link_keys(epoch)
    rotate(filled)
    destroy_epoch(filled, epoch)
    with pytest.raises(KeyWithheld):
        filled.link_keys(epoch)


def test_a_store_that_keeps_other_bytes_than_it_was_given_is_found_out(filled, store, monkeypatch):
    real = store.replace

    def careless(tenant, epoch, keys, subjects):
        real(tenant, epoch, [replace(key, wrapped=bytes(40)) for key in keys], subjects)

    monkeypatch.setattr(store, "replace", careless)
    with pytest.raises(KeyDamaged):
        rotate(filled)


def test_an_epoch_in_use_is_not_destroyed(filled, provider):
    epoch = filled.epoch()
    provider.new_epoch()
    with pytest.raises(InternalError):
        destroy_epoch(filled, epoch)
    assert epoch in provider.epochs()


def test_an_epoch_with_a_key_left_under_it_is_not_destroyed(filled, store, ids):
    epoch = rotate(filled).epoch_from
    left = KeyRow(ids.new("dk"), ids.new("str"), epoch, bytes(40), bytes(16))
    store._rows.keys[left.key_id] = left
    with pytest.raises(InternalError):
        destroy_epoch(filled, epoch)


def test_other_tenants_keep_their_epoch(filled, store, provider, clock, ids):
    north = Keyring(store, provider, clock, ids, tenant="north")
    key_id = north.new_stream_key(ids.new("str")).key_id
    row = store.get(key_id)
    rotate(filled)
    assert store.get(key_id) == row
    assert store.epochs()["north"] == row.kek_id
    rotate(north)
    assert len(set(store.epochs().values())) == 2


def test_a_key_made_while_the_epoch_is_rotated_is_taken_along(
    filled, store, provider, clock, ids, monkeypatch
):
    other, real, made = Keyring(store, provider, clock, ids), store.replace, []

    def overtaken(*arguments):
        monkeypatch.setattr(store, "replace", real)
        made.append(other.new_stream_key(ids.new("str")).key_id)
        real(*arguments)

    monkeypatch.setattr(store, "replace", overtaken)
    rotation = rotate(filled)
    assert store.get(made[0]).kek_id == rotation.epoch_to
    assert rotation.keys == len(store.scan())


def test_a_rotation_that_is_overtaken_again_and_again_gives_up(filled, store, monkeypatch):
    def moved(*arguments):
        raise EpochMoved("overtaken, says the test")

    before = store.scan()
    monkeypatch.setattr(store, "replace", moved)
    with pytest.raises(EpochMoved):
        rotate(filled)
    assert store.scan() == before


def test_a_keyring_that_has_not_noticed_a_rotation_wraps_under_the_new_epoch(
    filled, store, provider, clock, ids
):
    other = Keyring(store, provider, clock, ids)
    other.new_stream_key(ids.new("str"))
    rotation = rotate(filled)
    destroy_epoch(filled, rotation.epoch_from)
    key_id = other.new_stream_key(ids.new("str")).key_id
    assert store.get(key_id).kek_id == rotation.epoch_to


def test_a_rotation_that_failed_before_it_was_recorded_leaves_the_old_epoch(
    filled, store, provider, monkeypatch
):
    def broken(*arguments):
        raise StoreIO("broken, says the test")

    keys, epoch = store.scan(), filled.epoch()
    with monkeypatch.context() as patched:
        patched.setattr(store, "replace", broken)
        with pytest.raises(StoreIO):
            rotate(filled)
    assert (store.scan(), filled.epoch()) == (keys, epoch)
    unused = provider.current()
    assert rotate(filled).epoch_to == unused
    assert provider.epochs() == [epoch, unused]


def test_a_damaged_key_stops_the_rotation_before_anything_is_changed(filled, store):
    row = store.scan()[3]
    store._rows.keys[row.key_id] = KeyRow(row.key_id, row.stream_id, row.kek_id, bytes(40), row.check)
    before = store.scan()
    with pytest.raises(KeyDamaged):
        rotate(filled)
    assert store.scan() == before


def test_many_keys_are_rotated_page_by_page(keyring, store, ids, monkeypatch):
    monkeypatch.setattr("counterfoil.keys.rotation.PAGE_ROWS", 3)
    for _ in range(10):
        keyring.new_stream_key(ids.new("str"))
    assert rotate(keyring).keys == 10


def test_a_provider_that_makes_no_keys_rotates_to_the_one_it_was_given(store, clock, ids):
    old, new = "kek_01J9ZC3Y3V7W2R5T8QK4M6N0PK", "kek_01J9ZC3Y3V7W2R5T8QK4M6N0PM"
    environment = {VARIABLE: f"{old}={'ab' * 32}"}
    keyring = Keyring(store, EnvironmentKeyProvider(environment=environment), clock, ids)
    key_id = keyring.new_stream_key(ids.new("str")).key_id
    with pytest.raises(KeyWithheld, match="in use"):
        rotate(keyring)
    environment[VARIABLE] += f",{new}={'cd' * 32}"
    assert rotate(keyring) == Rotation(old, new, 1)
    with pytest.raises(InternalError):
        destroy_epoch(keyring, old)
    environment[VARIABLE] = f"{new}={'cd' * 32}"
    keyring.forget()
    keyring.material(key_id)


def test_a_clear_ledger_has_nothing_to_rotate(store, provider, clock, ids):
    with pytest.raises(InternalError):
        rotate(Keyring(store, provider, clock, ids, content="clear"))


def before_replacing(store, monkeypatch, act):
    """Have ``act`` done once, just before the next replacement is looked at by the key store."""
    real = store.replace

    def overtaken(*arguments):
        monkeypatch.setattr(store, "replace", real)
        act()
        real(*arguments)

    monkeypatch.setattr(store, "replace", overtaken)


def test_a_rotation_that_others_overtook_does_not_lead_back_to_a_key_they_destroyed(
    filled, store, provider, clock, ids, monkeypatch
):
    keys, other = data_keys(filled), Keyring(store, provider, clock, ids)

    def rotated_twice():
        first = rotate(other)
        assert rotate(other).epoch_from == first.epoch_to
        destroy_epoch(other, first.epoch_to)

    before_replacing(store, monkeypatch, rotated_twice)
    done = rotate(filled)
    filled.forget()
    assert store.epochs() == {"default": done.epoch_to}
    assert data_keys(filled) == keys
    assert list(inspect(filled)) == []


def test_of_two_rotations_at_once_both_are_done_one_after_the_other(
    filled, store, provider, clock, ids, monkeypatch
):
    first = []
    before_replacing(store, monkeypatch, lambda: first.append(rotate(Keyring(store, provider, clock, ids))))
    second = rotate(filled)
    assert second.epoch_from == first[0].epoch_to
    assert second.keys == first[0].keys == len(store.scan())


def test_two_tenants_that_rotate_at_once_keep_keys_of_their_own(
    filled, store, provider, clock, ids, monkeypatch
):
    north = Keyring(store, provider, clock, ids, tenant="north")
    person = north.subject_key(stream_id := ids.new("str"), "ann").key_id
    before_replacing(store, monkeypatch, lambda: rotate(north))
    rotate(filled)
    assert len(set(store.epochs().values())) == 2
    assert list(inspect(filled)) == []
    assert Keyring(store, provider, clock, ids, tenant="north").subject_key(stream_id, "ann").key_id == person


def test_two_tenants_that_begin_at_once_begin_with_keys_of_their_own(
    store, provider, clock, ids, monkeypatch
):
    north, south = (Keyring(store, provider, clock, ids, tenant=tenant) for tenant in ("north", "south"))
    before_replacing(store, monkeypatch, north.epoch)
    assert south.epoch() != north.epoch()


def test_who_began_an_epoch_first_but_is_slower_takes_the_greater_one_that_is_there(
    store, provider, clock, ids, monkeypatch
):
    slow, quick = Keyring(store, provider, clock, ids), Keyring(store, provider, clock, ids)

    def quicker():
        store.replace("default", provider.new_epoch(), [], [])

    before_replacing(store, monkeypatch, quicker)
    assert slow.epoch() == quick.epoch() == provider.current()


@pytest.mark.parametrize("what", ["empty", "directory", "of others"])
def test_what_is_no_key_does_not_become_the_first_epoch(keyring, store, provider, stream_id, what):
    kek_id = provider.new_epoch()
    path = provider.directory / kek_id
    if what == "of others":
        path.chmod(0o644)
    else:
        path.unlink()
        path.mkdir() if what == "directory" else path.touch(mode=0o600)
    with pytest.raises((KeyWithheld, KeyDamaged), match=kek_id):
        keyring.new_stream_key(stream_id)
    assert store.epochs() == {}


def test_a_person_keeps_one_key_when_a_rotation_comes_between_two_who_need_it(
    store, provider, clock, ids, stream_id, monkeypatch
):
    first, second = Keyring(store, provider, clock, ids), Keyring(store, provider, clock, ids)
    real, keys = store.put, []

    def overtaken(*arguments):
        monkeypatch.setattr(store, "put", real)
        keys.append(second.subject_key(stream_id, "ann").key_id)
        real(*arguments)
        destroy_epoch(second, rotate(second).epoch_from)

    first.epoch()
    monkeypatch.setattr(store, "put", overtaken)
    keys.append(first.subject_key(stream_id, "ann").key_id)
    assert keys[0] == keys[1]
    assert [row.key_id for row in store.of_stream(stream_id)] == keys[:1]


def test_a_key_that_is_rotated_while_it_is_read_is_read_again(filled, store, provider, monkeypatch):
    row, real = store.scan()[0], store.get

    def overtaken(key_id):
        found = real(key_id)
        monkeypatch.setattr(store, "get", real)
        destroy_epoch(filled, rotate(filled).epoch_from)
        return found

    filled.forget()
    monkeypatch.setattr(store, "get", overtaken)
    assert filled.material(row.key_id).key_id == row.key_id
