"""The journal in a database: one table, its statements by name, and the retry of a lost race (seed 000).

The two engines differ in how they begin, in how they say that a row is there already, and in how a parameter is
written; everything else is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol, TypeVar

from counterfoil.core.bounds import check_count
from counterfoil.errors import StoreBusy
from counterfoil.journal.cells import event_of, info_of_row, is_written_form, note_of_row
from counterfoil.journal.chain import Chain, check_chain
from counterfoil.journal.contract import MAX_LIST
from counterfoil.journal.event import TurnEvent, TurnInfo, TurnNote, linked

T = TypeVar("T")

TRIES_MAX: Final = 64
"""How often an append begins again because another writer took the sequence."""

_COLUMNS: Final = (
    "turn_id, agent_id, seq, type, payload_hash, summary, prev_hash, hash, created_at_ms, session_hash"
)

INSERT: Final = (
    f"INSERT INTO turn_journal_event (tenant, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - fixed names
)
"""One event. The primary key refuses a sequence that is taken."""

HEAD: Final = "SELECT seq, hash FROM turn_journal_event WHERE turn_id = ? ORDER BY seq DESC LIMIT 1"
"""What the next event of a turn follows."""

EVENTS: Final = f"SELECT {_COLUMNS} FROM turn_journal_event WHERE tenant = ? AND turn_id = ? ORDER BY seq"  # noqa: S608 - fixed names
"""A turn whole."""

_LISTED: Final = """
SELECT turn_id, MIN(agent_id), MIN(session_hash), COUNT(*), MIN(created_at_ms) AS began_at_ms, MAX(created_at_ms),
       COUNT(CASE WHEN type = 'INTAKE' THEN 1 END)
FROM turn_journal_event WHERE tenant = ? {narrowed}
GROUP BY turn_id ORDER BY began_at_ms DESC, turn_id DESC LIMIT ?
"""
"""Turns as a list shows them, all but their status; ``narrowed`` is one of the fixed conditions below."""

_BY_AGENT: Final = "AND agent_id = ?"
_BY_SESSION: Final = "AND session_hash = ?"

LAST_COMMIT: Final = (
    "SELECT summary FROM turn_journal_event WHERE turn_id = ? AND type = 'COMMIT' ORDER BY seq DESC LIMIT 1"
)
"""What a turn's status is read from."""

ERASE_TURN: Final = "DELETE FROM turn_journal_event WHERE tenant = ? AND turn_id = ?"
ERASE_SESSION: Final = "DELETE FROM turn_journal_event WHERE tenant = ? AND session_hash = ?"

_OLD: Final = "SELECT turn_id FROM turn_journal_event {where} GROUP BY turn_id HAVING MAX(created_at_ms) < ?"
PRUNE: Final = f"DELETE FROM turn_journal_event WHERE turn_id IN ({_OLD.format(where='')})"  # noqa: S608 - fixed names
PRUNE_TENANT: Final = (
    f"DELETE FROM turn_journal_event WHERE turn_id IN ({_OLD.format(where='WHERE tenant = ?')})"  # noqa: S608 - fixed names
)
"""Whole turns alone, so that what is left verifies."""

OPEN_TURNS: Final = f"""
SELECT tenant, {_COLUMNS} FROM turn_journal_event AS event
WHERE NOT EXISTS (SELECT 1 FROM turn_journal_event AS later WHERE later.turn_id = event.turn_id
                  AND (later.type = 'COMMIT' OR later.seq > event.seq))
  AND created_at_ms < ? AND (tenant = ? OR CAST(? AS text) IS NULL)
ORDER BY turn_id LIMIT ?
"""  # noqa: S608 - fixed names
"""The last event of each turn that nobody committed."""


class Cursor(Protocol):
    """What both drivers' cursors have."""

    @property
    def rowcount(self) -> int:
        """Rows that the statement changed."""
        ...

    def fetchone(self) -> Any:
        """The next row, or None."""
        ...

    def fetchall(self) -> list[Any]:
        """All rows."""
        ...


class Run(Protocol):
    """Runs one statement, whose parameters are written as ``?``."""

    def __call__(self, statement: str, parameters: Sequence[Any] = (), /) -> Cursor:
        """The statement's cursor."""
        ...


