"""Invented streams and events that are valid in every byte, for tests of stores, keys and flows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from counterfoil.abc.time import Ids
from counterfoil.core.canonical import decode
from counterfoil.core.catalogue import Registry
from counterfoil.core.event import Draft, Part, Prepared, prepare, read_header
from counterfoil.core.forms import time_text
from counterfoil.core.genesis import ContentMode, Genesis, make_genesis
from counterfoil.core.keyed import KeyMaterial
from counterfoil.core.records import Pack, open_record
from counterfoil.store.rows import Guard, RowChange
from counterfoil.store.unit import ANY, Expected, StoredEvent, StreamAppend, Unit
from counterfoil.testing.manual import START_MS, SequentialIds

SAMPLE_TYPE = "sample.noted"
"""An event type nobody declared: accepted because its events say that they may be skipped (DESIGN 3)."""

SAMPLE_LEDGER = "ldg_01J9ZC3Y3V7W2R5T8QK4M6N0PG"
"""The ledger of origin of sample streams."""


class SampleStream:
    """One invented stream: its genesis, its key, and any number of valid events for it.

    Nothing here is random: the data key is a hash of the stream's id, and ids come from ``ids``.
    """

    def __init__(
        self,
        ids: Ids | None = None,
        *,
        tenant: str = "default",
        kind: str = "conversation",
        content: ContentMode = "sealed",
        stream_id: str | None = None,
    ) -> None:
        self.ids: Ids = SequentialIds() if ids is None else ids
        self.stream_id: str = self.ids.new("str") if stream_id is None else stream_id
        self.genesis: Genesis = make_genesis(
            ledger=SAMPLE_LEDGER,
            tenant=tenant,
            stream_id=self.stream_id,
            kind=kind,
            key=self.ids.new("dk"),
            content=content,
        )
        self.material: KeyMaterial = KeyMaterial(
            self.genesis.key, self.stream_id, hashlib.sha256(self.stream_id.encode()).digest()
        )
        self._registry = Registry()

    def event(
        self,
        text: str = "something happened",
        *,
        event_id: str | None = None,
        event_type: str = SAMPLE_TYPE,
        run_id: str | None = None,
        parts: int = 1,
        pack: Pack = "auto",
    ) -> Prepared:
        """A prepared event whose content is ``{"text": text, "part": n}`` in each of its parts."""
        draft = self.draft(event_id, event_type, run_id)
        draft.parts = tuple(Part({"text": text, "part": number}) for number in range(parts))
        return prepare(self.genesis, self.material, draft, self._registry, pack=pack)

    def event_of(self, *values: Mapping[str, Any]) -> Prepared:
        """A prepared event with these Python values as content parts; refused as any event would be."""
        from counterfoil.core.values import to_json

        draft = self.draft()
        draft.parts = tuple(Part(to_json(value)) for value in values)
        return prepare(self.genesis, self.material, draft, self._registry)

    def draft(
        self, event_id: str | None = None, event_type: str = SAMPLE_TYPE, run_id: str | None = None
    ) -> Draft:
        """A draft without content."""
        return Draft(
            event_id=self.ids.new("evt") if event_id is None else event_id,
            event_type=event_type,
            occurred_at=time_text(START_MS),
            actor={"type": "agent", "id": "sample-agent"},
            run_id=run_id,
            ignorable=True,
        )

    def events(self, count: int) -> tuple[Prepared, ...]:
        """``count`` different events."""
        return tuple(self.event(f"number {number}") for number in range(1, count + 1))

    def adding(
        self,
        *events: Prepared,
        expected: Expected = ANY,
        token: int | None = None,
        create: bool = False,
    ) -> StreamAppend:
        """These events for this stream; ``create`` makes the stream first."""
        return StreamAppend(self.stream_id, events, expected, token, self.genesis if create else None)

    def unit(
        self,
        *events: Prepared,
        expected: Expected = ANY,
        token: int | None = None,
        create: bool = False,
        rows: tuple[RowChange, ...] = (),
        guards: tuple[Guard, ...] = (),
    ) -> Unit:
        """A unit that appends these events to this stream alone."""
        return Unit((self.adding(*events, expected=expected, token=token, create=create),), rows, guards)

    def opened(self, event: StoredEvent, part: int = 0) -> Any:
        """The content of one part of a stored event, decrypted, checked and decoded."""
        record = event.content[part]
        assert record is not None
        commitment = read_header(event.header).content[part].commitment
        ids = (event.event_id, part)
        return decode(
            open_record(self.material, "content", ids, record, commitment, mode=self.genesis.content)
        )
