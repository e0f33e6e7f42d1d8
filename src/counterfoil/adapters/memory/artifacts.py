"""Artifacts in memory: the oracle of the artifact store's contract, and what ``:memory:`` ledgers use."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from counterfoil.core.forms import is_digest
from counterfoil.errors import ArtifactUnavailable, InvalidForm, StoreClosed

PIECE_BYTES: Final = 1024 * 1024


class MemoryArtifacts:
    """Implements :class:`counterfoil.abc.ArtifactStore` with a dictionary."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._closed = False

    def upload(self) -> MemoryUpload:
        """See ``ArtifactStore.upload``."""
        self._check()
        return MemoryUpload(self)

    def read(self, name: str) -> Iterator[bytes]:
        """See ``ArtifactStore.read``."""
        self._check(name)
        data = self._objects.get(name)
        if data is None:
            raise ArtifactUnavailable(f"there is no object {name}", state="missing", sha256=name)
        for at in range(0, len(data), PIECE_BYTES):
            yield data[at : at + PIECE_BYTES]

    def size(self, name: str) -> int | None:
        """See ``ArtifactStore.size``."""
        self._check(name)
        data = self._objects.get(name)
        return None if data is None else len(data)

    def names(self, after: str = "", limit: int = 1000) -> list[str]:
        """See ``ArtifactStore.names``."""
        self._check()
        with self._lock:
            return sorted(name for name in self._objects if name > after)[:limit]

    def delete(self, name: str) -> bool:
        """See ``ArtifactStore.delete``."""
        self._check(name)
        with self._lock:
            return self._objects.pop(name, None) is not None

    def sweep(self, older_than_s: float) -> int:  # noqa: ARG002 - nothing is ever left over in memory
        """See ``ArtifactStore.sweep``."""
        self._check()
        return 0

    def close(self) -> None:
        """See ``ArtifactStore.close``."""
        self._closed = True

    def put(self, data: bytes) -> str:
        """Hold these bytes under their name."""
        name = hashlib.sha256(data).hexdigest()
        with self._lock:
            self._objects[name] = data
        return name

    def _check(self, name: str | None = None) -> None:
        if self._closed:
            raise StoreClosed("the artifact store is closed")
        if name is not None and not is_digest(name):
            raise InvalidForm("an object's name is 64 lower-case hex", argument="name")


class MemoryUpload:
    """Implements :class:`counterfoil.abc.ArtifactUpload`."""

    def __init__(self, store: MemoryArtifacts) -> None:
        self._store = store
        self._pieces: list[bytes] | None = []

    def write(self, data: bytes) -> None:
        """See ``ArtifactUpload.write``."""
        self._open().append(data)

    def commit(self) -> str:
        """See ``ArtifactUpload.commit``."""
        name = self._store.put(b"".join(self._open()))
        self._pieces = None
        return name

    def discard(self) -> None:
        """See ``ArtifactUpload.discard``."""
        self._pieces = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    def _open(self) -> list[bytes]:
        if self._pieces is None:
            raise StoreClosed("this upload has ended")
        return self._pieces
