"""Artifacts as files of a local directory: temporary file, fsync, rename, fsync of the directory (DESIGN 9).

An object lies at ``<first two hex>/<name>``, mode 0600, in a directory that only its owner may read. A name is hex
and nothing else, so nothing from outside ever names a file. What is under way lies in ``incoming/`` and holds only
what the caller wrote, which is encrypted or public.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from counterfoil.adapters.filesystem.place import DIRECTORY_MODE, file_error, make_directory, sync_directory
from counterfoil.core.forms import is_digest
from counterfoil.errors import ArtifactUnavailable, InvalidForm, StoreClosed, StoreReadOnly

FILE_MODE: Final = 0o600
PIECE_BYTES: Final = 1024 * 1024
INCOMING: Final = "incoming"
PREFIX_HEX: Final = 2

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
# Opening a pipe that somebody put in an object's place must not hang.
_OLD: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class FileArtifacts:
    """Implements :class:`counterfoil.abc.ArtifactStore` over a directory, which is made with the first object."""

    def __init__(self, directory: Path, *, read_only: bool = False) -> None:
        self._directory = directory
        self._read_only = read_only
        self._closed = False

    @property
    def directory(self) -> Path:
        """Where the files lie; made with the first of them."""
        return self._directory

    def upload(self) -> FileUpload:
        """See ``ArtifactStore.upload``."""
        self._check()
        if self._read_only:
            raise StoreReadOnly(
                f"the artifacts in {self._directory} were opened for reading",
                hint="open the ledger without read_only",
                path=str(self._directory),
            )
        make_directory(self._directory / INCOMING)
        return FileUpload(self._directory)

    def read(self, name: str) -> Iterator[bytes]:
        """See ``ArtifactStore.read``."""
        self._check(name)
        path = self._path(name)
        try:
            handle = os.open(path, _OLD)
        except OSError as error:
            raise _unreadable(error, path, name) from error
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise _missing(name, "what lies in its place is no plain file")
            while piece := _read(handle, path):
                yield piece
        finally:
            os.close(handle)

    def size(self, name: str) -> int | None:
        """See ``ArtifactStore.size``."""
        self._check(name)
        return _plain_size(self._path(name))

    def names(self, after: str = "", limit: int = 1000) -> list[str]:
        """See ``ArtifactStore.names``."""
        self._check()
        found: list[str] = []
        for prefix in _listed(self._directory):
            if len(prefix) == PREFIX_HEX and prefix >= after[:PREFIX_HEX]:
                found += [
                    name for name in _listed(self._directory / prefix) if name > after and is_digest(name)
                ]
            if len(found) >= limit:
                break
        return found[:limit]

    def delete(self, name: str) -> bool:
        """See ``ArtifactStore.delete``."""
        self._check(name)
        path = self._path(name)
        try:
            path.unlink()
            sync_directory(path.parent)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise file_error(error, path, "remove the object") from error
        return True

    def sweep(self, older_than_s: float) -> int:
        """See ``ArtifactStore.sweep``."""
        self._check()
        incoming, count = self._directory / INCOMING, 0
        for name in _listed(incoming):
            path = incoming / name
            with contextlib.suppress(FileNotFoundError):
                # The file system dates files by its own clock, so that clock is asked here too.
                if time.time() - path.lstat().st_mtime >= older_than_s:
                    path.unlink()
                    count += 1
        return count

    def close(self) -> None:
        """See ``ArtifactStore.close``."""
        self._closed = True

    def _path(self, name: str) -> Path:
        return self._directory / name[:PREFIX_HEX] / name

    def _check(self, name: str | None = None) -> None:
        if self._closed:
            raise StoreClosed("the artifact store is closed")
        if name is not None and not is_digest(name):
            raise InvalidForm("an object's name is 64 lower-case hex", argument="name")


class FileUpload:
    """Implements :class:`counterfoil.abc.ArtifactUpload` with a temporary file that is renamed when it is durable."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / INCOMING / secrets.token_hex(16)
        self._digest = hashlib.sha256()
        try:
            self._handle: int | None = os.open(self._path, _NEW, FILE_MODE)
        except OSError as error:
            raise file_error(error, self._path, "make the temporary file") from error

    def write(self, data: bytes) -> None:
        """See ``ArtifactUpload.write``."""
        handle, rest = self._open(), memoryview(data)
        self._digest.update(data)
        try:
            while rest:
                rest = rest[os.write(handle, rest) :]
        except OSError as error:
            raise file_error(error, self._path, "write the temporary file") from error

    def commit(self) -> str:
        """See ``ArtifactUpload.commit``."""
        handle, name = self._open(), self._digest.hexdigest()
        place = self._directory / name[:PREFIX_HEX]
        try:
            os.fsync(handle)
            os.close(handle)
            self._handle = None
            place.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
            # Over an object of this name too: it has the same bytes, unless it was damaged, and then this mends it.
            self._path.replace(place / name)
            sync_directory(place)
            # The directory may be new, also by a process that died before it could make it durable.
            sync_directory(self._directory)
        except OSError as error:
            self.discard()
            raise file_error(error, place / name, "store the object") from error
        return name

    def discard(self) -> None:
        """See ``ArtifactUpload.discard``."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)
        with contextlib.suppress(OSError):
            # A leftover is harmless and swept later; what happened before it is what the caller must hear of.
            self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    def _open(self) -> int:
        if self._handle is None:
            raise StoreClosed("this upload has ended")
        return self._handle


def _read(handle: int, path: Path) -> bytes:
    try:
        return os.read(handle, PIECE_BYTES)
    except OSError as error:
        raise file_error(error, path, "read the object") from error


def _plain_size(path: Path) -> int | None:
    """Bytes of a plain file; None where there is none, or something else lies in its place."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise file_error(error, path, "look for the object") from error
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _listed(directory: Path) -> list[str]:
    try:
        return sorted(path.name for path in directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise file_error(error, directory, "list") from error


def _unreadable(error: OSError, path: Path, name: str) -> Exception:
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return _missing(name, "it is not in the store")
    if error.errno in {errno.ELOOP, errno.EMLINK, errno.ENXIO}:
        return _missing(name, "what lies in its place is no plain file")
    return file_error(error, path, "read the object")


def _missing(name: str, why: str) -> ArtifactUnavailable:
    return ArtifactUnavailable(f"there is no object {name}: {why}", state="missing", sha256=name)
