"""Folding: rows that follow one another and ended alike become one; doubt and refusals never do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from counterfoil.cli.render.model import AnyRow, Fold, Note, Pair

FOLD_MIN: Final = 3
"""Rows that must follow one another before they are folded; two are as short as the fold that would replace them."""


def fold(rows: Sequence[AnyRow]) -> list[AnyRow]:
    """The rows with each stretch of equal ones in one :class:`Fold`."""
    done: list[AnyRow] = []
    stretch: list[Note | Pair] = []
    for row in rows:
        mark = _mark(row)
        if stretch and mark is not None and mark == _mark(stretch[0]):
            assert isinstance(row, Note | Pair)
            stretch.append(row)
            continue
        _close(done, stretch)
        stretch = [row] if mark is not None and isinstance(row, Note | Pair) else []
        if not stretch:
            done.append(row)
    _close(done, stretch)
    return done


def _close(done: list[AnyRow], stretch: list[Note | Pair]) -> None:
    if len(stretch) < FOLD_MIN:
        done.extend(stretch)
        return
    first, last = stretch[0], stretch[-1]
    folded = Fold(
        first.sequence,
        first.time_ms,
        last=max(row.last for row in stretch),
        ended_ms=last.ended_ms,
        events=sum(row.events for row in stretch),
        first=first,
        count=len(stretch),
    )
    done.append(folded)


def _mark(row: AnyRow) -> str | None:
    """What must be equal to be folded, or None for a row that stands for itself."""
    if isinstance(row, Note):
        return row.fold if not row.below else None
    if isinstance(row, Pair) and row.small and row.cheque is not None:
        return f"effect {row.stub.tool} {row.stub.version} {row.cheque.word}"
    return None
