"""Key provider (holds key-encryption keys) and key store (holds wrapped data keys): FORMAT 12."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

Arrangement = Literal["covered", "not_covered"]


class KeyProvider(Protocol):
    """Wraps and unwraps data keys under the key-encryption key (KEK) of an epoch.

    A provider never hands a KEK out. ``unwrap`` raises :class:`counterfoil.errors.KeyWithheld` when that KEK is
    not at hand and :class:`counterfoil.errors.KeyDamaged` when the bytes were not wrapped by it.
    """

    def current(self) -> str:
        """Id (``kek_…``) of the newest KEK at hand. Raises ``KeyWithheld`` when there is none."""
        ...

    def wrap(self, kek_id: str, data_key: bytes) -> bytes:
        """Wrap 32 bytes (AES-KW, RFC 3394)."""
        ...

    def unwrap(self, kek_id: str, wrapped: bytes) -> bytes:
        """The 32 bytes that :meth:`wrap` was given."""
        ...

    def derive(self, kek_id: str, purpose: str) -> bytes:
        """32 bytes that only the holder of this KEK can make again; for subject links (FORMAT 12)."""
        ...

    def arrangement(self) -> Arrangement:
        """Whether erasure reaches copies of the ledger: ``not_covered`` while the KEK lies beside the data."""
        ...


@runtime_checkable
class EpochKeyProvider(KeyProvider, Protocol):
    """A provider that can also make a KEK and destroy one; rotation by itself needs both."""

    def new_epoch(self) -> str:
        """Make a KEK; it is durable, and :meth:`KeyProvider.current`, when its id is returned."""
        ...

    def destroy(self, kek_id: str) -> None:
        """Destroy a KEK for good; nothing happens if it is not there. The current one is refused."""
        ...


class KeyRow(Struct, frozen=True):
    """One wrapped data key (FORMAT 12). ``kek_id`` and ``wrapped`` change by rotation, the rest never.

    In a ``clear`` ledger ``kek_id`` is empty and ``wrapped`` holds the 32 bytes themselves.
    """

    key_id: str
    stream_id: str
    kek_id: str
    wrapped: bytes
    check: bytes


class SubjectRow(Struct, frozen=True):
    """Who a key belongs to: ``lookup`` and ``box`` are made under keys derived from the current KEK (FORMAT 12)."""

    key_id: str
    kek_id: str
    lookup: bytes
    box: bytes


class KeyStore(Protocol):
    """Durable rows of wrapped keys, and the epoch of each tenant: the KEK that its rows are wrapped under.

    Any number of threads and processes may use one key store, and a handle goes on working after a fork. A ``put``,
    ``replace`` or ``delete`` that returned is on disk (FORMAT 3: before the first event). Raises
    :class:`counterfoil.errors.KeyStoreMissing` when the store is not there, and the errors of
    :class:`counterfoil.errors.StoreError` when it fails.
    """

    @property
    def store_id(self) -> str:
        """Identity of this key store, recorded by the ledger so that a swapped one is noticed."""
        ...

    def epochs(self) -> Mapping[str, str]:
        """For each tenant that has keys, the id of its current KEK."""
        ...

    def put(self, keys: Sequence[KeyRow], subjects: Sequence[SubjectRow] = ()) -> None:
        """Insert rows; an existing ``key_id`` is refused with :class:`counterfoil.errors.InternalError`.

        Rows under a KEK that is no tenant's current one are refused with
        :class:`counterfoil.errors.EpochMoved`: nobody wraps a key under a KEK that a rotation is about to destroy.
        """
        ...

    def get(self, key_id: str) -> KeyRow | None:
        """The row, or None."""
        ...

    def of_stream(self, stream_id: str) -> list[KeyRow]:
        """All keys of a stream, by key id."""
        ...

    def find_subject(self, lookup: bytes, stream_id: str) -> KeyRow | None:
        """The key linked first to this subject in this stream, or None."""
        ...

    def subjects_of(self, key_id: str) -> list[SubjectRow]:
        """The links of a key, in the order they were put."""
        ...

    def scan(self, after: str = "", limit: int = 1000) -> list[KeyRow]:
        """Rows by key id, for rotation and verification."""
        ...

    def scan_subjects(self, after: int = 0, limit: int = 1000) -> list[tuple[int, SubjectRow]]:
        """Links with their rising positions in the order they were put, for rotation and verification."""
        ...

    def replace(
        self, tenant: str, epoch: str, keys: Iterable[KeyRow], subjects: Iterable[SubjectRow]
    ) -> None:
        """Make ``epoch`` the tenant's current KEK and re-wrap rows of the same ids, in one transaction (rotation).

        A tenant's epoch only rises, and a KEK serves one tenant: an ``epoch`` that is not greater than the tenant's
        current one, or that is another tenant's, is refused with :class:`counterfoil.errors.EpochMoved`. So a rotation
        that was overtaken by others never leads back to a KEK that may be destroyed by now.
        ``subjects`` holds every link of these keys in their order. Keys destroyed meanwhile stay destroyed. If any
        row would stay behind under the tenant's former KEK, or a link was added meanwhile, nothing is changed and
        :class:`counterfoil.errors.EpochMoved` is raised.
        """
        ...

    def delete(self, key_ids: Iterable[str]) -> int:
        """Destroy keys with their links (erasure); returns how many keys were there."""
        ...

    def close(self) -> None:
        """Release the handle; idempotent."""
        ...
