"""Rows of a journal as events, also rows that somebody edited into what nobody writes: SQLite holds any value anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from counterfoil.core.turn import clean_summary
from counterfoil.journal.event import OPEN, Stage, TurnEvent, TurnInfo, TurnNote, status_in

NO_NUMBER: Final = -1
"""What is shown where a number belongs and something else stands; no event has it."""

NUMBER_MAX: Final = 253_402_300_799_999
"""The last millisecond of the year 9999: a later one is no time that an event was written at."""

_TEXTS: Final = (0, 1, 3, 5, 6, 7)
_NUMBERS: Final = (2, 8)
_TEXTS_OR_NULL: Final = (4, 9)


def is_written_form(row: Sequence[Any]) -> bool:
    """Whether each field of an event's row is of the kind that is written there: text, number, text or nothing."""
    return (
        all(_is_text(row[place]) for place in _TEXTS)
        and all(_is_number(row[place]) for place in _NUMBERS)
        and all(row[place] is None or _is_text(row[place]) for place in _TEXTS_OR_NULL)
    )


def event_of(row: Sequence[Any]) -> TurnEvent:
    """The event of a row; what is not of the right kind is shown as near as can be, and no chain holds with it."""
    return TurnEvent(
        _text(row[0]),
        _text(row[1]),
        _number(row[2]),
        cast("Stage", _text(row[3])),
        _text_or_none(row[4]),
        _text(row[5]),
        _text(row[6]),
        _text(row[7]),
        _number(row[8]),
        _text_or_none(row[9]),
    )


def note_of_row(row: Sequence[Any]) -> TurnNote:
    """What a row with its tenant in front was made from."""
    event = event_of(row[1:])
    return TurnNote(
        _text(row[0]),
        event.turn_id,
        event.agent_id,
        event.type,
        event.summary,
        event.created_at_ms,
        event.payload_hash,
        event.session_hash,
    )


def info_of_row(row: Sequence[Any], commit: Sequence[Any] | None) -> TurnInfo:
    """A turn as a list shows it, from its row of the list and the summary of its last COMMIT."""
    status = OPEN if commit is None else status_in(_text(commit[0]))
    began_at_ms, changed_at_ms = _number(row[4]), _number(row[5])
    return TurnInfo(
        _text(row[0]),
        _text(row[1]),
        _text_or_none(row[2]),
        status,
        int(row[3]),
        int(row[6]),
        began_at_ms,
        changed_at_ms,
    )


def _is_text(cell: Any) -> bool:
    return isinstance(cell, str) and (cell.isascii() or clean_summary(cell) == cell)


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int) and 0 <= cell <= NUMBER_MAX


def _text(cell: Any) -> str:
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace")
    return clean_summary(str(cell))


def _text_or_none(cell: Any) -> str | None:
    return None if cell is None else _text(cell)


def _number(cell: Any) -> int:
    return cell if _is_number(cell) else NO_NUMBER
