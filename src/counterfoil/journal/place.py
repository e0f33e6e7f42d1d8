"""A journal by where it lies: in memory, in a SQLite file, or in PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from counterfoil.errors import ConfigInvalid
from counterfoil.journal.contract import TurnJournal
from counterfoil.journal.memory import MemoryJournal
from counterfoil.journal.sqlite import SqliteJournal

MEMORY: Final = ":memory:"


def open_journal(place: str | Path, *, create: bool = True) -> TurnJournal:
    """``":memory:"``, a path, or a ``postgresql://`` address. Nothing is connected or made before it is needed.

    Raises ``ConfigInvalid`` when the driver that an address needs is not installed.
    """
    if place == MEMORY:
        return MemoryJournal()
    if isinstance(place, str) and place.startswith(("postgresql://", "postgres://")):
        try:
            from counterfoil.journal.postgres import PostgresJournal
        except ImportError as missing:
            raise ConfigInvalid(
                f"a journal in PostgreSQL needs a driver: {missing}", hint="pip install counterfoil[postgres]"
            ) from missing
        return PostgresJournal(place, create=create)
    return SqliteJournal(place, create=create)
