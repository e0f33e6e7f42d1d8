"""What the tests of the core share: one invented stream with its key, and rows as a store would hand them out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from counterfoil.core.catalogue import Registry
from counterfoil.core.event import Draft, Part, Prepared, event_hash, prepare, splice
from counterfoil.core.forms import time_ms, time_text
from counterfoil.core.genesis import Genesis, make_genesis
from counterfoil.core.ids import make_id
from counterfoil.core.keyed import KeyMaterial

VECTORS = Path(__file__).resolve().parents[2] / "vectors"
START_MS = time_ms("2026-09-01T14:31:08.412Z")
AGENT = {"type": "agent", "id": "refund-agent"}


@dataclass(frozen=True)
class Row:
    """A stored event with its columns, as `counterfoil.core.chain` reads it."""

    stream_id: str
    sequence: int
    event_id: str
    event_type: str
    run_id: str | None
    recorded_at_ms: int
    header: bytes
    hash: bytes
    content: tuple[bytes | None, ...] = ()

    def but(self, **changes: Any) -> Row:
        """The row with other columns."""
        return replace(self, **changes)

    def rewritten(self, old: bytes, new: bytes) -> Row:
        """The row with other header bytes and the hash that belongs to them."""
        assert old in self.header
        header = self.header.replace(old, new, 1)
        return replace(self, header=header, hash=event_hash(header))


class Stream:
    """An invented stream; ids and keys are fixed, so that two runs make the same bytes."""

    def __init__(self, number: int = 1, **genesis: Any) -> None:
        self.stream_id = make_id("str", START_MS, number)
        self.key_id = make_id("dk", START_MS, number)
        members = {"ledger": make_id("ldg", START_MS, 1), "tenant": "default", "kind": "conversation"}
        members |= genesis
        self.genesis: Genesis = make_genesis(stream_id=self.stream_id, key=self.key_id, **members)
        self.material = KeyMaterial(self.key_id, self.stream_id, bytes([number]) * 32)
        self.registry = Registry()

    def person(self, number: int = 9) -> KeyMaterial:
        """The key of a person in this stream."""
        return KeyMaterial(make_id("dk", START_MS, number), self.stream_id, bytes([number]) * 32)

    def draft(self, number: int = 1, **members: Any) -> Draft:
        """A valid draft; the number makes its id."""
        given: dict[str, Any] = {
            "event_type": "admission.accepted",
            "data": {"admission_id": make_id("adm", START_MS, number)},
            "parts": (Part({"message": f"number {number}"}),),
            **members,
        }
        event_id = given.pop("event_id", make_id("evt", START_MS + number, number))
        return Draft(event_id, given.pop("event_type"), time_text(START_MS + number), AGENT, **given)

    def prepare(self, draft: Draft, **options: Any) -> Prepared:
        """The draft, prepared under the stream key."""
        return prepare(self.genesis, self.material, draft, self.registry, **options)

    def header(self, number: int = 1, **members: Any) -> bytes:
        """A complete header for one draft, right after the genesis."""
        prepared = self.prepare(self.draft(number, **members))
        return splice(prepared, 1, time_text(START_MS), self.genesis.hash.hex())

    def rows(self, drafts: list[Draft]) -> list[Row]:
        """The drafts as rows of a chain."""
        previous, rows = self.genesis.hash, []
        for sequence, draft in enumerate(drafts, 1):
            prepared = self.prepare(draft)
            recorded_ms = START_MS + 10 * sequence
            header = splice(prepared, sequence, time_text(recorded_ms), previous.hex())
            previous = event_hash(header)
            row = Row(
                self.stream_id,
                sequence,
                draft.event_id,
                draft.event_type,
                draft.run_id,
                recorded_ms,
                header,
                previous,
                prepared.records,
            )
            rows.append(row)
        return rows

    def chain(self, count: int) -> list[Row]:
        """That many events."""
        return self.rows([self.draft(number) for number in range(1, count + 1)])


@pytest.fixture
def stream() -> Stream:
    """The stream most tests need."""
    return Stream()


@pytest.fixture
def other_stream() -> Stream:
    """Another stream with another key."""
    return Stream(2)


@pytest.fixture
def stream_of() -> type[Stream]:
    """Makes streams with a number and genesis members of the test's choice."""
    return Stream


@pytest.fixture
def vectors() -> Callable[[str], Any]:
    """Reads one file of tests/vectors."""
    return lambda name: json.loads((VECTORS / f"{name}.json").read_text("utf-8"))
