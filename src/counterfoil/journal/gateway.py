"""One journal for the whole process, for code that is made by hand and given none: install it once, begin turns anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counterfoil.journal.off import NO_TURN
from counterfoil.journal.recorder import Decided, TurnRecorder
from counterfoil.journal.settings import JournalSettings
from counterfoil.journal.turns import TurnJournals, check_installed

_installed: list[TurnJournals] = []


def install(journals: TurnJournals) -> TurnJournals:
    """Make this the journal of the process, in place of another; returns it."""
    _installed[:] = [journals]
    return journals


def uninstall() -> None:
    """Turns begun from here on are not journaled. What is queued is still written."""
    _installed.clear()


def installed() -> TurnJournals | None:
    """The journal of the process."""
    return _installed[0] if _installed else None


def begin(
    agent: str,
    *,
    message: Any = None,
    session: str | None = None,
    decided: Mapping[str, Decided] | None = None,
) -> TurnRecorder:
    """As :meth:`TurnJournals.begin`, with the journal of the process; a no-op when there is none."""
    journals = installed()
    if journals is None:
        return NO_TURN
    return journals.begin(agent, message=message, session=session, decided=decided)


def check_start(settings: JournalSettings) -> None:
    """To be called when the application starts: is what the settings switch on installed? As :func:`check_installed`."""
    journals = installed()
    check_installed(settings, installed=journals is not None and journals.journal is not None)
