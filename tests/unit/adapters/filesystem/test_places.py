"""Whether a directory can hold a ledger."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

import pytest

from counterfoil.adapters.filesystem.mounts import Mount
from counterfoil.adapters.filesystem.place import (
    FREE_BYTES_MIN,
    check_place,
    check_room,
    file_error,
    free_bytes_of,
    make_directory,
    refuse_network,
)
from counterfoil.errors import (
    ConfigInvalid,
    LedgerNotFound,
    NetworkFileSystem,
    StoreFull,
    StoreIO,
    StoreReadOnly,
)


def test_a_directory_on_a_network_is_refused_naming_type_and_mount(tmp_path):
    with pytest.raises(NetworkFileSystem) as refused:
        refuse_network(tmp_path, lambda: [Mount("/", "ext4"), Mount(str(tmp_path.parent), "nfs4")])
    assert (refused.value.type, refused.value.mount) == ("nfs4", str(tmp_path.parent))
    assert "local disk" in refused.value.hint


def test_a_link_to_a_directory_on_a_network_is_refused(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "near").symlink_to(tmp_path / "far")
    with pytest.raises(NetworkFileSystem):
        refuse_network(tmp_path / "near", lambda: [Mount("/", "ext4"), Mount(str(tmp_path / "far"), "cifs")])


def test_a_local_directory_is_accepted(tmp_path):
    check_place(tmp_path, write=True)


def test_a_directory_that_is_not_there_is_not_found(tmp_path):
    with pytest.raises(LedgerNotFound):
        check_place(tmp_path / "nowhere", write=False)


def test_a_directory_is_made_with_its_parents_for_its_owner_alone(tmp_path):
    make_directory(tmp_path / "a" / "b")
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700


def test_a_file_in_the_place_of_the_directory_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigInvalid, match="is a file"):
        make_directory(tmp_path / "file")


def test_a_place_below_a_file_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreIO, match="cannot make the directory"):
        make_directory(tmp_path / "file" / "ledger")


def test_too_little_room_for_a_new_ledger_is_said_with_the_numbers(tmp_path):
    with pytest.raises(StoreFull) as refused:
        check_room(tmp_path, lambda _: FREE_BYTES_MIN - 1)
    assert refused.value.free_bytes == FREE_BYTES_MIN - 1
    check_room(tmp_path, lambda _: FREE_BYTES_MIN)


def test_free_bytes_are_what_the_file_system_says(tmp_path):
    assert free_bytes_of(tmp_path) > 0


@pytest.mark.parametrize(
    "number,kind",
    [
        (errno.ENOSPC, StoreFull),
        (errno.EDQUOT, StoreFull),
        (errno.EACCES, StoreReadOnly),
        (errno.EROFS, StoreReadOnly),
        (errno.EIO, StoreIO),
    ],
)
def test_an_error_of_the_system_becomes_ours_with_a_way_out(number, kind):
    error = file_error(OSError(number, "said the system"), Path("/data/ledger"), "make")
    assert isinstance(error, kind)
    assert "cannot make /data/ledger: said the system" in str(error)
    assert error.hint
