"""Opening the content of events that were found intact, for what is derived from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counterfoil.core.canonical import decode
from counterfoil.core.event import Header
from counterfoil.core.genesis import Genesis
from counterfoil.core.keyed import KeyMaterial
from counterfoil.core.records import open_record
from counterfoil.errors import CounterfoilError
from counterfoil.keys.keyring import Keyring
from counterfoil.store.facts import resolved


class Opener:
    """Opens the content of one stream's events; a part that cannot be opened is None, and said elsewhere.

    Keys are kept by the keyring alone, which forgets them in time (FORMAT 11); only those that are not at hand are
    remembered.
    """

    def __init__(self, genesis: Genesis, keyring: Keyring | None) -> None:
        self.genesis: Genesis = genesis
        self._keyring = keyring
        self._absent: set[str] = set()

    def open(self, header: Header, records: Mapping[int, bytes | None]) -> dict[str, Any] | None:
        """Part 0 with other parts put in, or None where it cannot be opened or the event has no content."""
        parts = [self._part(header, part, records.get(part)) for part in range(len(header.content))]
        whole = resolved(parts)
        return None if whole is None else dict(whole)

    def _part(self, header: Header, part: int, record: bytes | None) -> dict[str, Any] | None:
        reference = header.content[part]
        key_id = reference.key or self.genesis.key
        if record is None:
            return None
        try:
            content = open_record(
                self._material(key_id),
                "content",
                (header.event_id, part),
                record,
                reference.commitment,
                mode=self.genesis.content,
            )
            value = decode(content)
        except CounterfoilError:
            return None
        return value if type(value) is dict else None

    def _material(self, key_id: str) -> KeyMaterial | None:
        if self._keyring is None or key_id in self._absent:
            return None
        try:
            return self._keyring.material(key_id)
        except CounterfoilError:
            self._absent.add(key_id)
            return None
