"""A ZIP in which every byte is fixed by its content: stored, names sorted, 1980-01-01, no extra fields (FORMAT 15).

Written and read here and not by the standard library, because nothing may be chosen by whoever writes one and nothing
overlooked by whoever reads one: each byte outside the files' own is compared with what it must be.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable
from typing import BinaryIO, Final

from msgspec import Struct

from counterfoil.errors import ArchiveInvalid, ContentTooLarge

LOCAL: Final = struct.Struct("<4s5H3L2H")
CENTRAL: Final = struct.Struct("<4s6H3L5H2L")
END: Final = struct.Struct("<4s4H2LH")

VERSION: Final = 20
DATE: Final = 0x0021
"""1980-01-01, the first that a ZIP can say; the time is midnight."""

BYTES_MAX: Final = 0xFFFFFFFE
FILES_MAX: Final = 0xFFFE
"""Beyond these a ZIP needs extra fields; a directory has no such bound."""

PIECE_BYTES: Final = 1024 * 1024
_NAME: Final = re.compile(r"archive\.jsonl|objects/[0-9a-f]{64}").fullmatch


class Entry(Struct):
    """One file: where its local header begins, how many bytes it has, and their CRC-32."""

    name: str
    offset: int
    size: int = 0
    crc: int = 0

    def local(self) -> bytes:
        """The local header, with its name."""
        name = self.name.encode()
        fixed = (b"PK\x03\x04", VERSION, 0, 0, 0, DATE, self.crc, self.size, self.size, len(name), 0)
        return LOCAL.pack(*fixed) + name

    def central(self) -> bytes:
        """The entry of the directory at the end."""
        name = self.name.encode()
        fixed = (b"PK\x01\x02", VERSION, VERSION, 0, 0, 0, DATE, self.crc, self.size, self.size, len(name))
        return CENTRAL.pack(*fixed, 0, 0, 0, 0, 0, self.offset) + name

    @property
    def begin(self) -> int:
        """Where its bytes begin."""
        return self.offset + LOCAL.size + len(self.name)

    @property
    def end(self) -> int:
        """Where the next local header begins."""
        return self.begin + self.size


def end_record(entries: list[Entry], offset: int) -> bytes:
    """The last 22 bytes: how many files, and where the directory of them begins."""
    size = sum(len(entry.central()) for entry in entries)
    return END.pack(b"PK\x05\x06", 0, 0, len(entries), len(entries), size, offset, 0)


class ZipWriter:
    """Writes one file after the other into a file that can be sought. Names must come sorted."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._entries: list[Entry] = []

    def begin(self, name: str) -> None:
        """Begin a file; its header is written again when its size is known."""
        if len(self._entries) >= FILES_MAX:
            raise _too_large()
        entry = Entry(name, self._file.tell())
        self._entries.append(entry)
        self._file.write(entry.local())

    def write(self, data: bytes) -> None:
        """The next bytes of the file."""
        entry = self._entries[-1]
        entry.size += len(data)
        if entry.end > BYTES_MAX:
            raise _too_large()
        entry.crc = zlib.crc32(data, entry.crc)
        self._file.write(data)

    def end(self) -> None:
        """End the file."""
        entry = self._entries[-1]
        self._file.seek(entry.offset)
        self._file.write(entry.local())
        self._file.seek(entry.end)

    def finish(self) -> None:
        """Write the directory."""
        offset = self._file.tell()
        for entry in self._entries:
            self._file.write(entry.central())
        if self._file.tell() > BYTES_MAX:
            raise _too_large()
        self._file.write(end_record(self._entries, offset))


def read_entries(file: BinaryIO) -> dict[str, Entry]:
    """The files of a ZIP by name, with every byte outside them compared. Raises ArchiveInvalid with an offset."""
    size = file.seek(0, 2)
    if size < END.size:
        raise _differs("the end of the ZIP", size)
    file.seek(size - END.size)
    last = file.read(END.size)
    *_, count, _, offset, _ = END.unpack(last)
    if offset > size - END.size:
        raise _differs("the end of the ZIP", size - END.size)
    file.seek(offset)
    entries: list[Entry] = []
    place, expected = offset, 0
    for _ in range(count):
        entry = _central(file, place, expected)
        entries.append(entry)
        place, expected = place + len(entry.central()), entry.end
    if end_record(entries, offset) != last or place != size - END.size or expected != offset:
        raise _differs("the end of the ZIP", size - END.size)
    names = [entry.name for entry in entries]
    if names != sorted(set(names)):
        raise _differs("the order of the files in the ZIP", offset)
    for entry in entries:
        file.seek(entry.offset)
        if file.read(len(entry.local())) != entry.local():
            raise _differs(f"the header of {entry.name}", entry.offset)
    return {entry.name: entry for entry in entries}


def _central(file: BinaryIO, place: int, expected: int) -> Entry:
    fixed = file.read(CENTRAL.size)
    if len(fixed) < CENTRAL.size:
        raise _differs("the directory of the ZIP", place)
    members = CENTRAL.unpack(fixed)
    crc, size, length = members[7], members[9], members[10]
    name = file.read(length).decode("ascii", "replace")
    if _NAME(name) is None:
        raise _differs("the name of a file in the ZIP", place)
    entry = Entry(name, expected, size, crc)
    if entry.central() != fixed + name.encode():
        raise _differs(f"the directory's entry of {name}", place)
    return entry


class Member:
    """One file inside the ZIP, read from its beginning; its CRC is compared at its end. Several may be read in turn."""

    def __init__(self, file: BinaryIO, entry: Entry) -> None:
        self._file = file
        self._entry = entry
        self._place = entry.begin
        self._crc = 0

    def readline(self, size: int = -1, /) -> bytes:
        """At most ``size`` bytes, to the end of the line."""
        return self._taken(self._file.readline, size)

    def read(self, size: int = -1, /) -> bytes:
        """At most ``size`` bytes."""
        return self._taken(self._file.read, size)

    def _taken(self, read: Callable[[int], bytes], size: int) -> bytes:
        left = self._entry.end - self._place
        if not left:
            return b""
        if self._file.tell() != self._place:
            self._file.seek(self._place)
        data = read(left if size < 0 else min(left, size))
        self._place += len(data)
        self._crc = zlib.crc32(data, self._crc)
        if self._place == self._entry.end and self._crc != self._entry.crc:
            raise _differs(f"the CRC of {self._entry.name}", self._entry.offset)
        return data


def _differs(what: str, offset: int) -> ArchiveInvalid:
    return ArchiveInvalid(
        f"{what} is not what an archive has, at byte {offset} of the ZIP", offset=offset, line=None
    )


def _too_large() -> ContentTooLarge:
    return ContentTooLarge(
        "an archive of 4 GiB, or of 65,534 artifacts, is more than a ZIP without extra fields holds",
        hint="export into a directory: name one that does not end in .zip",
    )
