"""Adoption: before this ledger's first event in a stream that came from another, ``stream.adopted`` (FORMAT 14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from counterfoil.archive.events import adoption_fields
from counterfoil.core.event import Draft, read_header
from counterfoil.core.forms import time_text
from counterfoil.core.genesis import Genesis
from counterfoil.errors import StreamNotFound
from counterfoil.flow.requests import UnitDraft
from counterfoil.store.unit import ANY

if TYPE_CHECKING:
    from counterfoil.client.ports import LedgerPorts

ADOPTED: Final = "stream.adopted"
ACTOR: Final = {"type": "system", "id": "counterfoil"}
TYPES: Final = frozenset({ADOPTED})
PAGE: Final = 100


class Adoptions:
    """Which foreign streams this ledger has adopted already, as far as this handle has seen."""

    def __init__(self, ports: LedgerPorts) -> None:
        self._ports = ports
        self._mine: set[str] = set()

    def due(self, genesis: Genesis) -> tuple[Draft, int] | None:
        """The event to put in front, and the sequence that it must follow; None where the stream is at home here."""
        ports, stream_id = self._ports, genesis.stream_id
        own = ports.store.ledger_id
        if genesis.ledger == own or stream_id in self._mine:
            return None
        head = ports.store.head(stream_id)
        if head is None:
            raise StreamNotFound(f"there is no stream {stream_id}", stream_id=stream_id)
        home = self._home(genesis)
        if home == own:
            self._mine.add(stream_id)
            return None
        fields = adoption_fields(home, own, ports.tenant, head.sequence, head.hash.hex())
        draft = Draft(ports.new_id("evt"), ADOPTED, time_text(ports.now_ms()), ACTOR, fields)
        return draft, head.sequence

    def race(self, unit: UnitDraft) -> bool:
        """Whether the caller of a unit asked for no sequence, and only an adoption in front of its events did."""
        own = self._ports.store.ledger_id
        return any(
            entry.expected is ANY
            and entry.create is None
            and self._ports.genesis(entry.stream_id).ledger != own
            for entry in unit.entries
        )

    def _home(self, genesis: Genesis) -> str:
        home, after = genesis.ledger, 0
        while page := self._ports.store.read(genesis.stream_id, after, PAGE, TYPES, content=False):
            after = page[-1].sequence
            home = str(read_header(page[-1].header).data["ledger"])
        return home
