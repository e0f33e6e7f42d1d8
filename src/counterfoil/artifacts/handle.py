"""An artifact as code holds it: what it is, and its bytes when they are asked for."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from counterfoil.artifacts.given_paths import given_path
from counterfoil.core.artifact import PUBLIC, Reference, storage_ref
from counterfoil.core.event_types import CLASSES
from counterfoil.core.forms import is_digest, is_label
from counterfoil.core.ids import is_id
from counterfoil.core.keyed import KeyMaterial
from counterfoil.core.values import register
from counterfoil.errors import NotDecodable
from counterfoil.flow.context import RunScope, current_scope, scope_or_none

Pieces = Callable[[Reference], Iterator[bytes]]
"""The plain bytes behind a reference, piece by piece."""

READ_AHEAD_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Artifact:
    """Bytes that lie outside the events, as a value: it stands in arguments, results and messages like any other.

    ``size`` is the number of plain bytes, ``key`` the data key it lies under (None: public). Handles are equal when
    they name the same object. One that was read back from a record outside a run is bound first:
    ``ledger.artifacts.bound(handle)``.
    """

    kind: str
    klass: str
    sha256: str
    size: int
    address: str | None = None
    key: str | None = None
    name: str | None = field(default=None, compare=False)
    media_type: str | None = field(default=None, compare=False)
    _pieces: Pieces | None = field(default=None, compare=False, repr=False)

    @property
    def reference(self) -> Reference:
        """As headers name it."""
        return Reference(self.kind, self.klass, self.sha256, self.address, self.key)

    @property
    def storage_ref(self) -> str:
        """``artifact:sha256:<hex>``."""
        return storage_ref(self.sha256)

    def pieces(self) -> Iterator[bytes]:
        """The bytes piece by piece, in bounded memory.

        Each piece was checked before it is handed out; that the whole is there and the right one is known at the end,
        so do nothing final with them before. Raises ArtifactUnavailable or ArtifactDamaged.
        """
        found = self._pieces
        if found is None:
            found = scope_here().ports.artifact_pieces
        return found(self.reference)

    def read(self) -> bytes:
        """All bytes at once, checked whole. Raises as :meth:`pieces`."""
        return b"".join(self.pieces())

    def open(self) -> BinaryIO:
        """The bytes as a file to read from once, to be closed or used in a ``with`` block. Raises as :meth:`pieces`."""
        return io.BufferedReader(_PiecesFile(self.pieces()), READ_AHEAD_BYTES)

    def save(self, path: Path | str) -> None:
        """Write the bytes to a new file, which appears under its name only when it is whole.

        Raises FileExistsError when there is one, IsADirectoryError for a directory, and as :meth:`pieces`.
        """
        from counterfoil.artifacts.saving import save_pieces

        save_pieces(given_path(path, "path"), self.pieces())


# ---- whose artifacts -------------------------------------------------------------------------------------------------

_served: ContextVar[RunScope | None] = ContextVar("counterfoil_artifacts", default=None)


@contextmanager
def serving(scope: RunScope | None) -> Iterator[None]:
    """Let code outside of a run read and keep this run's artifacts: a tool that recovery calls, what a run hands out.

    It is not inside the run: it can neither perform effects nor take steps.
    """
    token = _served.set(scope)
    try:
        yield
    finally:
        _served.reset(token)


def scope_here() -> RunScope:
    """The run whose artifacts code may read and keep here. Raises :class:`counterfoil.errors.NoRun`."""
    return scope_or_none() or _served.get() or current_scope()


def serving_scope() -> RunScope | None:
    """As :func:`scope_here`, with None in place of the error."""
    return scope_or_none() or _served.get()


def address_of(material: KeyMaterial, item: bytes | Path | Artifact) -> str:
    """The address of bytes, of a file that is read in pieces, or of an artifact; of a public one its name.

    Raises OSError for a file that cannot be read.
    """
    if isinstance(item, Artifact):
        return item.address or item.sha256
    if isinstance(item, bytes):
        return material.address(item).hex()
    state = material.address_state()
    with item.open("rb") as file:
        while piece := file.read(READ_AHEAD_BYTES):
            state.update(piece)
    return state.digest().hex()


class _PiecesFile(io.RawIOBase):
    """Pieces as a raw file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = piece
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


# ---- in content ------------------------------------------------------------------------------------------------------

REGISTERED: Final = "artifact"
"""The name that handles are registered under: they stand in content as ``{"$type": "artifact", "value": …}``."""


def handle_value(artifact: Artifact) -> dict[str, Any]:
    """What is recorded of a handle (FORMAT 10)."""
    members = {
        "kind": artifact.kind,
        "class": artifact.klass,
        "sha256": artifact.sha256,
        "bytes": artifact.size,
        "address": artifact.address,
        "key": artifact.key,
        "name": artifact.name,
        "media_type": artifact.media_type,
    }
    return {name: value for name, value in members.items() if value is not None}


def handle_of(value: Any, pieces: Pieces | None = None) -> Artifact:
    """The handle that was recorded. Raises NotDecodable for anything that is none."""
    if not _is_handle(value):
        raise NotDecodable("what is recorded as an artifact does not have the members of one")
    return Artifact(
        value["kind"],
        value["class"],
        value["sha256"],
        value["bytes"],
        value.get("address"),
        value.get("key"),
        value.get("name"),
        value.get("media_type"),
        pieces,
    )


def _is_handle(value: Any) -> bool:
    if type(value) is not dict or not _NEEDED <= value.keys() <= _KNOWN:
        return False
    if not is_label(value["kind"]) or value["class"] not in CLASSES or not is_digest(value["sha256"]):
        return False
    if type(value["bytes"]) is not int or value["bytes"] < 0:
        return False
    if value["class"] == PUBLIC:
        keyed = "address" not in value and "key" not in value
    else:
        keyed = is_digest(value.get("address")) and is_id(value.get("key", ""), "dk")
    return keyed and all(type(value.get(name, "")) is str for name in ("name", "media_type"))


_NEEDED: Final = frozenset({"kind", "class", "sha256", "bytes"})
_KNOWN: Final = _NEEDED | {"address", "key", "name", "media_type"}


def _decoded(value: Any) -> Artifact:
    """The handle that was recorded; one that is read back inside a run opens after it, too."""
    scope = scope_or_none() or _served.get()
    return handle_of(value, None if scope is None else scope.ports.artifact_pieces)


register(Artifact, REGISTERED, encode=handle_value, decode=_decoded)
