"""Who keeps derived state as runs go on: told of each append, never in its way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from counterfoil.flow.requests import UnitDraft


class Keeper(Protocol):
    """Keeps derived state as runs go on. It never raises: what it keeps only accelerates."""

    def due(self, unit: UnitDraft) -> list[tuple[str, str | None]]:
        """What is to be kept once this unit is recorded: (stream, run)."""
        ...

    def keep(self, due: Sequence[tuple[str, str | None]]) -> None:
        """Keep it."""
        ...
