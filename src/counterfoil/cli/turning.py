"""Where a command finds turns: in the ledger, or in the journal that ``--journal`` names."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import Struct, field

from counterfoil.cli.commanding import without_password
from counterfoil.cli.face import Face
from counterfoil.errors import ChainBroken, InputError, StoreIO, TurnNotFound
from counterfoil.journal.chain import Chain
from counterfoil.journal.contract import TurnReader
from counterfoil.journal.event import TurnEvent
from counterfoil.journal.fold import RunTurn

if TYPE_CHECKING:
    from counterfoil.client.ledger import Ledger

F = TypeVar("F", bound=Callable[..., Any])


def journal_option(function: F) -> F:
    """Adds ``--journal``."""
    told = "A journal's file or postgresql:// address, in place of a ledger."
    decorated: F = click.option("--journal", metavar="PLACE", help=told)(function)
    return decorated


class FoundTurn(Struct, frozen=True):
    """A turn with what checking it came to. ``head`` is where the chain ends; ``kept`` whether a ledger keeps it.

    ``hidden`` are events whose content cannot be had; with ``compared`` all the others were compared with what is kept.
    """

    events: list[TurnEvent]
    chain: Chain
    head: str | None
    kept: bool = False
    closed: str | None = None
    hidden: Mapping[int, str] = field(default_factory=dict)
    compared: bool = False

    @property
    def readable_apart(self) -> Mapping[int, str]:
        """What is hidden, where everything else was checked all the same."""
        return self.hidden if self.compared else {}


@contextmanager
def opened_journal(face: Face, place: str) -> Iterator[tuple[TurnReader, str]]:
    """The journal at a place, for reading, and the tenant to read as. A driver's error is told as ``StoreIO``.

    A journal has nowhere to record who reads, so it is refused to say so: whoever gives ``--as`` counts on a record.
    """
    if face.reader is not None:
        raise click.UsageError(
            "--as is recorded in a ledger, and --journal reads a file beside none: leave one out"
        )
    from counterfoil.journal.place import open_journal

    journal = open_journal(place, create=False)
    try:
        yield journal, face.tenant or face.config.tenant
    except Exception as error:
        # The driver of PostgreSQL need not be installed, so its errors are known by where they come from.
        if not isinstance(error, sqlite3.Error) and not type(error).__module__.startswith("psycopg"):
            raise
        shown, told = without_password(place), str(error).strip().partition("\n")[0]
        raise StoreIO(f"the journal {shown} cannot be read: {told}", place=shown) from error
    finally:
        journal.close()


def find_turn(face: Face, turn_id: str, place: str | None) -> FoundTurn:
    """One turn, checked. Raises ``TurnNotFound``."""
    if place is None:
        with face.shows() as ledger:
            turn = _turn_of(ledger, turn_id)
        head = turn.head or (turn.events[-1].hash if turn.events else None)
        events, kept, closed = turn.events, turn.head is not None, turn.closed
        found = FoundTurn(events, turn.chain, head, kept, closed, turn.hidden, turn.checked)
    else:
        with opened_journal(face, place) as (reader, tenant):
            events, chain = reader.checked(tenant, turn_id)
        found = FoundTurn(events, chain, events[-1].hash if events else None)
    if not found.events:
        raise TurnNotFound(
            f"there is no turn {turn_id} here, or nothing is recorded of it yet",
            hint="`counterfoil turns` lists them",
            turn_id=turn_id,
        )
    return found


def _turn_of(ledger: Ledger, turn_id: str) -> RunTurn:
    try:
        return ledger.turn(turn_id)
    except InputError as fault:
        raise ChainBroken(
            f"an event of turn {turn_id} cannot be read: {fault.message}",
            hint="`counterfoil verify` names every fault",
            turn_id=turn_id,
        ) from fault
