"""Arrays as the server reads them, packed here: psycopg looks at each element, which takes longer than all else of a batch."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import ClassVar, Final

import psycopg
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format

_HEADER: Final = struct.Struct(">iiIii")
_LENGTH: Final = struct.Struct(">i").pack
_NULL: Final = _LENGTH(-1)


class PackedArray:
    """One array of one dimension in the server's binary form."""

    __slots__ = ("data",)
    array_oid: ClassVar[int]
    element_oid: ClassVar[int]

    def __init__(self, count: int, elements: bytes, *, nulls: bool = False) -> None:
        if count:
            self.data = _HEADER.pack(1, nulls, self.element_oid, count, 1) + elements
        else:
            self.data = struct.pack(">iiI", 0, 0, self.element_oid)


class Texts(PackedArray):
    """``text[]``."""

    __slots__ = ()
    array_oid, element_oid = 1009, 25

    def __init__(self, values: Sequence[str | None]) -> None:
        parts: list[bytes] = []
        for value in values:
            if value is None:
                parts.append(_NULL)
            else:
                encoded = value.encode()
                parts += (_LENGTH(len(encoded)), encoded)
        super().__init__(len(values), b"".join(parts), nulls=None in values)


class Blobs(PackedArray):
    """``bytea[]``."""

    __slots__ = ()
    array_oid, element_oid = 1001, 17

    def __init__(self, values: Sequence[bytes]) -> None:
        parts: list[bytes] = []
        for value in values:
            parts += (_LENGTH(len(value)), value)
        super().__init__(len(values), b"".join(parts))


class Bigints(PackedArray):
    """``bigint[]``."""

    __slots__ = ()
    array_oid, element_oid = 1016, 20

    def __init__(self, values: Sequence[int]) -> None:
        pairs = [word for value in values for word in (8, value)]
        super().__init__(len(values), struct.pack(">" + "iq" * len(values), *pairs))


class Smallints(PackedArray):
    """``smallint[]``."""

    __slots__ = ()
    array_oid, element_oid = 1005, 21

    def __init__(self, values: Sequence[int]) -> None:
        pairs = [word for value in values for word in (2, value)]
        super().__init__(len(values), struct.pack(">" + "ih" * len(values), *pairs))


def register_arrays(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Have a connection send them."""
    for kind, dumper in _DUMPERS.items():
        connection.adapters.register_dumper(kind, dumper)


class _PackedDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: PackedArray) -> Buffer | None:
        return obj.data


def _dumper(kind: type[PackedArray]) -> type[Dumper]:
    return type(f"{kind.__name__}Dumper", (_PackedDumper,), {"oid": kind.array_oid})


_DUMPERS: Final = {kind: _dumper(kind) for kind in (Texts, Blobs, Bigints, Smallints)}
