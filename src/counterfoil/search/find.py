"""Finding: candidates from the index, the newest first, each compared as a whole, within bounds that are said."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from counterfoil.search.index import Index, scope_of
from counterfoil.search.query import Expression, Term, quoted

NEWEST: Final = 250
"""Rows that are looked through, the newest first, before a short text is looked up by the trigrams it begins."""
FILLING_MAX: Final = 4_000
"""Rows in which matches are so frequent that a page is sooner filled by looking on than by looking them up."""
SIFTED: Final = 1_000
"""Candidates named by a few trigrams that are compared before more trigrams are asked for."""
CANDIDATES_MAX: Final = 20_000
"""Rows that one call compares; a search that needs more says where it goes on."""
COMPARED_CHARACTERS_MAX: Final = 256 * 1024 * 1024

SAMPLED: Final = 64
SAMPLED_CHARACTERS: Final = 2_000
"""The newest rows, and how much of each, by which it is judged how common a trigram is."""

_LAST: Final = (1 << 63) - 1


class Place(Struct, frozen=True):
    """Where a match stands. ``doc`` is its number in the index, which falls from page to page."""

    doc: int
    stream_id: str
    sequence: int
    part: int


class Places(Struct, frozen=True):
    """Matches, the newest first, one for each event.

    ``after`` goes on behind the last row that was looked at, None where all was looked at; ``bounded`` says that this
    call stopped at its own bounds and not because it had enough.
    """

    found: tuple[Place, ...]
    after: int | None
    bounded: bool


def find(
    index: Index, expression: Expression, stream_id: str | None, limit: int, after: int | None
) -> Places:
    """At most ``limit`` events of one conversation, or (None) of all of the tenant."""
    with index.file.using() as connection:
        scope = _scope(connection, index.tenant, stream_id)
        if scope is None:
            return Places((), None, bounded=False)
        return _Finding(connection, index.tenant, expression, limit).run(
            scope, _LAST if after is None else after
        )


class _Scope(Struct, frozen=True):
    number: int | None
    match: str


def _scope(connection: sqlite3.Connection, tenant: str, stream_id: str | None) -> _Scope | None:
    if stream_id is None:
        return _Scope(None, "")
    row = connection.execute(
        "SELECT number FROM stream WHERE stream_id = ? AND tenant = ?", (stream_id, tenant)
    ).fetchone()
    return None if row is None else _Scope(row[0], quoted(scope_of(row[0])))


class _Finding:
    """One search under way."""

    def __init__(
        self, connection: sqlite3.Connection, tenant: str, expression: Expression, limit: int
    ) -> None:
        self._connection = connection
        self._tenant = tenant
        self._expression = expression
        self._limit = limit
        self._rows_left = CANDIDATES_MAX
        self._characters_left = COMPARED_CHARACTERS_MAX
        self._found: dict[tuple[str, int], Place] = {}
        self._reached = 0
        self._sample: list[str] | None = None

    def run(self, scope: _Scope, before: int) -> Places:
        """The newest rows first where the text is short; then what the index names, by a few trigrams and by more."""
        self._reached = before
        ended = self._newest(scope) if _is_short(self._expression) else None
        if ended is None:
            named = self._expression.candidates(self, thorough=False)
            ended = self._look(scope, named, SIFTED)
        if ended is None:
            named = self._expression.candidates(self, thorough=True)
            ended = self._look(scope, named, CANDIDATES_MAX)
        return self._places(ended or "bounds")

    def _newest(self, scope: _Scope) -> str | None:
        """Look through the newest rows, and on while they hold so many matches that the page fills that way."""
        looked = 0
        while looked < FILLING_MAX:
            ended = self._look(scope, None, NEWEST)
            looked += NEWEST
            if ended is not None or looked * self._limit > len(self._found) * FILLING_MAX:
                return ended
        return None

    def _look(self, scope: _Scope, named: str | None, most: int) -> str | None:
        """Compare candidates behind the last row looked at: ``end``, ``enough``, ``bounds``, or None after ``most``."""
        for looked, (doc, body) in enumerate(self._candidates(scope, named)):
            if looked >= most:
                return None
            if self._rows_left <= 0 or self._characters_left <= 0:
                return "bounds"
            if self._expression.holds(body) and not self._keep(doc, scope.number):
                return "enough"
            self._reached = doc
            self._rows_left -= 1
            self._characters_left -= len(body)
        return "end"

    def _candidates(self, scope: _Scope, named: str | None) -> Iterator[tuple[int, str]]:
        match = " AND ".join(part for part in (scope.match, f"({named})" if named else "") if part)
        if match:
            sql = "SELECT rowid, body FROM words WHERE words MATCH ? AND rowid < ? ORDER BY rowid DESC"
            return iter(self._connection.execute(sql, (match, self._reached)))
        sql = "SELECT rowid, body FROM words WHERE rowid < ? ORDER BY rowid DESC"
        return iter(self._connection.execute(sql, (self._reached,)))

    def _keep(self, doc: int, number: int | None) -> bool:
        """Keep a match; False where the page is full. Rows of other conversations and tenants are passed over."""
        row = self._connection.execute(
            "SELECT s.stream_id, s.tenant, s.number, d.seq, d.part FROM doc d"
            " JOIN stream s ON s.number = d.stream WHERE d.id = ?",
            (doc,),
        ).fetchone()
        if row is None or row[1] != self._tenant or number not in {None, row[2]}:
            return True
        event = (row[0], row[3])
        if event not in self._found and len(self._found) >= self._limit:
            return False
        self._found.setdefault(event, Place(doc, row[0], row[3], row[4]))
        return True

    # ---- what is known of trigrams ---------------------------------------------------------------------------

    def beginnings(self, text: str, most: int) -> list[str]:
        """See :class:`counterfoil.search.query.Vocabulary`."""
        rows = self._connection.execute(
            "SELECT term FROM term WHERE term >= ? AND term < ? LIMIT ?", (text, text + "\U0010ffff", most)
        )
        return [row[0] for row in rows]

    def share(self, trigram: str) -> float:
        """See :class:`counterfoil.search.query.Vocabulary`; judged by the newest rows."""
        if self._sample is None:
            rows = self._connection.execute(
                "SELECT substr(body, 1, ?) FROM words ORDER BY rowid DESC LIMIT ?",
                (SAMPLED_CHARACTERS, SAMPLED),
            )
            self._sample = [row[0] for row in rows]
        # By half a row more than was seen, since what no sampled row holds may still occur.
        return (sum(trigram in body for body in self._sample) + 0.5) / (len(self._sample) + 1)

    def _places(self, ended: str) -> Places:
        return Places(
            tuple(self._found.values()), None if ended == "end" else self._reached, ended == "bounds"
        )


def _is_short(expression: Expression) -> bool:
    return not isinstance(expression, Term) or len(expression.text) < 3
