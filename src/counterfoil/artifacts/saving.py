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
    """Write to a new file; how many bytes. Raises FileExistsError, other OSErrors, and whatever the pieces raise.

    The bytes go to a hidden file beside it that gets the name at the end: a damaged artifact leaves nothing behind
    that could be taken for it. The name is given by a link, which never replaces a file that came in between.
    """
    if os.path.lexists(path):
        raise FileExistsError(17, "the file exists and is not overwritten", str(path))
    beside = path.with_name(f".{secrets.token_hex(8)}.part")
    size = 0
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        with os.fdopen(handle, "wb") as file:
            for piece in pieces:
                file.write(piece)
                size += len(piece)
            file.flush()
            os.fsync(file.fileno())
        _give_name(beside, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()
    return size


def _give_name(beside: Path, path: Path) -> None:
    try:
        os.link(beside, path)
    except OSError as error:
        if error.errno not in {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}:
            raise
        # A file system without links: take the name first, and only where nobody has it.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
        beside.replace(path)
