"""Counterfoil, the transaction log for AI agents: intention before every effect, observation after it.

``counterfoil.open("./ledger")`` opens a ledger, ``ledger.run(...)`` a run in it, ``@counterfoil.effect(...)``
declares a tool. Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counterfoil.client.ledger import Ledger
    from counterfoil.client.ledger import open as open  # noqa: A004 - public, although not in __all__
    from counterfoil.core.values import register
    from counterfoil.effects.doubt import (
        Absent,
        CannotTell,
        Found,
        by_key,
        by_lookup,
        by_repeating,
        by_review,
    )
    from counterfoil.effects.tool import effect
    from counterfoil.errors import (
        ApprovalDenied,
        CounterfoilError,
        EffectFailed,
        ModelFailed,
        NotDone,
        PolicyDenied,
        Rejected,
        RunBusy,
        RunWaiting,
        StepFailed,
    )
    from counterfoil.runtime.agents import agent
    from counterfoil.runtime.model import Request, Response
    from counterfoil.runtime.run import Run

__version__ = "0.1.0.dev0"

__all__ = [
    "Absent",
    "ApprovalDenied",
    "CannotTell",
    "CounterfoilError",
    "EffectFailed",
    "Found",
    "Ledger",
    "ModelFailed",
    "NotDone",
    "PolicyDenied",
    "Rejected",
    "Request",
    "Response",
    "Run",
    "RunBusy",
    "RunWaiting",
    "StepFailed",
    "agent",
    "by_key",
    "by_lookup",
    "by_repeating",
    "by_review",
    "effect",
    "register",
]

_PUBLIC = frozenset((*__all__, "open"))
"""``open`` is called as ``counterfoil.open``: ``from counterfoil import *`` must leave the builtin in its place."""

_HOME = {
    **dict.fromkeys(("Ledger", "open"), "counterfoil.client.ledger"),
    **dict.fromkeys(("Request", "Response"), "counterfoil.runtime.model"),
    **dict.fromkeys(
        ("Absent", "CannotTell", "Found", "by_key", "by_lookup", "by_repeating", "by_review"),
        "counterfoil.effects.doubt",
    ),
    "Run": "counterfoil.runtime.run",
    "agent": "counterfoil.runtime.agents",
    "effect": "counterfoil.effects.tool",
    "register": "counterfoil.core.values",
}
"""Where each public name lives; errors are the rest."""


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'counterfoil' has no attribute {name!r}")
    found = getattr(import_module(_HOME.get(name, "counterfoil.errors")), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
