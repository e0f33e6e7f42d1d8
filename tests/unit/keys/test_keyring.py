"""The keyring: data keys made, found, cached and checked."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from counterfoil.abc import KeyRow
from counterfoil.adapters.memory import MemoryKeyStore
from counterfoil.core.genesis import make_genesis
from counterfoil.core.keyed import KeyMaterial, index_value, key_check
from counterfoil.errors import (
    EpochMoved,
    InternalError,
    InvalidId,
    KeyDamaged,
    KeyMissing,
    KeyStoreMissing,
    KeyWithheld,
    StoreFull,
)
from counterfoil.keys import keyring as keyring_module
from counterfoil.keys.absent import AbsentKeyStore
from counterfoil.keys.environment import EnvironmentKeyProvider
from counterfoil.keys.keyring import CACHE_S, Keyring, index_key_id

LEDGER = "ldg_01J9ZC3Y3V7W2R5T8QK4M6N0PG"


def same_key(first, second):
    """Whether two materials were made of one data key."""
    return first.keyed("probe", [], b"") == second.keyed("probe", [], b"")


def edited(store, key_id, **changes):
    """Change a stored row behind the keyring's back."""
    store._rows.keys[key_id] = replace(store._rows.keys[key_id], **changes)


# ---- making ----


def test_a_new_key_is_in_the_store_when_it_is_handed_out(keyring, store, provider, stream_id):
    material = keyring.new_stream_key(stream_id)
    row = store.get(material.key_id)
    data_key = provider.unwrap(row.kek_id, row.wrapped)
    assert (row.stream_id, row.kek_id) == (stream_id, provider.current())
    assert row.check == key_check(data_key, material.key_id, stream_id)
    assert same_key(material, KeyMaterial(material.key_id, stream_id, data_key))


def test_no_key_is_handed_out_when_the_store_fails(keyring, store, stream_id, monkeypatch):
    def full(keys, subjects=()):
        raise StoreFull("no space")

    monkeypatch.setattr(store, "put", full)
    with pytest.raises(StoreFull):
        keyring.new_stream_key(stream_id)


def test_what_is_no_stream_gets_no_key(keyring, store):
    for make in (keyring.new_stream_key, keyring.index_key, lambda name: keyring.subject_key(name, "ann")):
        with pytest.raises(InvalidId):
            make("not a stream")
    assert store.scan() == []


def test_an_epoch_that_moves_again_and_again_is_given_up(keyring, store, stream_id, monkeypatch):
    tries = []

    def moved(keys, subjects=()):
        tries.append(keys)
        raise EpochMoved("moved, says the test")

    monkeypatch.setattr(store, "put", moved)
    with pytest.raises(EpochMoved, match="5 times"):
        keyring.new_stream_key(stream_id)
    assert len(tries) == 5


def test_every_key_is_another_one(keyring, stream_id):
    first, second = keyring.new_stream_key(stream_id), keyring.new_stream_key(stream_id)
    assert first.key_id != second.key_id
    assert not same_key(first, second)


def test_the_first_key_of_a_new_key_store_begins_the_first_epoch(keyring, store, provider, stream_id):
    assert provider.epochs() == []
    keyring.new_stream_key(stream_id)
    assert provider.epochs() == [store.epochs()["default"]]


def test_a_key_encryption_key_that_is_there_already_is_used(keyring, store, provider, stream_id):
    kek_id = provider.new_epoch()
    keyring.new_stream_key(stream_id)
    assert store.epochs() == {"default": kek_id}
    assert provider.epochs() == [kek_id]


def test_each_tenant_gets_an_epoch_of_its_own(keyring, store, provider, clock, ids, stream_id):
    north = Keyring(store, provider, clock, ids, tenant="north")
    keyring.new_stream_key(stream_id)
    key_id = north.new_stream_key(ids.new("str")).key_id
    epochs = store.epochs()
    assert set(epochs) == {"default", "north"}
    assert epochs["default"] != epochs["north"] == store.get(key_id).kek_id


def test_no_epoch_is_begun_silently_when_the_key_encryption_keys_are_gone(
    keyring, store, provider, clock, ids
):
    keyring.new_stream_key(ids.new("str"))
    for kek_id in provider.epochs():
        (provider.directory / kek_id).unlink()
    for tenant in ("default", "north"):
        with pytest.raises(KeyWithheld):
            Keyring(store, provider, clock, ids, tenant=tenant).new_stream_key(ids.new("str"))
    assert provider.epochs() == []


def test_two_keyrings_that_begin_at_once_agree_on_one_epoch(store, provider, clock, ids, monkeypatch):
    first, second = (Keyring(store, provider, clock, ids) for _ in range(2))
    real = store.replace

    def overtaken(*arguments):
        monkeypatch.setattr(store, "replace", real)
        second.new_stream_key(ids.new("str"))
        real(*arguments)

    monkeypatch.setattr(store, "replace", overtaken)
    first.new_stream_key(ids.new("str"))
    assert len({row.kek_id for row in store.scan()}) == 1
    assert len(store.scan()) == 2


