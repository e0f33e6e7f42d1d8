"""MemoryKeyStore: wrapped data keys that live as long as the object; the oracle of the key store contract."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from counterfoil.abc.keys import KeyRow, SubjectRow
from counterfoil.errors import EpochMoved, InternalError, StoreClosed


class _Rows(Struct):
    """All rows of a key store; links carry rising positions."""

    keys: dict[str, KeyRow] = field(default_factory=dict)
    links: dict[int, SubjectRow] = field(default_factory=dict)
    epochs: dict[str, str] = field(default_factory=dict)

    def copy(self) -> _Rows:
        return _Rows(dict(self.keys), dict(self.links), dict(self.epochs))


class MemoryKeyStore:
    """A ``KeyStore`` in memory. Writes are made on a copy that takes the place of the rows when all went well."""

    def __init__(self) -> None:
        self._store_id = secrets.token_hex(16)
        self._lock = threading.RLock()
        self._rows = _Rows()
        self._last_position = 0
        self._closed = False

    @property
    def store_id(self) -> str:
        """See ``KeyStore.store_id``."""
        return self._store_id

    def epochs(self) -> Mapping[str, str]:
        """See ``KeyStore.epochs``."""
        with self._lock:
            return dict(self._open_rows().epochs)

    def put(self, keys: Sequence[KeyRow], subjects: Sequence[SubjectRow] = ()) -> None:
        """See ``KeyStore.put``."""
        with self._lock:
            rows = self._open_rows().copy()
            _check_current(rows, {key.kek_id for key in keys} | {link.kek_id for link in subjects})
            for key in keys:
                if key.key_id in rows.keys:
                    raise InternalError(f"the data key {key.key_id} exists already", key_id=key.key_id)
                rows.keys[key.key_id] = key
            position = self._last_position
            for link in subjects:
                if link.key_id not in rows.keys:
                    raise InternalError(
                        f"a subject is linked to {link.key_id}, which is no key", key_id=link.key_id
                    )
                position += 1
                rows.links[position] = link
            self._rows, self._last_position = rows, position

    def get(self, key_id: str) -> KeyRow | None:
        """See ``KeyStore.get``."""
        with self._lock:
            return self._open_rows().keys.get(key_id)

    def of_stream(self, stream_id: str) -> list[KeyRow]:
        """See ``KeyStore.of_stream``."""
        with self._lock:
            rows = self._open_rows()
            return [row for _, row in sorted(rows.keys.items()) if row.stream_id == stream_id]

    def find_subject(self, lookup: bytes, stream_id: str) -> KeyRow | None:
        """See ``KeyStore.find_subject``."""
        with self._lock:
            rows = self._open_rows()
            for _, link in sorted(rows.links.items()):
                key = rows.keys[link.key_id]
                if link.lookup == lookup and key.stream_id == stream_id:
                    return key
            return None

    def subjects_of(self, key_id: str) -> list[SubjectRow]:
        """See ``KeyStore.subjects_of``."""
        with self._lock:
            return [link for _, link in sorted(self._open_rows().links.items()) if link.key_id == key_id]

    def scan(self, after: str = "", limit: int = 1000) -> list[KeyRow]:
        """See ``KeyStore.scan``."""
        with self._lock:
            return [row for key_id, row in sorted(self._open_rows().keys.items()) if key_id > after][:limit]

    def scan_subjects(self, after: int = 0, limit: int = 1000) -> list[tuple[int, SubjectRow]]:
        """See ``KeyStore.scan_subjects``."""
        with self._lock:
            return [item for item in sorted(self._open_rows().links.items()) if item[0] > after][:limit]

    def replace(
        self, tenant: str, epoch: str, keys: Iterable[KeyRow], subjects: Iterable[SubjectRow]
    ) -> None:
        """See ``KeyStore.replace``."""
        renewed = {key.key_id: key for key in keys}
        links: dict[str, list[SubjectRow]] = {key_id: [] for key_id in renewed}
        for link in subjects:
            links[link.key_id].append(link)
        with self._lock:
            rows = self._open_rows().copy()
            former = rows.epochs.get(tenant, "")
            _check_rises(rows, tenant, epoch)
            rows.epochs[tenant] = epoch
            for key_id in renewed.keys() & rows.keys.keys():
                rows.keys[key_id] = renewed[key_id]
                places = [place for place, link in sorted(rows.links.items()) if link.key_id == key_id]
                if len(places) != len(links[key_id]):
                    raise EpochMoved(
                        f"a subject was linked to {key_id} while it was re-wrapped", key_id=key_id
                    )
                rows.links.update(zip(places, links[key_id], strict=True))
            if former and any(key.kek_id == former for key in rows.keys.values()):
                raise EpochMoved(f"keys were added under {former} while it was replaced", kek_id=former)
            self._rows = rows

    def delete(self, key_ids: Iterable[str]) -> int:
        """See ``KeyStore.delete``."""
        doomed = set(key_ids)
        with self._lock:
            rows = self._open_rows().copy()
            before = len(rows.keys)
            rows.keys = {key_id: key for key_id, key in rows.keys.items() if key_id not in doomed}
            rows.links = {place: link for place, link in rows.links.items() if link.key_id not in doomed}
            self._rows = rows
            return before - len(rows.keys)

    def close(self) -> None:
        """See ``KeyStore.close``."""
        with self._lock:
            self._closed = True

    def _open_rows(self) -> _Rows:
        if self._closed:
            raise StoreClosed("this key store is closed", hint="open the ledger again")
        return self._rows


def _check_rises(rows: _Rows, tenant: str, epoch: str) -> None:
    former = rows.epochs.get(tenant, "")
    if epoch <= former:
        raise EpochMoved(
            f"the epoch of {tenant} is {former} by now, and never goes back to {epoch}", kek_id=former
        )
    if epoch in rows.epochs.values():
        raise EpochMoved(f"{epoch} serves another tenant already", kek_id=epoch)


def _check_current(rows: _Rows, kek_ids: Iterable[str]) -> None:
    stale = set(kek_ids) - set(rows.epochs.values()) - {""}
    if stale:
        kek_id = min(stale)
        raise EpochMoved(f"{kek_id} is not the current key-encryption key of any tenant", kek_id=kek_id)
