"""Checks of the directory that a ledger lies in: space, write-ahead log, file system, who may read the keys."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path
from typing import Final

from counterfoil.client.finding import Finding, State

DATABASE: Final = "ledger.db"
SPACE_LEAST_BYTES: Final = 256 * 1024 * 1024
"""Free space below which a ledger is about to stop."""
WAL_MOST_BYTES: Final = 64 * 1024 * 1024
"""A write-ahead log above this is not being checkpointed: a reader has held it for long."""


def of_directory(directory: Path) -> list[Finding]:
    """Every check of a ledger's own directory."""
    return [space(directory), wal(directory), file_system(directory)]


def space(directory: Path) -> Finding:
    """Free space, against the least that writing needs and the size of the database (a copy needs as much)."""
    try:
        free, size = shutil.disk_usage(directory).free, (directory / DATABASE).stat().st_size
    except OSError as error:
        return Finding("free space", "store", "unknown", None, "", f"cannot be read: {error.strerror}")
    if free < SPACE_LEAST_BYTES:
        return Finding(
            "free space", "store", "bad", free, "bytes", "writing is about to stop", "make room on the disk"
        )
    state: State = "warn" if free < size else "ok"
    means = "less than the ledger itself: no room for a copy" if state == "warn" else "room for a copy"
    return Finding(
        "free space", "store", state, free, "bytes", means, "make room on the disk" if state == "warn" else ""
    )


def wal(directory: Path) -> Finding:
    """Size of the write-ahead log, which a checkpoint empties unless a reader holds it."""
    path = directory / f"{DATABASE}-wal"
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        size = 0
    except OSError as error:
        return Finding("write-ahead log", "store", "unknown", None, "", f"cannot be read: {error.strerror}")
    if size > WAL_MOST_BYTES:
        means = "not checkpointed: a reader has held it for long"
        return Finding("write-ahead log", "store", "warn", size, "bytes", means, "end long readers")
    return Finding("write-ahead log", "store", "ok", size, "bytes", "within bounds")


def file_system(directory: Path) -> Finding:
    """Whether the ledger lies on this machine's own disk."""
    from counterfoil.adapters.filesystem.mounts import mount_of, read_mounts

    try:
        mount = mount_of(directory.resolve(), read_mounts())
    except OSError:
        mount = None
    if mount is None:
        return Finding("file system", "store", "unknown", None, "", "the mount table says nothing of it")
    if mount.network:
        means = "a network file system: locks and fsync cannot be trusted"
        return Finding("file system", "store", "bad", mount.type, "", means, "move it to a local disk")
    return Finding("file system", "store", "ok", mount.type, "", "not a network file system")


def kek_modes(kek: Path) -> Finding:
    """Whether the files of key-encryption keys in this directory can be read by their owner alone."""
    name = "key files"
    try:
        files = [path for path in kek.iterdir() if path.is_file()]
        exposed = sum(bool(stat.S_IMODE(path.stat().st_mode) & 0o077) for path in files)
    except OSError as error:
        return Finding(name, "keys", "unknown", None, "", f"kek/ cannot be read: {error.strerror}")
    if exposed:
        means = "keys in kek/ that others than their owner may read"
        return Finding(name, "keys", "bad", exposed, "count", means, "chmod 600 kek/*, then rotate")
    return Finding(name, "keys", "ok", len(files), "count", "in kek/, for their owner alone")
