"""Ids of imported events, derived from the bytes of their record, so that importing again adds only what is new."""

from __future__ import annotations

from msgspec import Struct

from counterfoil.core.ids import derived_id
from counterfoil.core.keyed import KeyMaterial


class Source(Struct, frozen=True):
    """The bytes that ids are derived from (FORMAT 1): a line, or of one too long to hold its digest.

    ``name`` is the format and the session; ``occurrence`` counts equal lines of the session before this one, so that
    a line written twice is two records, and each is found again when the file is read again or has grown.
    """

    material: KeyMaterial
    name: str
    occurrence: int
    data: bytes

    def id(self, prefix: str, part: str) -> str:
        """The id of one thing that the record brought: ``evt`` and its number, a step, a call, an admission."""
        position = f"{self.occurrence}/{part}"
        return derived_id(prefix, self.material.keyed("derived-id", (self.name, position), self.data))
