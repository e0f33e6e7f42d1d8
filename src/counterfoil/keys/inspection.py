"""Inspection: what is wrong with the rows of a key store, for verify (FORMAT 12 and 18)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from counterfoil.abc.keys import KeyRow, SubjectRow
from counterfoil.errors import AccessError, IntegrityError, KeyDamaged
from counterfoil.keys.keyring import Keyring

PAGE_ROWS: Final = 1000


class KeyFault(Struct, frozen=True):
    """One row that is not what was written, or (``withheld``) could not be looked at for want of its KEK."""

    key_id: str
    stream_id: str
    what: str
    withheld: bool = False


class KeyCount(Struct):
    """How many rows an inspection has looked at, and how many of them it could open."""

    keys: int = 0
    opened: int = 0
    links: int = 0


def inspect(keyring: Keyring, count: KeyCount | None = None) -> Iterator[KeyFault]:
    """Unwrap and check every row of the key store, and open every subject link; yields what is wrong.

    Bounded memory. Rows are read page by page while others may write. ``count`` is filled along the way. Raises
    KeyStoreMissing when the store is not there.
    """
    count = KeyCount() if count is None else count
    current = {*keyring.store.epochs().values(), ""}
    after = ""
    while page := keyring.store.scan(after, PAGE_ROWS):
        for row in page:
            count.keys += 1
            fault = _fault_of_key(keyring, row, current)
            if fault is None:
                count.opened += 1
            else:
                yield fault
        after = page[-1].key_id
    yield from _faults_of_links(keyring, count, current)


def _fault_of_key(keyring: Keyring, row: KeyRow, current: set[str]) -> KeyFault | None:
    if row.kek_id not in current:
        return KeyFault(
            row.key_id, row.stream_id, f"wrapped under {row.kek_id}, which is no tenant's current epoch"
        )
    try:
        keyring.unwrap(row)
    except KeyDamaged as error:
        return KeyFault(row.key_id, row.stream_id, error.message)
    except AccessError as error:
        return KeyFault(row.key_id, row.stream_id, error.message, withheld=True)
    return None


def _faults_of_links(keyring: Keyring, count: KeyCount, current: set[str]) -> Iterator[KeyFault]:
    after = 0
    while page := keyring.store.scan_subjects(after, PAGE_ROWS):
        for _, link in page:
            count.links += 1
            fault = _fault_of_link(keyring, link, current)
            if fault is not None:
                yield fault
        after = page[-1][0]


def _fault_of_link(keyring: Keyring, link: SubjectRow, current: set[str]) -> KeyFault | None:
    key = keyring.store.get(link.key_id)
    if key is None:
        return KeyFault(link.key_id, "", "a subject is linked to a key that is not there")
    if link.kek_id != key.kek_id or link.kek_id not in current:
        return KeyFault(link.key_id, key.stream_id, "its subject link was made under another epoch")
    try:
        keyring.link_keys(link.kek_id).open(link)
    except IntegrityError as error:
        return KeyFault(link.key_id, key.stream_id, error.message)
    except AccessError as error:
        return KeyFault(link.key_id, key.stream_id, error.message, withheld=True)
    return None
