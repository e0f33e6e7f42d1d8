"""The system streams of a tenant: found without a search, made when they are first needed (FORMAT 4)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from counterfoil.client.ports import LedgerPorts
from counterfoil.core.canonical import JSON
from counterfoil.core.event import Draft, Part
from counterfoil.core.forms import time_text
from counterfoil.core.genesis import ContentMode, make_genesis
from counterfoil.core.ids import make_id
from counterfoil.flow.requests import Entry, UnitDraft
from counterfoil.store.unit import NONE, Refusal, StreamAppend, Unit

SYSTEM_KINDS: Final = ("access", "config", "retention", "keys", "archive", "seals")

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
        self._known: set[str] = set()

    def id_of(self, kind: str) -> str:
        """The stream's id, whether or not it exists."""
        return system_stream_id(self._ports.store.ledger_id, self._ports.tenant, f"system/{kind}")

    def exists(self, kind: str) -> bool:
        """Whether the stream has been made."""
        return self._ports.store.head(self.id_of(kind)) is not None

    def ensure(self, kind: str) -> str:
        """The stream's id; the stream is made if it is not there, its key first (FORMAT 3)."""
        stream_id = self.id_of(kind)
        if stream_id not in self._known:
            if not self.exists(kind):
                self._make(stream_id, kind)
            self._known.add(stream_id)
        return stream_id

    def record(
        self, kind: str, event_type: str, data: Mapping[str, JSON], content: Mapping[str, JSON]
    ) -> None:
        """Append one event to a system stream."""
        ports, stream_id = self._ports, self.ensure(kind)
        draft = Draft(
            ports.new_id("evt"),
            event_type,
            time_text(ports.now_ms()),
            ACTOR,
            data,
            (Part(content),) if content else (),
        )
        ports.append(UnitDraft((Entry(stream_id, (draft,)),)))

    def _make(self, stream_id: str, kind: str) -> None:
        ports = self._ports
        key = ports.keyring.new_stream_key(stream_id)
        genesis = make_genesis(
            ledger=ports.store.ledger_id,
            tenant=ports.tenant,
            stream_id=stream_id,
            kind=f"system/{kind}",
            key=key.key_id,
            content=self._content,
        )
        unit = Unit((StreamAppend(stream_id, (), expected=NONE, create=genesis),))
        (outcome,) = ports.store.append([unit]).result()
        if isinstance(outcome, Refusal):
            # Another process was quicker; its genesis names the key, ours is nobody's.
            ports.keyring.store.delete([key.key_id])
            if not self.exists(kind):
                raise outcome.error
