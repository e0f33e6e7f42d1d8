"""Whether a directory can hold a ledger: local, writable, with room; each refusal is its own error."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from counterfoil.adapters.filesystem.mounts import Mount, mount_of, read_mounts
from counterfoil.errors import (
    ConfigInvalid,
    LedgerNotFound,
    NetworkFileSystem,
    StoreError,
    StoreFull,
    StoreIO,
    StoreReadOnly,
)

FREE_BYTES_MIN = 8 * 1024 * 1024
"""A new ledger needs this much room: less is gone with the first checkpoint."""

DIRECTORY_MODE = 0o700
"""Mode of a directory made for a ledger: headers are readable, and the keys lie beside them by default."""

MountTable = Callable[[], list[Mount]]


def refuse_network(directory: Path, mounts: MountTable = read_mounts) -> None:
    """Raise :class:`NetworkFileSystem` when the directory does not lie on this machine (DESIGN 4)."""
    where = directory.resolve()
    mount = mount_of(where, mounts())
    if mount is not None and mount.network:
        raise NetworkFileSystem(
            f"{where} lies on a network file system ({mount.type} at {mount.point}), "
            "where locks and fsync cannot be trusted",
            path=str(where),
            type=mount.type,
            mount=mount.point,
        )


def make_directory(directory: Path) -> None:
    """Make the directory with its parents, durable in its parent; an existing one is left as it is."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    try:
        for path in reversed(missing):
            path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
            sync_directory(path.parent)
    except OSError as error:
        raise file_error(error, directory, "make the directory") from error
    if not directory.is_dir():
        raise ConfigInvalid(f"{directory} is a file, not a directory", path=str(directory))


def check_place(directory: Path, *, write: bool, mounts: MountTable = read_mounts) -> None:
    """Refuse a directory that is missing, not on this machine or, for writing, not writable."""
    if not directory.is_dir():
        raise LedgerNotFound(f"there is no directory {directory}", path=str(directory))
    refuse_network(directory, mounts)
    if write and not writable(directory):
        raise StoreReadOnly(
            f"the directory {directory} cannot be written by this user",
            hint="open the ledger with read_only=True, or give this user write permission on the directory",
            path=str(directory),
        )


def check_room(directory: Path, free_bytes: Callable[[Path], int] | None = None) -> None:
    """Raise :class:`StoreFull` when a new ledger would have no room."""
    free = (free_bytes or free_bytes_of)(directory)
    if free < FREE_BYTES_MIN:
        raise StoreFull(
            f"{directory} has {free} bytes free; a ledger needs at least {FREE_BYTES_MIN}",
            path=str(directory),
            free_bytes=free,
        )


def free_bytes_of(directory: Path) -> int:
    """Bytes that this user may still write here."""
    state = os.statvfs(directory)
    return state.f_bavail * state.f_frsize


def writable(directory: Path) -> bool:
    """Whether this user may make files here; a file system mounted read-only says no to everybody."""
    if os.statvfs(directory).f_flag & os.ST_RDONLY:
        return False
    return os.access(directory, os.W_OK | os.X_OK)


def sync_directory(directory: Path) -> None:
    """Make names in this directory durable (a new file is lost in a crash without it)."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def file_error(error: OSError, path: Path, doing: str) -> StoreError:
    """The error of our tree for one of the operating system; ``doing`` completes "cannot … PATH"."""
    said = f"cannot {doing} {path}: {error.strerror or error}"
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        return StoreFull(said, path=str(path))
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return StoreReadOnly(
            said, hint="give this user write permission, or open with read_only=True", path=str(path)
        )
    return StoreIO(said, hint="see the system's log for the device, then try again", path=str(path))
