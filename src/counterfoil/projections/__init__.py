"""Projections: state that an application folds from events, checkpointed, thrown away and made again (DESIGN 6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from counterfoil.core.exports import exports

if TYPE_CHECKING:
    from counterfoil.projections.declare import Projection
    from counterfoil.projections.registry import declare_all, event_type, projection
    from counterfoil.projections.told import AbsentContent, Told

__all__ = ["AbsentContent", "Projection", "Told", "declare_all", "event_type", "projection"]

__getattr__: Callable[[str], Any] = exports(
    __name__,
    {
        "AbsentContent": "told",
        "Projection": "declare",
        "Told": "told",
        "declare_all": "registry",
        "event_type": "registry",
        "projection": "registry",
    },
)
