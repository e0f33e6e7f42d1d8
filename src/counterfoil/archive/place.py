"""Where an archive lies: a directory, or a ZIP of the same; written beside its name and then given it at once."""

from __future__ import annotations

import fcntl
import glob
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from counterfoil.archive.zips import Entry, Member, ZipWriter, read_entries
from counterfoil.core.forms import is_digest
from counterfoil.errors import ArchiveInvalid, FileMissing, InvalidForm, StoreFull, StoreIO

LINES: Final = "archive.jsonl"
OBJECTS: Final = "objects"
CLAIM: Final = "-claim"
"""Ends the name of the file whose lock says that somebody is at work on the partial before it."""
WORK: Final = "-work"
"""Ends the name of the directory in which a backup gathers its files, beside its partial."""
ZIP_SUFFIX: Final = ".zip"
PIECE_BYTES: Final = 1024 * 1024
_ZIP_MAGIC: Final = b"PK\x03\x04"
_FULL: Final = frozenset({28, 122, 27})
"""ENOSPC, EDQUOT, EFBIG."""


class Sink(Protocol):
    """Where an archive goes: its lines first, then its objects in the order of their names."""

    def write(self, data: bytes) -> None:
        """The next bytes of the file that was begun."""
        ...

    def begin(self, name: str) -> None:
        """Begin a file: the lines, or ``objects/<sha256>``."""
        ...

    def end(self) -> None:
        """End it."""
        ...


class Source(Protocol):
    """Where an archive comes from."""

    def lines(self) -> Lines:
        """The lines, from the first."""
        ...

    def object(self, sha256: str) -> Iterator[bytes] | None:
        """The bytes of an object piece by piece, or None if it is not there."""
        ...

    def names(self) -> Iterator[str]:
        """The names of the files where objects lie, in no order."""
        ...


class Lines(Protocol):
    """A file that is read line by line."""

    def readline(self, size: int = -1, /) -> bytes:
        """At most ``size`` bytes, to the end of the line."""
        ...


# ---- out ---------------------------------------------------------------------------------------------------------


class _ZipSink(ZipWriter):
    """A ZIP on its way."""


class _DirectorySink:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: BinaryIO | None = None
        (directory / OBJECTS).mkdir()

    def begin(self, name: str) -> None:
        self._file = (self._directory / name).open("xb")

    def write(self, data: bytes) -> None:
        assert self._file is not None
        self._file.write(data)

    def end(self) -> None:
        assert self._file is not None
        with self._file as file:
            synced(file)
        self._file = None


@contextmanager
def written(target: Path) -> Iterator[Sink]:
    """An archive that appears at ``target`` when the block ends well: a ZIP if it ends in ``.zip``, else a directory.

    What is there is never written over. Raises InvalidForm, StoreFull or StoreIO.
    """
    with new_place(target) as partial:
        if target.suffix.lower() == ZIP_SUFFIX:
            with partial.open("xb") as file:
                # In the clear or with names of people: nobody else reads it unless its owner says so.
                partial.chmod(0o600)
                sink = _ZipSink(file)
                yield sink
                sink.finish()
                synced(file)
        else:
            partial.mkdir(mode=0o700)
            yield _DirectorySink(partial)


