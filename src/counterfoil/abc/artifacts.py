"""Artifact store: where the bytes outside the events lie, each object under the SHA-256 of its stored bytes."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Protocol, Self


class ArtifactUpload(Protocol):
    """One object on its way in. Nothing of it can be seen in the store before :meth:`commit` returns.

    Used by one thread at a time, as a ``with`` block: leaving it without a commit leaves nothing behind. After a
    crash what was begun may lie in the store as a leftover (see ``sweep``), under no name that anybody asks for.
    """

    def write(self, data: bytes) -> None:
        """The next bytes; an empty piece changes nothing. Raises StoreFull, StoreIO or StoreReadOnly."""
        ...

    def commit(self) -> str:
        """Make the object durable under its name and return the name, 64 hex.

        An object of this name that is there already is replaced: equal names are equal bytes, and one that was damaged
        is mended by it. When this raises, the object may or may not be there; storing the same bytes again is always
        right.
        """
        ...

    def discard(self) -> None:
        """Let the bytes go; idempotent, and nothing after a commit."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class ArtifactStore(Protocol):
    """Holds objects by name. Thread-safe; several handles and processes may use one place at a time.

    It knows no keys and no classes: what it is given is encrypted already, or public. A name is 64 lower-case hex and
    nothing else, so no name from outside reaches a file system or a server; any other is InvalidForm. It does not
    check on reading that the bytes are those of the name: whoever reads them does.
    """

    def upload(self) -> ArtifactUpload:
        """Begin an object. Raises StoreReadOnly where nothing can be stored."""
        ...

    def read(self, name: str) -> Iterator[bytes]:
        """The bytes of an object in pieces of at most 1 MiB, read as they are asked for.

        Raises ArtifactUnavailable (state ``missing``) at the first piece when it is not there, or is no plain file of
        its own, and StoreIO when it cannot be read to its end.
        """
        ...

    def size(self, name: str) -> int | None:
        """Bytes of an object, or None when it is not there."""
        ...

    def names(self, after: str = "", limit: int = 1000) -> list[str]:
        """Names in order, those after ``after``; a page of at most ``limit``."""
        ...

    def delete(self, name: str) -> bool:
        """Remove an object durably (erasure, retention); whether it was there."""
        ...

    def sweep(self, older_than_s: float) -> int:
        """Remove leftovers of uploads that were begun so long ago that nobody is at them; how many there were."""
        ...

    def close(self) -> None:
        """Release the handle; idempotent."""
        ...
