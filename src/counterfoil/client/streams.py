"""The system streams of a tenant: found without a search, made when they are first needed (FORMAT 4)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from counterfoil.client.ports import LedgerPorts
from counterfoil.core.canonical import JSON
from counterfoil.core.event import Draft, Part
from counterfoil.core.forms import time_text
from counterfoil.core.genesis import ContentMode, Genesis, make_genesis
from counterfoil.core.ids import make_id
from counterfoil.errors import StreamExists, WrongSequence
from counterfoil.flow.requests import Entry, UnitDraft
from counterfoil.store.unit import NONE

ACTOR: Final = {"type": "system", "id": "counterfoil"}


def system_stream_id(ledger_id: str, tenant: str, kind: str) -> str:
    """The id of a tenant's system stream: made of public names alone, so that two processes mean the same stream.

    Its time is zero, so system streams come before every conversation.
    """
    named = f"counterfoil/system-stream/v1\x00{ledger_id}\x00{tenant}\x00{kind}".encode()
    return make_id("str", 0, int.from_bytes(hashlib.sha256(named).digest()[:10]))


class SystemStreams:
    """One tenant's system streams on one handle."""

    def __init__(self, ports: LedgerPorts, content: ContentMode) -> None:
        self._ports = ports
        self._content: ContentMode = content

    def id_of(self, kind: str) -> str:
        """The stream's id, whether or not it exists."""
        return system_stream_id(self._ports.store.ledger_id, self._ports.tenant, f"system/{kind}")

    def exists(self, kind: str) -> bool:
        """Whether the stream has been made."""
        return self._ports.store.head(self.id_of(kind)) is not None

    def ensure(self, kind: str) -> str:
        """The stream's id; it is made, empty, if it is not there. Two processes may do it at once."""
        if not self.exists(kind):
            self._append([self._new(kind, ())])
        return self.id_of(kind)

    def begin(self) -> None:
        """Make what a tenant has before its first conversation, all of it or nothing; the quickest process wins.

        That is the stream of settings, and in a sealed ledger which key store and epoch it began with (FORMAT 12).
        """
        entries = [self._new("config", ())]
        if self._content == "sealed":
            keyring = self._ports.keyring
            held: dict[str, JSON] = {"key_store": keyring.store.store_id, "kek": keyring.epoch()}
            began = self._draft("keys.rotated", {"epoch_from": 0, "epoch_to": 1, "keys": 0}, held)
            entries.append(self._new("keys", (began,)))
        self._append(entries)

    def entry(self, kind: str, *said: tuple[str, Mapping[str, JSON], Mapping[str, JSON]]) -> Entry:
        """Events for a system stream, each as (type, public fields, content); the stream is made if it is not there."""
        drafts = tuple(self._draft(*one) for one in said)
        return Entry(self.id_of(kind), drafts) if self.exists(kind) else self._new(kind, drafts)

    def record(self, kind: str, *said: tuple[str, Mapping[str, JSON], Mapping[str, JSON]]) -> None:
        """Record events in a system stream, whoever makes it first."""
        try:
            self._ports.append(UnitDraft((self.entry(kind, *said),)))
        except (StreamExists, WrongSequence):
            # Another process was quicker in making the stream.
            self._ports.append(UnitDraft((self.entry(kind, *said),)))

    def _draft(self, event_type: str, data: Mapping[str, JSON], content: Mapping[str, JSON]) -> Draft:
        ports = self._ports
        parts = (Part(content),) if content else ()
        return Draft(ports.new_id("evt"), event_type, time_text(ports.now_ms()), ACTOR, data, parts)

    def _new(self, kind: str, drafts: tuple[Draft, ...]) -> Entry:
        genesis = self._genesis(kind)
        return Entry(genesis.stream_id, drafts, NONE, create=genesis)

    def _genesis(self, kind: str) -> Genesis:
        ports, stream_id = self._ports, self.id_of(kind)
        return make_genesis(
            ledger=ports.store.ledger_id,
            tenant=ports.tenant,
            stream_id=stream_id,
            kind=f"system/{kind}",
            key=ports.keyring.new_stream_key(stream_id).key_id,
            content=self._content,
        )

    def _append(self, entries: Sequence[Entry]) -> None:
        try:
            self._ports.append(UnitDraft(tuple(entries)))
        except (StreamExists, WrongSequence):
            # Another process was quicker: its genesis names its keys, and ours are nobody's.
            self._ports.keyring.store.delete([entry.create.key for entry in entries if entry.create])
