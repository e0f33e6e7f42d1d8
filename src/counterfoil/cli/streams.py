"""The standard streams of the program: closed ones, full ones, and pipes whose reader has gone."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, TextIO

STREAMS: Final = ("stdin", "stdout", "stderr")


OF_OUTPUT: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EBADF, errno.EIO, errno.EFBIG})
"""What the system says when a stream cannot be written. The ledger's own files have errors of their own."""


class OutputFailed(Exception):
    """Standard output cannot be written. The message is the system's reason."""


class _Closed(io.RawIOBase):
    """Stands for a standard output that was closed before the program began: every write fails, as it should."""

    def writable(self) -> bool:
        return True

    def write(self, data: object, /) -> int:  # noqa: ARG002 - the library's signature
        raise OSError(errno.EBADF, "standard output is closed")


def open_standard_streams() -> None:
    """Put something in the place of each standard stream that the program was started without.

    Their numbers are taken, too: the next file that is opened would otherwise be the standard output of whatever
    this program starts.
    """
    for number, name in enumerate(STREAMS):
        if getattr(sys, name) is not None:
            continue
        with suppress(OSError):
            while os.open(os.devnull, os.O_RDWR) < number:
                pass
        setattr(sys, name, _stand_in(name))


def _stand_in(name: str) -> TextIO:
    if name == "stdout":
        return io.TextIOWrapper(io.BufferedWriter(_Closed(), 1), encoding="utf-8", write_through=True)
    return open(os.devnull, "r+", encoding="utf-8")  # noqa: PTH123 - it lives as long as the program


@contextmanager
def printing() -> Iterator[None]:
    """Turn what the system says of standard output into ``OutputFailed``; a reader that has gone is another matter."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFailed(error.strerror or str(error)) from error


def silence(stream: TextIO) -> None:
    """Let nothing more come out of a stream that failed: Python would complain of what is left in it at its end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