# ---- finding and caching ----


def test_a_key_is_found_by_another_keyring(keyring, store, provider, clock, ids, stream_id):
    made = keyring.new_stream_key(stream_id)
    found = Keyring(store, provider, clock, ids).material(made.key_id)
    assert (found.key_id, found.stream_id) == (made.key_id, stream_id)
    assert same_key(found, made)


def test_a_key_is_unwrapped_once_in_sixty_seconds_however_often_it_is_used(
    keyring, provider, clock, stream_id
):
    key_id = keyring.new_stream_key(stream_id).key_id
    clock.advance(int(CACHE_S * 1000))
    for _ in range(5):
        keyring.material(key_id)
        clock.advance(19_999)
    assert provider.unwrapped == 2
    assert CACHE_S == 60


def test_a_new_key_needs_no_unwrapping(keyring, provider, stream_id):
    keyring.material(keyring.new_stream_key(stream_id).key_id)
    assert provider.unwrapped == 0


def test_a_destroyed_key_opens_nothing_after_sixty_seconds(keyring, store, clock, stream_id):
    key_id = keyring.new_stream_key(stream_id).key_id
    store.delete([key_id])
    clock.advance(int(CACHE_S * 1000))
    with pytest.raises(KeyMissing):
        keyring.material(key_id)


def test_a_clock_set_back_does_not_keep_a_key_longer(keyring, store, clock, stream_id):
    key_id = keyring.new_stream_key(stream_id).key_id
    store.delete([key_id])
    clock.set_wall(clock.now_ms() - 3_600_000)
    clock.advance(int(CACHE_S * 1000))
    with pytest.raises(KeyMissing):
        keyring.material(key_id)


def test_forgetting_drops_every_key_at_once(keyring, store, stream_id):
    key_id = keyring.new_stream_key(stream_id).key_id
    store.delete([key_id])
    keyring.forget()
    with pytest.raises(KeyMissing):
        keyring.material(key_id)


def test_the_cache_is_bounded(keyring, ids, monkeypatch):
    monkeypatch.setattr(keyring_module, "CACHE_KEYS_MAX", 3)
    for _ in range(10):
        keyring.new_stream_key(ids.new("str"))
    assert len(keyring._materials._kept) <= 3


# ---- what may be wrong ----


def test_a_key_that_is_not_in_the_store_is_missing(keyring, ids):
    key_id = ids.new("dk")
    with pytest.raises(KeyMissing) as caught:
        keyring.material(key_id)
    assert caught.value.key_id == key_id


def test_a_key_whose_key_encryption_key_is_not_at_hand_is_withheld(keyring, provider, stream_id):
    key_id = keyring.new_stream_key(stream_id).key_id
    (provider.directory / provider.current()).unlink()
    keyring.forget()
    with pytest.raises(KeyWithheld):
        keyring.material(key_id)


@pytest.mark.parametrize(
    "changes",
    [
        {"wrapped": bytes(40)},
        {"wrapped": b""},
        {"wrapped": "text"},
        {"check": bytes(16)},
        {"check": b""},
        {"check": None},
        {"stream_id": "str_01J9ZC3Y3V7W2R5T8QK4M6N0PS"},
        {"kek_id": ""},
        {"kek_id": "nonsense"},
    ],
)
def test_a_row_that_was_edited_is_damaged(keyring, store, stream_id, changes):
    key_id = keyring.new_stream_key(stream_id).key_id
    keyring.forget()
    edited(store, key_id, **changes)
    with pytest.raises(KeyDamaged):
        keyring.material(key_id)


def test_two_rows_that_were_swapped_are_damaged(keyring, store, ids):
    rows = [store.get(keyring.new_stream_key(ids.new("str")).key_id) for _ in range(2)]
    keyring.forget()
    for row, other in (rows, rows[::-1]):
        edited(store, row.key_id, wrapped=other.wrapped)
    for row in rows:
        with pytest.raises(KeyDamaged):
            keyring.material(row.key_id)


def test_a_row_wrapped_under_the_wrong_key_encryption_key_is_damaged(keyring, store, provider, stream_id):
    key_id = keyring.new_stream_key(stream_id).key_id
    keyring.forget()
    path = provider.directory / provider.current()
    path.write_text("ab" * 32 + "\n")
    with pytest.raises(KeyDamaged):
        keyring.material(key_id)


def genesis_of(stream_id, key_id, content="sealed"):
    return make_genesis(
        ledger=LEDGER, tenant="default", stream_id=stream_id, kind="conversation", key=key_id, content=content
    )


def test_the_stream_key_is_the_one_that_genesis_names(keyring, stream_id):
    material = keyring.new_stream_key(stream_id)
    assert keyring.stream_material(genesis_of(stream_id, material.key_id)) is material


def test_a_stream_key_of_another_stream_is_damaged(keyring, ids, stream_id):
    material = keyring.new_stream_key(ids.new("str"))
    with pytest.raises(KeyDamaged):
        keyring.stream_material(genesis_of(stream_id, material.key_id))


