"""The turn journal: what an agent's turn did, as a hash-chained record beside any agent, holding digests and no content."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from counterfoil.core.exports import exports

if TYPE_CHECKING:
    from counterfoil.journal.chain import Chain, check_chain
    from counterfoil.journal.contract import TurnJournal, TurnReader
    from counterfoil.journal.event import TurnEvent, TurnInfo, TurnNote
    from counterfoil.journal.gateway import begin, check_start, install, uninstall
    from counterfoil.journal.hooks import Hooks, hooks_applied
    from counterfoil.journal.markers import MarkerKind, ResultMarkers
    from counterfoil.journal.memory import MemoryJournal
    from counterfoil.journal.place import open_journal
    from counterfoil.journal.recorder import TurnRecorder, current_turn
    from counterfoil.journal.settings import JournalSettings
    from counterfoil.journal.tenant import tenant_scope
    from counterfoil.journal.tools import journaled
    from counterfoil.journal.turns import TurnJournals

__all__ = [
    "Chain",
    "Hooks",
    "JournalSettings",
    "MarkerKind",
    "MemoryJournal",
    "ResultMarkers",
    "TurnEvent",
    "TurnInfo",
    "TurnJournal",
    "TurnJournals",
    "TurnNote",
    "TurnReader",
    "TurnRecorder",
    "begin",
    "check_chain",
    "check_start",
    "current_turn",
    "hooks_applied",
    "install",
    "journaled",
    "open_journal",
    "tenant_scope",
    "uninstall",
]

__getattr__: Callable[[str], Any] = exports(
    __name__,
    {
        "Chain": "chain",
        "Hooks": "hooks",
        "JournalSettings": "settings",
        "MarkerKind": "markers",
        "MemoryJournal": "memory",
        "ResultMarkers": "markers",
        "TurnEvent": "event",
        "TurnInfo": "event",
        "TurnJournal": "contract",
        "TurnJournals": "turns",
        "TurnNote": "event",
        "TurnReader": "contract",
        "TurnRecorder": "recorder",
        "begin": "gateway",
        "check_chain": "chain",
        "check_start": "gateway",
        "current_turn": "recorder",
        "hooks_applied": "hooks",
        "install": "gateway",
        "journaled": "tools",
        "open_journal": "place",
        "tenant_scope": "tenant",
        "uninstall": "gateway",
    },
)
