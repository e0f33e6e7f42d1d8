"""Projections: state that an application folds from events, checkpointed, thrown away and made again (DESIGN 6)."""

from __future__ import annotations

from counterfoil.projections.declare import Projection
from counterfoil.projections.registry import declare_all, event_type, projection
from counterfoil.projections.told import AbsentContent, Told

__all__ = ["AbsentContent", "Projection", "Told", "declare_all", "event_type", "projection"]
