"""What a run is lent to spawn children with."""

from __future__ import annotations

from msgspec import Struct

from counterfoil.abc import ChildHost


class Nursery(Struct, frozen=True):
    """What a run spawns children with: who carries them out, and how deep they may lie."""

    host: ChildHost
    depth_max: int