@contextmanager
def new_place(target: Path) -> Iterator[Path]:
    """A name beside ``target`` to write to, which becomes ``target`` when the block ends well, and goes otherwise."""
    if target.exists() or target.is_symlink():
        raise InvalidForm(
            f"{target} is there already",
            hint="name a place that is not there; nothing is written over",
            argument="to",
        )
    if not target.parent.is_dir():
        raise FileMissing(
            f"there is no directory {target.parent}", hint="make it first", path=str(target.parent)
        )
    _sweep(target)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    claim = partial.with_name(partial.name + CLAIM)
    try:
        held = os.open(claim, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise file_trouble(error, target) from error
    try:
        with suppress(OSError):  # a file system without locks: then nothing is swept there either
            fcntl.flock(held, fcntl.LOCK_EX)
        yield partial
        # Another may have been quicker; a rename would take a file's place in silence.
        if target.exists():
            raise InvalidForm(f"{target} has appeared meanwhile", hint="name another place", argument="to")
        partial.rename(target)
        sync_directory(target.parent)
    except OSError as error:
        raise file_trouble(error, target) from error
    finally:
        _remove(partial)
        claim.unlink(missing_ok=True)
        os.close(held)


def _sweep(target: Path) -> None:
    """Remove what earlier ones for this target left when they were killed: their keys and their gigabytes.

    Each holds a lock on the claim beside its partial for as long as it lives, so nothing is taken from one at work.
    A claim whose maker has not locked it yet is empty of partials, and its maker sees no difference.
    """
    for claim in target.parent.glob(f".{glob.escape(target.name)}.????????.part{CLAIM}"):
        with suppress(OSError):
            held = os.open(claim, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                partial = claim.with_name(claim.name.removesuffix(CLAIM))
                _remove(partial.with_name(partial.name + WORK))
                _remove(partial)
                claim.unlink(missing_ok=True)
            finally:
                os.close(held)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def file_trouble(error: OSError, path: Path) -> StoreIO | StoreFull:
    """What the file system said, as an error of ours."""
    said = f"{path} cannot be written: {error.strerror or error}"
    if error.errno in _FULL:
        return StoreFull(said, path=str(path))
    return StoreIO(said, hint="see the system's log, then try again", path=str(path))


def synced(file: BinaryIO) -> None:
    """Have everything written to a file on disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """Have the names in a directory on disk."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ---- in ----------------------------------------------------------------------------------------------------------


def is_archive(path: Path) -> bool:
    """Whether an archive may lie here: told by content, not by name."""
    if path.is_dir():
        return (path / LINES).is_file()
    if not path.is_file():
        return False  # a pipe would wait, a device act
    try:
        with path.open("rb") as file:
            return file.read(len(_ZIP_MAGIC)) == _ZIP_MAGIC
    except OSError:
        return False


class _ZipSource:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._entries: dict[str, Entry] = read_entries(file)

    def lines(self) -> Lines:
        entry = self._entries.get(LINES)
        if entry is None:
            raise ArchiveInvalid(f"there is no {LINES} in the ZIP", line=None, offset=None)
        return Member(self._file, entry)

    def object(self, sha256: str) -> Iterator[bytes] | None:
        entry = self._entries.get(f"{OBJECTS}/{sha256}")
        return None if entry is None else _pieces(Member(self._file, entry))

    def names(self) -> Iterator[str]:
        return (name.removeprefix(f"{OBJECTS}/") for name in self._entries if name != LINES)


class _DirectorySource:
    def __init__(self, directory: Path, file: BinaryIO) -> None:
        self._directory = directory
        self._file = file

    def lines(self) -> Lines:
        self._file.seek(0)
        return self._file

    def object(self, sha256: str) -> Iterator[bytes] | None:
        path = self._directory / OBJECTS / sha256
        return _file_pieces(path) if is_digest(sha256) and path.is_file() else None

    def names(self) -> Iterator[str]:
        try:
            with os.scandir(self._directory / OBJECTS) as entries:
                for entry in entries:
                    yield entry.name
        except FileNotFoundError:
            # Without objects there is no folder for them.
            return


@contextmanager
def opened(path: Path) -> Iterator[Source]:
    """The archive at ``path``. Raises FileMissing, InvalidForm, ArchiveInvalid or StoreIO."""
    try:
        lines = path / LINES if path.is_dir() else path
        if lines.exists() and not lines.is_file():  # a pipe would wait for ever
            raise InvalidForm(
                f"{lines} is not a regular file", hint="name a directory, or a ZIP", argument="path"
            )
        with lines.open("rb") as file:
            yield _ZipSource(file) if lines is path else _DirectorySource(path, file)
    except FileNotFoundError as error:
        raise FileMissing(f"there is no archive at {path}", path=str(path)) from error
    except OSError as error:
        raise StoreIO(f"{path} cannot be read: {error.strerror or error}", path=str(path)) from error


def _pieces(member: Member) -> Iterator[bytes]:
    while piece := member.read(PIECE_BYTES):
        yield piece


def _file_pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece
