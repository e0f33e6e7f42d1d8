"""Turns of a ledger: every run has one, folded from its events, listed and checked like those of any journal (DESIGN 8)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterfoil.client.handle import Handle
from counterfoil.client.ports import LedgerPorts
from counterfoil.core.bounds import check_count, check_texts
from counterfoil.core.ids import is_id
from counterfoil.errors import InvalidForm, TurnNotFound
from counterfoil.flow.drive import drive
from counterfoil.flow.requests import Events
from counterfoil.journal.chain import Chain
from counterfoil.journal.contract import MAX_LIST
from counterfoil.journal.event import OPEN, TurnEvent, TurnInfo
from counterfoil.journal.fold import (
    RunTurn,
    run_of_turn,
    stages_of,
    status_of,
    turn_of_run,
)
from counterfoil.journal.rows import TURNS
from counterfoil.journal.source import TURN_TYPES, Source
from counterfoil.runtime.recover import given_up
from counterfoil.runtime.rows import RUNS
from counterfoil.runtime.state import FINISHED
from counterfoil.runtime.turn import abandon_turn, due_turns, keep_turn, session_of, turn_of_row
from counterfoil.store.rows import Key, Row

PAGE_ROWS: Final = 200

COUNTED_MAX: Final = 500
"""Ledger events that are looked at to count those of one listed turn whose head is not kept."""


class LedgerTurns:
    """The turns of a ledger as a :class:`~counterfoil.journal.contract.TurnReader`: nothing is stored beside the events."""

    def __init__(self, ports: LedgerPorts) -> None:
        self._ports = ports
        self._sessions: dict[str, str | None] = {}

    def events(self, tenant: str, turn_id: str) -> list[TurnEvent]:
        """See the contract."""
        return self.checked(tenant, turn_id)[0]

    def checked(self, tenant: str, turn_id: str) -> tuple[list[TurnEvent], Chain]:
        """See the contract: against the head that the ledger keeps of the turn, if it keeps one."""
        row = self.row(tenant, turn_id)
        if row is None:
            return [], Chain(None)
        turn = self.turn(row)
        return turn.events, turn.chain

    def turns(
        self,
        tenant: str,
        *,
        agent_id: str | None = None,
        session_hash: str | None = None,
        limit: int = MAX_LIST,
    ) -> list[TurnInfo]:
        """See the contract. Runs are looked through from the newest; :meth:`of_stream` knows where to look."""
        return self._listed(tenant, None, agent_id, session_hash, limit)

    def of_stream(
        self, stream_id: str, *, agent_id: str | None = None, limit: int = MAX_LIST
    ) -> list[TurnInfo]:
        """The turns of one conversation, newest first."""
        return self._listed(self._ports.tenant, stream_id, agent_id, None, limit)

    def _listed(
        self,
        tenant: str,
        stream_id: str | None,
        agent_id: str | None,
        session_hash: str | None,
        limit: int,
    ) -> list[TurnInfo]:
        check_count("limit", limit)
        found: list[TurnInfo] = []
        if tenant != self._ports.tenant:
            return found
        for row in self.rows(stream_id):
            if len(found) >= limit:
                break
            info = self._info(row)
            if agent_id in (None, info.agent_id) and session_hash in (None, info.session_hash):
                found.append(info)
        return found

    def rows(self, stream_id: str | None) -> Iterator[Row]:
        """Rows of runs, of one conversation or all, the newest first."""
        index, prefix = (
            ("by_tenant", (self._ports.tenant,)) if stream_id is None else ("by_stream", (stream_id,))
        )
        after: Key | None = None
        while page := self._ports.store.select(RUNS, index, prefix, after, PAGE_ROWS, descending=True):
            yield from page
            after = (*prefix, page[-1]["run_id"], page[-1]["run_id"])

    def _info(self, row: Row) -> TurnInfo:
        finished = row["state"] == FINISHED
        return TurnInfo(
            turn_id=turn_of_run(str(row["run_id"])),
            agent_id=str(row["agent"]),
            session_hash=self._session(str(row["stream_id"])),
            status=status_of(str(row["terminal"])) if finished else OPEN,
            events=self.count(row),
            attempts=1,
            began_at_ms=int(row["started_at_ms"] or 0),
            changed_at_ms=int(row["changed_at_ms"] or 0),
        )

    def row(self, tenant: str, turn_id: str) -> Row | None:
        """The run behind a turn; None if there is none of this tenant."""
        if not is_id(turn_id, "trn"):
            return None
        row = self._ports.store.get(RUNS, (run_of_turn(turn_id),))
        return row if row is not None and row["tenant"] == tenant == self._ports.tenant else None

    def turn(self, row: Row) -> RunTurn:
        """The turn of a run, with what the ledger keeps of its head."""
        return drive(turn_of_row(self._ports, row), self._ports)[1]

    def count(self, row: Row) -> int | None:
        """How many events the turn of a run has, from headers alone; None for one of more than :data:`COUNTED_MAX`."""
        kept = self._ports.store.get(TURNS.name, (str(row["run_id"]),))
        if kept is not None and kept["events"] is not None:
            return int(kept["events"])
        query = Events(str(row["stream_id"]), types=TURN_TYPES, run_id=str(row["run_id"]), limit=COUNTED_MAX)
        events = list(self._ports.events(query))
        if len(events) == COUNTED_MAX:
            return None
        return stages_of(map(Source.closed, events)) + (row["admission_id"] is not None)

    def _session(self, stream_id: str) -> str | None:
        if stream_id not in self._sessions:
            self._sessions[stream_id] = session_of(self._ports, stream_id)
        return self._sessions[stream_id]


class Journaling(Handle):
    """The turns of a ledger: every run has one, whether or not heads are kept."""

    @property
    def journal(self) -> LedgerTurns:
        """The turns as a reader, for the two answers of :mod:`counterfoil.journal.answers`."""
        return LedgerTurns(self.ports)

    def turns(
        self, *, agent: str | None = None, session: str | None = None, limit: int = MAX_LIST
    ) -> list[TurnInfo]:
        """Turns, newest first: of an agent, of a session (a conversation, by name or stream id), or all."""
        check_count("limit", limit)
        check_texts("what turns are found by", (agent,))  # a conversation may have any name
        if session is not None:
            stream_id = self._find(session)
            return [] if stream_id is None else self.journal.of_stream(stream_id, agent_id=agent, limit=limit)
        return self.journal.turns(self.tenant, agent_id=agent, limit=limit)

    def turn(self, turn_id: str) -> RunTurn:
        """One turn, by its own id or its run's. Raises ``TurnNotFound``."""
        wanted = turn_of_run(turn_id) if is_id(turn_id, "run") else turn_id
        row = self.journal.row(self.tenant, wanted)
        if row is None:
            raise TurnNotFound(
                f"there is no turn {turn_id} in {self.place}",
                hint="`counterfoil turns` lists them",
                turn_id=turn_id,
            )
        return self.journal.turn(row)

    def abandon_turns(self, older_than_s: float) -> list[str]:
        """Record ``turn.abandoned`` for turns whose worker is gone and that nothing came to for so long; their ids.

        The run itself stays open: ``recover`` and the same code run again go on with it.
        """
        self.check_writable()
        if older_than_s < 0:
            raise InvalidForm("older_than_s is a number of seconds", argument="older_than_s")
        told = [abandon_turn(self.ports, row) for row in given_up(self.ports, older_than_s)]
        return [turn.turn_id for turn in told if turn is not None and turn.done == "abandoned"]

    def keep_turns(self, *, session: str | None = None) -> list[str]:
        """Record the heads of ended turns that the ledger does not keep yet; their ids. Each turn has one head.

        For runs that ended by another's hand (superseded, cancelled from outside, left by a worker that vanished) or
        before heads were kept; a worker on a handle with ``turns=True`` does the same. They are found by an index.
        All conversations, unless one is named.
        """
        self.check_writable()
        stream_id = None if session is None else self._find(session)
        if session is not None and stream_id is None:
            return []
        due = [row for row in due_turns(self.ports) if stream_id in (None, row["stream_id"])]
        told = [keep_turn(self.ports, row) for row in due]
        return [turn.turn_id for turn in told if turn is not None and turn.done == "kept"]
