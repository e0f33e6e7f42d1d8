"""A journal by where it lies: in memory, in a SQLite file, or in PostgreSQL."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from counterfoil.errors import ConfigInvalid, InvalidForm
from counterfoil.journal.contract import TurnJournal
from counterfoil.journal.memory import MemoryJournal
from counterfoil.journal.sqlite import SqliteJournal

_OTHER_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://").match
MEMORY: Final = ":memory:"


def open_journal(place: str | Path, *, create: bool = True) -> TurnJournal:
    """``":memory:"``, a path, or a ``postgresql://`` address. Nothing is connected or made before it is needed.

    Raises ``ConfigInvalid`` when the driver that an address needs is not installed, ``InvalidForm`` for what is no place.
    """
    given: object = place
    if not isinstance(given, str | Path) or not str(given):
        raise InvalidForm(
            "a journal's place is a path, a postgresql:// address or :memory:", argument="place"
        )
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
    if isinstance(place, str) and _OTHER_ADDRESS(place):
        # The address itself may hold a password.
        raise InvalidForm(
            f"a journal cannot lie at a {place.partition('://')[0]}:// address",
            hint="use a path or a postgresql:// address",
            argument="place",
        )
    return SqliteJournal(place, create=create)
