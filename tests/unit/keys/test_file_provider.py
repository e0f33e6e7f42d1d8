"""Key-encryption keys in files."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from counterfoil.abc import EpochKeyProvider
from counterfoil.errors import InternalError, KeyDamaged, KeyWithheld
from counterfoil.keys import wrapping
from counterfoil.keys.file_provider import FileKeyProvider
from counterfoil.testing import SequentialIds

DATA_KEY = bytes(range(32))


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_epoch_is_a_file_of_64_hex_and_lf_that_only_the_owner_reads(provider):
    before = os.umask(0)
    try:
        kek_id = provider.new_epoch()
    finally:
        os.umask(before)
    path = provider.directory / kek_id
    text = path.read_bytes()
    assert len(text) == 65
    assert bytes.fromhex(text[:64].decode()).hex().encode() + b"\n" == text
    assert (mode_of(path), mode_of(provider.directory)) == (0o600, 0o700)
    assert list(provider.directory.iterdir()) == [path]


def test_two_epochs_have_different_keys(provider):
    first, second = provider.new_epoch(), provider.new_epoch()
    assert (provider.directory / first).read_bytes() != (provider.directory / second).read_bytes()


def test_the_newest_epoch_is_the_current_one(provider):
    epochs = [provider.new_epoch() for _ in range(3)]
    assert provider.epochs() == epochs
    assert provider.current() == epochs[2]


def test_a_clock_that_went_back_does_not_mint_an_older_epoch(tmp_path):
    first = FileKeyProvider(tmp_path / "kek", SequentialIds(time_ms=2_000_000_000_000)).new_epoch()
    provider = FileKeyProvider(tmp_path / "kek", SequentialIds(time_ms=1_000_000_000_000))
    second = provider.new_epoch()
    assert second > first
    assert provider.current() == second


def test_epochs_begun_at_once_on_a_clock_that_went_back_are_keys_of_their_own(tmp_path):
    FileKeyProvider(tmp_path / "kek", SequentialIds(time_ms=2_000_000_000_000)).new_epoch()
    gate, made = threading.Barrier(8), []

    def begin():
        provider = FileKeyProvider(tmp_path / "kek", SequentialIds(time_ms=1_000_000_000_000))
        gate.wait()
        for _ in range(4):
            kek_id = provider.new_epoch()
            made.append((kek_id, provider.hand_out(kek_id)))

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({kek_id for kek_id, _ in made}) == len({text for _, text in made}) == 32
    provider = FileKeyProvider(tmp_path / "kek", SequentialIds())
    assert all(provider.hand_out(kek_id) == text for kek_id, text in made)
    assert len(list(provider.directory.iterdir())) == 33


def test_a_key_taken_in_beside_what_a_crash_left_of_it_is_whole(provider, tmp_path, ids):
    kek_id = provider.new_epoch()
    other = FileKeyProvider(tmp_path / "other", ids)
    other.new_epoch()
    (other.directory / f".{kek_id}.new").write_bytes(b"half")
    other.take_in(kek_id, provider.hand_out(kek_id))
    assert other.hand_out(kek_id) == provider.hand_out(kek_id)


def test_a_data_key_is_wrapped_under_the_key_in_the_file(provider):
    kek_id = provider.new_epoch()
    kek = bytes.fromhex((provider.directory / kek_id).read_text().strip())
    assert provider.wrap(kek_id, DATA_KEY) == wrapping.wrap(kek, DATA_KEY)
    assert provider.unwrap(kek_id, provider.wrap(kek_id, DATA_KEY)) == DATA_KEY
    assert provider.derive(kek_id, "subject-box") == wrapping.derive(kek, "subject-box")


def test_a_copied_directory_opens_what_the_first_one_wrapped(provider, tmp_path, ids):
    kek_id = provider.new_epoch()
    wrapped = provider.wrap(kek_id, DATA_KEY)
    provider.directory.rename(tmp_path / "moved")
    assert FileKeyProvider(tmp_path / "moved", ids).unwrap(kek_id, wrapped) == DATA_KEY


def test_nothing_is_made_by_looking(provider):
    assert provider.epochs() == []
    with pytest.raises(KeyWithheld):
        provider.current()
    assert not provider.directory.exists()


def test_a_key_that_is_not_at_hand_is_withheld(provider, ids):
    kek_id = provider.new_epoch()
    wrapped = provider.wrap(kek_id, DATA_KEY)
    (provider.directory / kek_id).unlink()
    for call in (lambda: provider.unwrap(kek_id, wrapped), lambda: provider.wrap(ids.new("kek"), DATA_KEY)):
        with pytest.raises(KeyWithheld) as caught:
            call()
        assert str(provider.directory) in str(caught.value)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o601, 0o604])
def test_a_key_that_others_can_reach_is_refused(provider, mode):
    kek_id = provider.new_epoch()
    path = provider.directory / kek_id
    path.chmod(mode)
    with pytest.raises(KeyWithheld, match="others"):
        provider.wrap(kek_id, DATA_KEY)
    path.chmod(0o400)
    provider.wrap(kek_id, DATA_KEY)


@pytest.mark.parametrize("mode", [0o770, 0o720, 0o702, 0o777])
def test_a_directory_that_others_can_write_is_refused(provider, mode):
    kek_id = provider.new_epoch()
    provider.directory.chmod(mode)
    with pytest.raises(KeyWithheld, match="written by others"):
        provider.wrap(kek_id, DATA_KEY)
    provider.directory.chmod(0o755)
    provider.wrap(kek_id, DATA_KEY)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"ab" * 32,
        b"ab" * 32 + b"\r\n",
        b"ab" * 32 + b"\n\n",
        b"AB" * 32 + b"\n",
        b"ab" * 31 + b"\n",
        b"ab" * 33 + b"\n",
        b"xy" * 32 + b"\n",
        bytes(65),
    ],
)
def test_a_file_of_another_form_is_damaged(provider, text):
    kek_id = provider.new_epoch()
    (provider.directory / kek_id).write_bytes(text)
    with pytest.raises(KeyDamaged, match="64 hex"):
        provider.wrap(kek_id, DATA_KEY)


@pytest.mark.parametrize("kek_id", ["", "../secret", "dk_01J9ZC3Y3V7W2R5T8QK4M6N0PK", "kek_short"])
def test_what_is_no_id_is_never_made_into_a_path(provider, kek_id):
    provider.new_epoch()
    with pytest.raises(KeyDamaged):
        provider.unwrap(kek_id, bytes(40))


def test_other_files_in_the_directory_are_no_epochs(provider):
    kek_id = provider.new_epoch()
    for name in ("README", ".kek_01ZZZZZZZZZZZZZZZZZZZZZZZZ.new", "kek_lower", "zzz"):
        (provider.directory / name).write_text("not a key")
    assert provider.epochs() == [kek_id]


def test_a_crash_before_the_name_appears_leaves_no_epoch(provider, monkeypatch):
    first = provider.new_epoch()

    def crash(handle):
        raise OSError(5, "input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", crash)
        with pytest.raises(KeyWithheld):
            provider.new_epoch()
    assert provider.epochs() == [first]
    assert len(list(provider.directory.iterdir())) == 1


def test_the_key_and_then_its_name_are_synced(provider, monkeypatch):
    provider.new_epoch()
    synced = []
    real = os.fsync

    def watch(handle):
        synced.append((stat.S_ISDIR(os.fstat(handle).st_mode), len(provider.epochs())))
        real(handle)

    monkeypatch.setattr(os, "fsync", watch)
    provider.new_epoch()
    assert synced == [(False, 1), (True, 2)]


def test_a_new_directory_is_synced_in_its_parent(provider, monkeypatch):
    synced, real = [], os.fsync

    def watch(handle):
        synced.append(os.fstat(handle).st_ino)
        real(handle)

    monkeypatch.setattr(os, "fsync", watch)
    kek_id = provider.new_epoch()
    wanted = (provider.directory.parent, provider.directory / kek_id, provider.directory)
    assert synced == [path.stat().st_ino for path in wanted]


def test_a_disk_that_takes_half_a_key_leaves_none(provider, monkeypatch):
    monkeypatch.setattr(os, "write", lambda handle, text: len(text) - 1)
    with pytest.raises(KeyWithheld):
        provider.new_epoch()
    assert list(provider.directory.iterdir()) == []


def test_no_file_stays_open(provider):
    def used():
        kek_id = provider.new_epoch()
        provider.wrap(kek_id, DATA_KEY)
        return len(list(Path("/dev/fd").iterdir()))

    assert used() == used()


def test_a_destroyed_key_is_gone_and_the_others_stay(provider):
    epochs = [provider.new_epoch() for _ in range(3)]
    wrapped = provider.wrap(epochs[0], DATA_KEY)
    provider.destroy(epochs[0])
    provider.destroy(epochs[0])
    assert provider.epochs() == epochs[1:]
    with pytest.raises(KeyWithheld):
        provider.unwrap(epochs[0], wrapped)


def test_the_bytes_of_a_destroyed_key_are_overwritten_and_its_name_is_taken_away(
    provider, tmp_path, monkeypatch
):
    kek_id = provider.new_epoch()
    provider.new_epoch()
    (tmp_path / "another name").hardlink_to(provider.directory / kek_id)
    synced, real = [], os.fsync

    def watch(handle):
        synced.append((stat.S_ISDIR(os.fstat(handle).st_mode), len(provider.epochs())))
        real(handle)

    monkeypatch.setattr(os, "fsync", watch)
    provider.destroy(kek_id)
    assert (tmp_path / "another name").read_bytes() == b"0" * 64 + b"\n"
    assert synced == [(False, 2), (True, 1)]


def test_a_key_that_cannot_be_destroyed_is_said(provider, monkeypatch):
    kek_id = provider.new_epoch()
    provider.new_epoch()

    def fail(handle):
        raise OSError(5, "input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(KeyWithheld, match="input/output error"):
        provider.destroy(kek_id)


def test_a_place_that_is_no_directory_is_withheld(tmp_path, ids):
    place = tmp_path / "kek"
    place.write_text("not a directory")
    provider = FileKeyProvider(place, ids)
    for call in (provider.current, provider.new_epoch):
        with pytest.raises(KeyWithheld):
            call()


def test_the_current_key_is_not_destroyed(provider):
    kek_id = provider.new_epoch()
    with pytest.raises(InternalError):
        provider.destroy(kek_id)
    assert provider.epochs() == [kek_id]


def test_a_provider_beside_the_data_says_that_copies_are_not_covered(provider, tmp_path, ids):
    assert provider.arrangement() == "not_covered"
    assert FileKeyProvider(tmp_path, ids, arrangement="covered").arrangement() == "covered"


def test_it_can_make_and_destroy_epochs(provider):
    assert isinstance(provider, EpochKeyProvider)


def test_the_name_of_a_key_that_another_process_made_is_durable_before_it_is_used(provider, monkeypatch):
    kek_id, synced, real = provider.new_epoch(), [], os.fsync

    def watch(handle):
        synced.append(os.fstat(handle).st_ino)
        real(handle)

    monkeypatch.setattr(os, "fsync", watch)
    assert provider.current() == kek_id
    assert synced == [provider.directory.stat().st_ino]


def test_a_directory_that_cannot_be_synced_has_no_current_key(provider, monkeypatch):
    provider.new_epoch()

    def broken(handle):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(KeyWithheld, match="Input/output error"):
        provider.current()


def test_a_pipe_with_the_name_of_a_key_is_not_waited_for(provider):
    kek_id = provider.new_epoch()
    path = provider.directory / kek_id
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(KeyDamaged, match="no file of its own"):
        provider.unwrap(kek_id, b"x" * 40)


def test_without_hard_links_a_key_is_made_and_none_is_written_over(provider, monkeypatch):
    def refused(*_names):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    first = provider.new_epoch()
    text = provider.hand_out(first)
    provider.take_in(first, text)
    with pytest.raises(KeyDamaged, match="another key"):
        provider.take_in(first, b"0" * 64 + b"\n")
    monkeypatch.setattr(provider, "epochs", list)
    with pytest.raises(KeyDamaged, match="another key"):
        provider.take_in(first, b"0" * 64 + b"\n")
    assert provider.hand_out(first) == text


def test_a_key_that_cannot_be_destroyed_is_to_be_destroyed_again(provider, monkeypatch):
    former, _current = provider.new_epoch(), provider.new_epoch()

    def full(_handle):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(KeyWithheld, match="may be overwritten already") as told:
            provider.destroy(former)
    assert f"keys destroy {former}" in told.value.hint
    provider.destroy(former)
    assert former not in provider.epochs()
