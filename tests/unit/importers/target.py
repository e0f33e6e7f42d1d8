"""A ledger of one dictionary for the importers' tests: every draft is really prepared and its content opened again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from counterfoil.core.canonical import decode
from counterfoil.core.catalogue import Registry
from counterfoil.core.event import Draft, prepare, read_header, splice
from counterfoil.core.genesis import Genesis, make_genesis
from counterfoil.core.header import Header
from counterfoil.core.ids import make_id
from counterfoil.core.keyed import KeyMaterial
from counterfoil.core.records import open_record

NOW_MS = 1_788_273_068_412


@dataclass
class Placed:
    sequence: int
    added: bool


@dataclass
class Recorded:
    """One event as it would be read back."""

    sequence: int
    header: Header
    content: dict[str, Any]

    @property
    def type(self) -> str:
        return self.header.event_type

    @property
    def data(self) -> dict[str, Any]:
        return dict(self.header.data)


@dataclass
class Conversation:
    name: str
    agent: str
    stream_id: str
    material: KeyMaterial
    genesis: Genesis
    events: list[Recorded] = field(default_factory=list)

    def of_type(self, *types: str) -> list[Recorded]:
        return [event for event in self.events if event.type in types]


class MemoryTarget:
    """An ImportTarget whose streams begin with one event (`conversation.opened` elsewhere)."""

    def __init__(self) -> None:
        self.conversations: dict[str, Conversation] = {}
        self.parents: dict[str, tuple[str, str | None]] = {}
        self.appends = 0
        self.fail_at: int | None = None
        self._registry = Registry()

    def conversation(
        self, name: str, agent: str, parent: tuple[str, str | None] | None = None
    ) -> Conversation:
        if parent is not None:
            self.parents.setdefault(name, parent)
        if name not in self.conversations:
            number = len(self.conversations) + 1
            stream_id, key_id = make_id("str", NOW_MS, number), make_id("dk", NOW_MS, number)
            material = KeyMaterial(key_id, stream_id, bytes([number]) * 32)
            genesis = make_genesis(
                ledger=make_id("ldg", NOW_MS, 0),
                tenant="default",
                stream_id=stream_id,
                kind="conversation",
                key=key_id,
                content="sealed",
            )
            self.conversations[name] = Conversation(name, agent, stream_id, material, genesis)
        return self.conversations[name]

    def append(self, conversation: Conversation, drafts: Sequence[Draft]) -> list[Placed]:
        self.appends += 1
        if self.appends == self.fail_at:
            raise OSError("the process ends here")
        known = {event.header.event_id: event.sequence for event in conversation.events}
        placed = []
        for draft in drafts:
            if draft.event_id in known:
                placed.append(Placed(known[draft.event_id], added=False))
                continue
            sequence = len(conversation.events) + 2
            prepared = prepare(conversation.genesis, conversation.material, draft, self._registry)
            header = read_header(splice(prepared, sequence, "2026-09-01T14:31:08.412Z", "0" * 64))
            content = self._content(conversation, header, prepared.records)
            conversation.events.append(Recorded(sequence, header, content))
            known[draft.event_id] = sequence
            placed.append(Placed(sequence, added=True))
        return placed

    def _content(
        self, conversation: Conversation, header: Header, records: Sequence[bytes]
    ) -> dict[str, Any]:
        reference, record = header.content[0], records[0]
        ids = [header.event_id, 0]
        text = open_record(conversation.material, "content", ids, record, reference.commitment, mode="sealed")
        return decode(text)

    def now_ms(self) -> int:
        return NOW_MS

    @property
    def only(self) -> Conversation:
        (conversation,) = self.conversations.values()
        return conversation

    @property
    def events(self) -> list[Recorded]:
        return [event for conversation in self.conversations.values() for event in conversation.events]