class SqlJournal(ABC):
    """A :class:`~counterfoil.journal.contract.TurnJournal` in a database."""

    reads_context: bool = False

    @abstractmethod
    def transaction(self, *, removes: bool = False) -> AbstractContextManager[Run]:
        """One transaction for writing, committed when the block ends; ``removes`` lifts the refusal of DELETE in it."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Run]:
        """One consistent view."""

    @abstractmethod
    def lost_race(self, error: BaseException) -> bool:
        """Whether this says that another writer was first, and nothing was recorded."""

    @abstractmethod
    def close(self) -> None:
        """See the contract."""

    def append(self, notes: Sequence[TurnNote]) -> list[TurnEvent]:
        """See the contract. Raises ``StoreBusy`` after 64 lost races."""
        return self._raced(lambda run: self._insert(run, notes))

    def end_open(self, commit: TurnNote) -> bool:
        """See the contract. Raises as :meth:`append`."""

        def end(run: Run) -> bool:
            if self.head(run, commit.turn_id) is None or run(LAST_COMMIT, (commit.turn_id,)).fetchone():
                return False
            self._insert(run, [commit])
            return True

        return self._raced(end)

    def _raced(self, work: Callable[[Run], T]) -> T:
        """Do this in one transaction, again where another writer was first."""
        lost: BaseException | None = None
        for _ in range(TRIES_MAX):
            try:
                with self.transaction() as run:
                    return work(run)
            except Exception as error:
                if not self.lost_race(error):
                    raise
                lost = error
        raise StoreBusy(
            f"another writer was first {TRIES_MAX} times while an event of a turn was written"
        ) from lost

    def _insert(self, run: Run, notes: Sequence[TurnNote]) -> list[TurnEvent]:
        made: list[TurnEvent] = []
        heads: dict[str, tuple[int, str] | None] = {}
        for note in notes:
            if note.turn_id not in heads:
                heads[note.turn_id] = self.head(run, note.turn_id)
            event = linked(note, heads[note.turn_id])
            run(INSERT, (note.tenant, *_cells(event)))
            heads[note.turn_id] = (event.seq, event.hash)
            made.append(event)
        return made

    def head(self, run: Run, turn_id: str) -> tuple[int, str] | None:
        """Sequence and hash of the last event of a turn."""
        found = run(HEAD, (turn_id,)).fetchone()
        return None if found is None else (int(found[0]), str(found[1]))

    def events(self, tenant: str, turn_id: str) -> list[TurnEvent]:
        """See the contract."""
        with self.reading() as run:
            return [event_of(row) for row in run(EVENTS, (tenant, turn_id)).fetchall()]

    def checked(self, tenant: str, turn_id: str) -> tuple[list[TurnEvent], Chain]:
        """See the contract."""
        with self.reading() as run:
            rows = run(EVENTS, (tenant, turn_id)).fetchall()
        events = [event_of(row) for row in rows]
        chain = check_chain(events)
        unlike = next((seq for seq, row in enumerate(rows) if not is_written_form(row)), None)
        if unlike is None or (chain.broken_at_seq is not None and chain.broken_at_seq < unlike):
            return events, chain
        return events, Chain(unlike, "a field of the event is not of the kind that is written there")

    def turns(
        self,
        tenant: str,
        *,
        agent_id: str | None = None,
        session_hash: str | None = None,
        limit: int = MAX_LIST,
    ) -> list[TurnInfo]:
        """See the contract."""
        check_count("limit", limit)
        given = ((_BY_AGENT, agent_id), (_BY_SESSION, session_hash))
        narrowed = [(condition, value) for condition, value in given if value is not None]
        statement = _LISTED.format(narrowed=" ".join(condition for condition, _ in narrowed))
        with self.reading() as run:
            rows = run(statement, (tenant, *(value for _, value in narrowed), limit)).fetchall()
            return [info_of_row(row, run(LAST_COMMIT, (row[0],)).fetchone()) for row in rows]

    def erase(self, tenant: str, *, turn_id: str | None = None, session_hash: str | None = None) -> int:
        """See the contract."""
        if turn_id is None and session_hash is None:
            return 0
        statement, what = (ERASE_TURN, turn_id) if session_hash is None else (ERASE_SESSION, session_hash)
        with self.transaction(removes=True) as run:
            return run(statement, (tenant, what)).rowcount

    def prune(self, before_ms: int, *, tenant: str | None = None) -> int:
        """See the contract."""
        statement, given = (PRUNE, ()) if tenant is None else (PRUNE_TENANT, (tenant,))
        with self.transaction(removes=True) as run:
            return run(statement, (*given, before_ms)).rowcount

    def open_turns(
        self, before_ms: int, *, tenant: str | None = None, limit: int = MAX_LIST
    ) -> list[TurnNote]:
        """See the contract."""
        check_count("limit", limit)
        with self.reading() as run:
            rows = run(OPEN_TURNS, (before_ms, tenant, tenant, limit)).fetchall()
        return [note_of_row(row) for row in rows]


def _cells(event: TurnEvent) -> tuple[Any, ...]:
    return (
        event.turn_id,
        event.agent_id,
        event.seq,
        event.type,
        event.payload_hash,
        event.summary,
        event.prev_hash,
        event.hash,
        event.created_at_ms,
        event.session_hash,
    )