def test_a_key_store_that_is_not_there_is_said_at_every_use(provider, clock, ids, tmp_path, stream_id):
    keyring = Keyring(AbsentKeyStore(tmp_path / "keys.db"), provider, clock, ids)
    for call in (
        lambda: keyring.material(ids.new("dk")),
        lambda: keyring.new_stream_key(stream_id),
        lambda: keyring.subject_key(stream_id, "ann"),
        lambda: keyring.index_key(stream_id),
        lambda: keyring.store.store_id,
    ):
        with pytest.raises(KeyStoreMissing, match=r"keys\.db"):
            call()
    assert provider.epochs() == []


# ---- clear ledgers ----


@pytest.fixture
def clear(store, clock, ids):
    return Keyring(store, EnvironmentKeyProvider(environment={}), clock, ids, content="clear")


def test_a_clear_ledger_keeps_its_keys_unwrapped_and_needs_no_provider(clear, store, stream_id):
    material = clear.new_stream_key(stream_id)
    row = store.get(material.key_id)
    assert row == KeyRow(
        material.key_id, stream_id, "", row.wrapped, key_check(row.wrapped, row.key_id, stream_id)
    )
    assert same_key(material, KeyMaterial(row.key_id, stream_id, row.wrapped))
    clear.forget()
    assert same_key(clear.material(material.key_id), material)


def test_an_edited_key_of_a_clear_ledger_is_damaged(clear, store, stream_id):
    key_id = clear.new_stream_key(stream_id).key_id
    clear.forget()
    for wrapped in (bytes(32), bytes(31), b""):
        edited(store, key_id, wrapped=wrapped)
        with pytest.raises(KeyDamaged):
            clear.material(key_id)


# ---- the tenant's index key ----


def test_the_index_key_is_a_row_under_the_config_stream(keyring, store, provider, stream_id):
    index_key = keyring.index_key(stream_id)
    (row,) = store.of_stream(stream_id)
    assert row.key_id == index_key_id(stream_id)
    assert provider.unwrap(row.kek_id, row.wrapped) == index_key


def test_every_keyring_finds_the_same_index_key(keyring, store, provider, clock, ids, stream_id):
    other = Keyring(store, provider, clock, ids)
    assert keyring.index_key(stream_id) == other.index_key(stream_id) == keyring.index_key(stream_id)
    assert keyring.index("effect", "refund:1") == other.index("effect", "refund:1")


def test_an_index_value_is_that_of_the_format(keyring, stream_id):
    index_key = keyring.index_key(stream_id)
    assert keyring.index("effect", "refund:O-1042:1") == index_value(
        index_key, "effect", "default", "refund:O-1042:1"
    )


def test_index_values_go_on_after_sixty_seconds(keyring, clock, stream_id):
    keyring.index_key(stream_id)
    before = keyring.index("effect", "refund:1")
    clock.advance(10 * int(CACHE_S * 1000))
    assert keyring.index("effect", "refund:1") == before


def test_who_comes_second_takes_the_index_key_of_who_came_first(
    store, provider, clock, ids, stream_id, monkeypatch
):
    first, second = (Keyring(store, provider, clock, ids) for _ in range(2))
    first.new_stream_key(ids.new("str"))
    real, found = store.put, []

    def overtaken(keys, subjects=()):
        monkeypatch.setattr(store, "put", real)
        found.append(second.index_key(stream_id))
        real(keys, subjects)

    monkeypatch.setattr(store, "put", overtaken)
    assert [first.index_key(stream_id)] == found
    assert len(store.of_stream(stream_id)) == 1


def test_an_index_key_that_the_store_does_not_take_is_an_error(keyring, store, stream_id, monkeypatch):
    def refuse(keys, subjects=()):
        raise InternalError("refused, says the test")

    monkeypatch.setattr(store, "put", refuse)
    with pytest.raises(InternalError, match="says the test"):
        keyring.index_key(stream_id)


def test_the_index_key_is_looked_up_once_in_sixty_seconds(keyring, store, provider, clock, stream_id):
    keyring.index_key(stream_id)
    looked_up = provider.unwrapped
    for _ in range(5):
        keyring.index_key(stream_id)
        keyring.index("effect", "refund:1")
    assert provider.unwrapped == looked_up
    clock.advance(int(CACHE_S * 1000))
    keyring.index("effect", "refund:1")
    assert provider.unwrapped == looked_up + 1


def test_an_index_value_before_the_index_key_is_our_own_fault(keyring):
    with pytest.raises(InternalError):
        keyring.index("effect", "refund:1")


def test_a_damaged_index_key_is_not_replaced_by_a_new_one(keyring, store, stream_id):
    keyring.index_key(stream_id)
    keyring.forget()
    edited(store, index_key_id(stream_id), check=bytes(16))
    with pytest.raises(KeyDamaged):
        keyring.index_key(stream_id)


def test_key_stores_of_two_ledgers_have_different_ids():
    assert MemoryKeyStore().store_id != MemoryKeyStore().store_id
