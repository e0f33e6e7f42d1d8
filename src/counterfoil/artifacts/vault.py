"""Putting bytes into the artifact store and getting them back: encrypted on the way in, checked on the way out."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from counterfoil.abc.artifacts import ArtifactStore, ArtifactUpload
from counterfoil.core.artifact import (
    PUBLIC,
    SALT_BYTES,
    Reference,
    Sealer,
    checked_pieces,
    opened_pieces,
    salt_for,
    sealed_bytes,
)
from counterfoil.core.keyed import KeyMaterial
from counterfoil.errors import (
    ArtifactDamaged,
    ArtifactUnavailable,
    ConfigInvalid,
    FileMissing,
    InvalidForm,
    KeyDamaged,
    KeyMissing,
    KeyStoreMissing,
    KeyWithheld,
)
from counterfoil.flow.requests import Source, Stored

READ_BYTES: Final = 256 * 1024
"""Bytes read from a source at a time."""

NO_PLACE: Final = "name a directory that all its users share: counterfoil.open(…, artifacts=DIRECTORY)"

SHOWN_HEX: Final = 12
"""Of an object's name in a message: enough to find it."""

MaterialOf = Callable[[str], KeyMaterial]
Authorize = Callable[[Reference], None]
Known = Callable[[str], str | None]
"""The object that holds the bytes of an address already, as far as rows say."""


class State(NamedTuple):
    """What became of an artifact, in the words of FORMAT 6, and why."""

    word: str
    reason: str = ""


class Vault:
    """The artifacts of one tenant. Thread-safe. Without a store it holds nothing and refuses what needs one.

    ``authorize`` is asked before bytes are handed out and raises what forbids it; by default everything that the keys
    at hand can open is given.
    """

    def __init__(
        self, store: ArtifactStore | None, material: MaterialOf, authorize: Authorize | None = None
    ) -> None:
        self._store = store
        self._material = material
        self.authorize: Authorize | None = authorize

    @property
    def usable(self) -> bool:
        """Whether there is a store at all."""
        return self._store is not None

    @property
    def store(self) -> ArtifactStore:
        """The store behind. Raises ConfigInvalid where there is none."""
        if self._store is None:
            raise ConfigInvalid(
                "this ledger has no place for artifacts",
                hint=NO_PLACE,
            )
        return self._store

    # ---- in ----

    def put(self, source: Source, material: KeyMaterial | None, known: Known = lambda _: None) -> Stored:
        """Store the bytes of a source; ``material`` None stores them as they are (public).

        Bytes at hand make the same object each time. Others are read once, in bounded memory, and let go at the end if
        ``known`` names an object with the same bytes. Raises FileMissing or InvalidForm for a source that cannot be
        read, and the StoreErrors of the store.
        """
        with self.store.upload() as upload:
            if material is None:
                return _plain(upload, source)
            if isinstance(source, bytes):
                address = material.address(source)
                sealer = Sealer(material, salt_for(material, address))
            else:
                sealer = Sealer(material, secrets.token_bytes(SALT_BYTES))
            for piece in source_pieces(source):
                upload.write(sealer.update(piece))
            upload.write(sealer.finish())
            found = sealer.address.hex()
            there = None if isinstance(source, bytes) else known(found)
            if there is not None and self.store.size(there) == sealed_bytes(sealer.size):
                return Stored(there, found, material.key_id, sealer.size)
            return Stored(upload.commit(), found, material.key_id, sealer.size)

    def put_objects(self, objects: Iterable[bytes]) -> None:
        """Store objects that are made already."""
        for data in objects:
            with self.store.upload() as upload:
                upload.write(data)
                upload.commit()

    # ---- out ----

    def pieces(self, reference: Reference) -> Iterator[bytes]:
        """The plain bytes, piece by piece; see :meth:`counterfoil.artifacts.Artifact.pieces`."""
        if self.authorize is not None:
            self.authorize(reference)
        try:
            yield from filter(None, self._opened(reference))
        except ArtifactDamaged as error:
            raise ArtifactDamaged(
                f"artifact {reference.sha256[:SHOWN_HEX]}… is damaged: {error.message}",
                sha256=reference.sha256,
                check=error.fields.get("check"),
            ) from None

    def read(self, reference: Reference) -> bytes:
        """The plain bytes at once, checked whole."""
        return b"".join(self.pieces(reference))

    def read_unasked(self, reference: Reference) -> bytes:
        """As :meth:`read`, for work that shows nothing to anybody, such as an index: nobody is asked whether it may."""
        return b"".join(self._opened(reference))

    def look(self, reference: Reference) -> State:
        """What became of an artifact; reads it whole and keeps nothing. Asks nobody whether it may: it shows nothing."""
        try:
            for _ in self._opened(reference):
                pass
        except ArtifactUnavailable as error:
            return State(str(error.fields.get("state", "missing")), error.message)
        except ArtifactDamaged as error:
            return State("damaged", error.message)
        return State("present")

    def _opened(self, reference: Reference) -> Iterator[bytes]:
        if self._store is None:
            raise ArtifactUnavailable(
                f"artifact {reference.sha256[:SHOWN_HEX]}… is withheld: nobody said where artifacts lie",
                hint=NO_PLACE,
                state="withheld",
                sha256=reference.sha256,
            )
        stored = self._store.read(reference.sha256)
        if reference.klass == PUBLIC:
            return checked_pieces(reference.sha256, stored)
        return opened_pieces(self._key(reference), reference.address, stored)

    def _key(self, reference: Reference) -> KeyMaterial:
        if reference.key is None:
            raise ArtifactDamaged("the reference names no key", check="key")
        shown = reference.sha256[:SHOWN_HEX]
        try:
            return self._material(reference.key)
        except KeyMissing as error:
            raise ArtifactUnavailable(
                f"artifact {shown}… is missing: {error.message}", state="missing", sha256=reference.sha256
            ) from error
        except (KeyWithheld, KeyStoreMissing) as error:
            raise ArtifactUnavailable(
                f"artifact {shown}… is withheld: {error.message}", state="withheld", sha256=reference.sha256
            ) from error
        except KeyDamaged as error:
            raise ArtifactDamaged(error.message, check="key") from error


def _plain(upload: ArtifactUpload, source: Source) -> Stored:
    size = 0
    for piece in source_pieces(source):
        upload.write(piece)
        size += len(piece)
    return Stored(upload.commit(), None, None, size)


def source_pieces(source: Source) -> Iterator[bytes]:
    """The bytes of a source in pieces: bytes, the path of a file, an open binary file, or an iterable of bytes."""
    if isinstance(source, bytes):
        for at in range(0, len(source), READ_BYTES):
            yield source[at : at + READ_BYTES]
    elif isinstance(source, Path):
        yield from _file_pieces(source)
    elif callable(read := getattr(source, "read", None)):
        while piece := _checked(read(READ_BYTES)):
            yield piece
    else:
        yield from map(_checked, source)


def _file_pieces(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while piece := file.read(READ_BYTES):
                yield piece
    except FileNotFoundError as error:
        raise FileMissing(f"there is no file {path}", path=os.fspath(path)) from error
    except OSError as error:
        raise InvalidForm(f"{path} cannot be read: {error.strerror}", argument="source") from error


def _checked(piece: Any) -> bytes:
    if not isinstance(piece, bytes | bytearray | memoryview):
        raise InvalidForm(
            f"an artifact is made of bytes, and its source gave {type(piece).__name__}",
            hint="open the file in binary mode, or encode the text",
            argument="source",
        )
    return bytes(piece)
