"""FileKeyProvider: key-encryption keys as files in ``kek/``, each 64 hex and LF, mode 0600 (FORMAT 12)."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
from pathlib import Path
from typing import Final

from counterfoil.abc.keys import Arrangement
from counterfoil.abc.time import Ids
from counterfoil.core.ids import is_id
from counterfoil.core.keyed import KEY_BYTES
from counterfoil.errors import InternalError, KeyDamaged, KeyWithheld
from counterfoil.keys import wrapping

DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600
WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
"""Permission bits that the directory may not have."""

OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
"""Permission bits of group and others, none of which a key file may have."""

KEY_TEXT_BYTES: Final = 2 * KEY_BYTES + 1

_IS_KEY_TEXT: Final = re.compile(rb"[0-9a-f]{64}\n").fullmatch


class FileKeyProvider:
    """A ``KeyProvider`` whose key-encryption keys are files; the newest id is the current epoch.

    Beside the data (the default) copying the ledger's directory copies the keys, so erasure does not reach copies;
    whoever keeps the directory elsewhere says so with ``arrangement="covered"``. Files are read at each use, so a
    destroyed key is gone at once and a restored one works at once. ``ids`` mints the ids of new epochs.
    """

    def __init__(self, directory: Path, ids: Ids, *, arrangement: Arrangement = "not_covered") -> None:
        self._directory = directory
        self._ids = ids
        self._arrangement: Arrangement = arrangement

    @property
    def directory(self) -> Path:
        """Where the files lie."""
        return self._directory

    def arrangement(self) -> Arrangement:
        """See ``KeyProvider.arrangement``."""
        return self._arrangement

    def epochs(self) -> list[str]:
        """Ids of the keys at hand, oldest first; none if the directory is not there."""
        try:
            names = [path.name for path in self._directory.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._withheld(self._directory, error) from error
        return sorted(name for name in names if is_id(name, "kek"))

    def current(self) -> str:
        """See ``KeyProvider.current``. Its name is durable when this returns.

        Another process may have made it a moment ago, and not have come to syncing the directory: what is wrapped under
        it must not outlast it when the power fails.
        """
        epochs = self.epochs()
        if not epochs:
            raise KeyWithheld(
                f"there is no key-encryption key in {self._directory}",
                hint="put the kek directory of this ledger back; without it no content can be opened",
                path=str(self._directory),
            )
        try:
            _sync_directory(self._directory)
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EINVAL):
                raise self._withheld(self._directory, error) from error
        return epochs[-1]

    def wrap(self, kek_id: str, data_key: bytes) -> bytes:
        """See ``KeyProvider.wrap``."""
        return wrapping.wrap(self._read(kek_id), data_key)

    def unwrap(self, kek_id: str, wrapped: bytes) -> bytes:
        """See ``KeyProvider.unwrap``."""
        return wrapping.unwrap(kek_id, self._read(kek_id), wrapped)

    def derive(self, kek_id: str, purpose: str) -> bytes:
        """See ``KeyProvider.derive``."""
        return wrapping.derive(self._read(kek_id), purpose)

    def new_epoch(self) -> str:
        """See ``EpochKeyProvider.new_epoch``. The directory is made too (0700); its parent must be there."""
        text = secrets.token_bytes(KEY_BYTES).hex().encode() + b"\n"
        while not self._put(kek_id := self._next_id(), text):
            pass  # another process or thread took that id: what it made is among the ids that the next is greater than
        return kek_id

    def _put(self, kek_id: str, text: bytes) -> bool:
        """Make the file of a key, durable when this returns; False where one of this name is there, which stays."""
        beginning = self._directory / f".{kek_id}.{secrets.token_hex(8)}.new"
        try:
            self._make_directory()
            try:
                _write_durably(beginning, text)
                # The name appears only when the bytes are on disk, so a crash leaves no half key that looks current; and
                # never in the place of another, as it would by a rename: keys may be wrapped under that already.
                _give_name(beginning, self._directory / kek_id)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    beginning.unlink()
            _sync_directory(self._directory)
        except FileExistsError:
            return False
        except OSError as error:
            raise KeyWithheld(
                f"cannot make a key-encryption key in {self._directory}: {error.strerror}",
                hint="give this user write permission on the directory and free space",
                path=str(self._directory),
            ) from error
        return True

    def hand_out(self, kek_id: str) -> bytes:
        """The text of a key's file, for a copy or a backup of the whole ledger. Raises KeyWithheld or KeyDamaged."""
        return self._read(kek_id).hex().encode() + b"\n"

    def take_in(self, kek_id: str, text: bytes) -> None:
        """Put a key in its file, as :meth:`hand_out` gave it; durable when this returns. One that is there stays.

        Raises KeyDamaged for another key under its id, or a text that is no key.
        """
        if not is_id(kek_id, "kek") or not _IS_KEY_TEXT(text):
            raise KeyDamaged(f"{kek_id[:40]!r} is no key-encryption key that was handed out")
        if (kek_id in self.epochs() or not self._put(kek_id, text)) and self.hand_out(kek_id) != text:
            raise KeyDamaged(
                f"another key lies in {self._directory} under {kek_id}", path=str(self._directory)
            )

    def destroy(self, kek_id: str) -> None:
        """See ``EpochKeyProvider.destroy``. The bytes are overwritten first, as far as the disk goes along."""
        epochs = self.epochs()
        if kek_id not in epochs:
            return
        if kek_id == epochs[-1]:
            raise InternalError(f"{kek_id} is the current key-encryption key: rotate before destroying it")
        path = self._directory / kek_id
        try:
            with path.open("r+b", buffering=0) as file:
                file.write(b"0" * 64 + b"\n")
                os.fsync(file.fileno())
            path.unlink()
            _sync_directory(self._directory)
        except OSError as error:
            raise KeyWithheld(
                f"cannot destroy the key-encryption key {path}: {error.strerror}; it may be overwritten already",
                hint=f"mend that, then run `counterfoil keys destroy {kek_id}` again",
                path=str(path),
            ) from error

    def _next_id(self) -> str:
        return wrapping.greater_id(self._ids.new("kek"), max(self.epochs(), default=""))

    def _make_directory(self) -> None:
        with contextlib.suppress(FileExistsError):
            self._directory.mkdir(mode=DIRECTORY_MODE)
            _sync_directory(self._directory.parent)

    def _read(self, kek_id: str) -> bytes:
        if not is_id(kek_id, "kek"):
            raise KeyDamaged("a key row names something that is no key-encryption key")
        path = f"{self._directory}/{kek_id}"
        try:
            shared = self._directory.stat().st_mode & WRITABLE_BY_OTHERS
            mode, text = _read_small(path)
        except OSError as error:
            raise self._withheld(path, error) from error
        if shared:
            raise KeyWithheld(
                f"{self._directory} can be written by others than its owner, who could put keys of their own there",
                hint=f"chmod {DIRECTORY_MODE:o} the directory",
                path=str(self._directory),
            )
        if not stat.S_ISREG(mode):
            raise KeyDamaged(
                f"{path} is not a key-encryption key: it is no file of its own",
                hint="restore the file from its backup",
                path=path,
            )
        if mode & OTHERS:
            raise KeyWithheld(
                f"{path} can be reached by others than its owner (mode {stat.S_IMODE(mode):04o})",
                hint=f"chmod {FILE_MODE:o} the file, and think about who may have read it",
                path=path,
            )
        if not _IS_KEY_TEXT(text):
            raise KeyDamaged(
                f"{path} is not a key-encryption key: 64 hex digits in lower case and a line feed are expected",
                hint="restore the file from its backup",
                path=path,
            )
        return bytes.fromhex(text[:64].decode())

    def _withheld(self, path: Path | str, error: OSError) -> KeyWithheld:
        return KeyWithheld(
            f"the key-encryption key {path} is not at hand: {error.strerror}",
            hint="put the kek directory of this ledger back, readable for this user",
            path=str(path),
        )


def _read_small(path: str) -> tuple[int, bytes]:
    """Mode and beginning of a file; the plain calls, since a rotation reads a key for every row."""
    # Without blocking: whatever else has the name of a key, such as a pipe, is not waited for.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(handle).st_mode
        return mode, os.read(handle, 2 * KEY_TEXT_BYTES) if stat.S_ISREG(mode) else b""
    finally:
        os.close(handle)


def _give_name(beginning: Path, target: Path) -> None:
    """Let a file appear under its name, never in the place of another. Raises FileExistsError where one is there."""
    try:
        os.link(beginning, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
    else:
        return
    # A file system without hard links: whoever makes a key there takes the directory's lock first.
    held = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        beginning.rename(target)
    finally:
        os.close(held)


_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


def _write_durably(path: Path, text: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        if os.write(handle, text) != len(text):
            raise OSError(0, "the disk took only a part of the key")
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
