"""Writing an artifact's bytes to a file of the caller's: whole or not at all, and never over another file."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Final

FILE_MODE: Final = 0o600


def save_pieces(path: Path, pieces: Iterable[bytes]) -> int:
    """Write to a new file; how many bytes. Raises FileExistsError, IsADirectoryError, other OSErrors, and as the pieces.

    The bytes go to a hidden file beside it that gets the name at the end: a damaged artifact leaves nothing behind
    that could be taken for it. The name is given by a link, which never replaces a file that came in between.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a directory, and no file to write", str(path))
    if os.path.lexists(path):
        raise FileExistsError(17, "the file exists and is not overwritten", str(path))
    beside = path.with_name(f".{secrets.token_hex(8)}.part")
    size = 0
    try:
        with os.fdopen(_opened(beside, path), "wb") as file:
            for piece in pieces:
                file.write(piece)
                size += len(piece)
            file.flush()
            os.fsync(file.fileno())
        _give_name(beside, path)
    finally:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            beside.unlink()
    return size


def _opened(beside: Path, path: Path) -> int:
    """The hidden file, open for writing; what goes wrong names the file that was asked for."""
    try:
        return os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _give_name(beside: Path, path: Path) -> None:
    try:
        os.link(beside, path)
    except OSError as error:
        if error.errno not in {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}:
            raise
        # A file system without links: take the name first, and only where nobody has it.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
        beside.replace(path)
