"""A ledger as the importers see it: conversations by their foreign names, and events recorded once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from counterfoil.core.event import Draft
from counterfoil.core.keyed import KeyMaterial
from counterfoil.errors import ConflictError, EventIdReused, PartialDuplicate
from counterfoil.flow.drive import drive
from counterfoil.flow.requests import Entry, UnitDraft
from counterfoil.runtime.conversation import open_conversation
from counterfoil.store.unit import Receipt

if TYPE_CHECKING:
    from counterfoil.client.ledger import Ledger
    from counterfoil.client.ports import LedgerPorts

TRIES_MAX: Final = 8


class Placed(Struct, frozen=True):
    """Where an event stands in its stream, and whether this append put it there."""

    sequence: int
    added: bool


class ImportedConversation(Struct, frozen=True):
    """A conversation that an import writes to."""

    stream_id: str
    ports: LedgerPorts

    @property
    def material(self) -> KeyMaterial:
        """Its stream key's material; not held here, however long the import takes (FORMAT 11)."""
        return self.ports.material(self.stream_id)


class LedgerImports:
    """The ``ImportTarget`` of ``counterfoil.importers`` over an open ledger."""

    def __init__(self, ledger: Ledger) -> None:
        ledger.check_writable()
        self._ports = ledger.ports

    def conversation(
        self, name: str, agent: str, parent: tuple[str, str | None] | None = None
    ) -> ImportedConversation:
        """The conversation of this name, opened with origin ``import`` if there is none.

        ``parent`` is the stream that it comes from, and the event there that started it.
        """
        named = zip(("parent_stream_id", "parent_event_id"), parent or (), strict=False)
        above = {name: value for name, value in named if value is not None}
        stream_id = drive(open_conversation(self._ports, name, agent, "import", above), self._ports)
        return ImportedConversation(stream_id, self._ports)

    def append(self, conversation: ImportedConversation, drafts: Sequence[Draft]) -> list[Placed]:
        """Record, in one unit, the drafts whose id the stream does not hold; one answer for each draft in order."""
        moved: ConflictError | None = None
        for _ in range(TRIES_MAX):
            there = self._there(conversation.stream_id, drafts)
            try:
                added = self._add(conversation.stream_id, drafts, there)
            except (EventIdReused, PartialDuplicate) as quicker:
                moved = quicker
                continue
            return _answers(drafts, there, added)
        assert moved is not None
        raise moved

    def now_ms(self) -> int:
        """The store's clock."""
        return self._ports.now_ms()

    def _there(self, stream_id: str, drafts: Sequence[Draft]) -> dict[str, int]:
        ids = [draft.event_id for draft in drafts]
        return {event.event_id: event.sequence for event in self._ports.store.find(stream_id, ids)}

    def _add(self, stream_id: str, drafts: Sequence[Draft], there: dict[str, int]) -> dict[str, int]:
        new = {draft.event_id: draft for draft in drafts if draft.event_id not in there}
        if not new:
            return {}
        receipt = self._ports.append(UnitDraft((Entry(stream_id, tuple(new.values())),)))
        assert isinstance(receipt, Receipt)
        found = {position.event_id: position.sequence for position in receipt.positions}
        if receipt.duplicate:
            # Another import of the same file was quicker with all of them: they are there, and not by us.
            there.update(found)
            return {}
        return found


def _answers(drafts: Sequence[Draft], there: dict[str, int], added: dict[str, int]) -> list[Placed]:
    """An id that comes twice in one call is added by its first draft."""
    answers: list[Placed] = []
    seen = set(there)
    for draft in drafts:
        sequence = there[draft.event_id] if draft.event_id in there else added[draft.event_id]
        answers.append(Placed(sequence, draft.event_id not in seen))
        seen.add(draft.event_id)
    return answers
