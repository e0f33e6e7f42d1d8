"""AbsentKeyStore: stands where a key store is not found, so that headers can still be read (FORMAT 12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from counterfoil.abc.keys import KeyRow, SubjectRow
from counterfoil.errors import KeyStoreMissing


class AbsentKeyStore:
    """A ``KeyStore`` whose every use is ``KeyStoreMissing``: content is withheld, and nothing is made silently."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def store_id(self) -> str:
        """A store that is not there has no identity."""
        self._missing()

    def epochs(self) -> Mapping[str, str]:
        """See ``KeyStore.epochs``."""
        self._missing()

    def put(self, keys: Sequence[KeyRow], subjects: Sequence[SubjectRow] = ()) -> None:
        """See ``KeyStore.put``."""
        self._missing()

    def get(self, key_id: str) -> KeyRow | None:
        """See ``KeyStore.get``."""
        self._missing()

    def of_stream(self, stream_id: str) -> list[KeyRow]:
        """See ``KeyStore.of_stream``."""
        self._missing()

    def find_subject(self, lookup: bytes, stream_id: str) -> KeyRow | None:
        """See ``KeyStore.find_subject``."""
        self._missing()

    def subjects_of(self, key_id: str) -> list[SubjectRow]:
        """See ``KeyStore.subjects_of``."""
        self._missing()

    def scan(self, after: str = "", limit: int = 1000) -> list[KeyRow]:
        """See ``KeyStore.scan``."""
        self._missing()

    def scan_subjects(self, after: int = 0, limit: int = 1000) -> list[tuple[int, SubjectRow]]:
        """See ``KeyStore.scan_subjects``."""
        self._missing()

    def replace(
        self, tenant: str, epoch: str, keys: Iterable[KeyRow], subjects: Iterable[SubjectRow]
    ) -> None:
        """See ``KeyStore.replace``."""
        self._missing()

    def delete(self, key_ids: Iterable[str]) -> int:
        """See ``KeyStore.delete``."""
        self._missing()

    def close(self) -> None:
        """There is nothing to release."""

    def _missing(self) -> NoReturn:
        raise KeyStoreMissing(f"the key store {self._path} is not there", path=str(self._path))
