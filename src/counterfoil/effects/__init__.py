"""External effects: declared tools, intention before and observation after, doubt ended by rule or by a human."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from counterfoil.core.exports import exports

if TYPE_CHECKING:
    from counterfoil.effects.doubt import (
        Absent,
        CannotTell,
        Found,
        by_key,
        by_lookup,
        by_repeating,
        by_review,
    )
    from counterfoil.effects.registry import find_tool, tools
    from counterfoil.effects.retry import Retry
    from counterfoil.effects.tool import Tool, effect

__all__ = [
    "Absent",
    "CannotTell",
    "Found",
    "Retry",
    "Tool",
    "by_key",
    "by_lookup",
    "by_repeating",
    "by_review",
    "effect",
    "find_tool",
    "tools",
]

__getattr__: Callable[[str], Any] = exports(
    __name__,
    {
        "Absent": "doubt",
        "CannotTell": "doubt",
        "Found": "doubt",
        "Retry": "retry",
        "Tool": "tool",
        "by_key": "doubt",
        "by_lookup": "doubt",
        "by_repeating": "doubt",
        "by_review": "doubt",
        "effect": "tool",
        "find_tool": "registry",
        "tools": "registry",
    },
)
