"""The event that is measured: a full observation of an effect, with its content and its row (DESIGN 14)."""

from __future__ import annotations

import hashlib
import itertools
from typing import Any, Final

from counterfoil.client.ids import UlidIds
from counterfoil.core.catalogue import Registry
from counterfoil.core.event import Draft, Part, Prepared, prepare
from counterfoil.core.forms import time_text
from counterfoil.core.genesis import Genesis, make_genesis
from counterfoil.core.keyed import KeyMaterial
from counterfoil.effects.rows import EFFECTS
from counterfoil.store.rows import CellSource, Put, RecordedAtOf, SequenceOf
from counterfoil.store.unit import StreamAppend, Unit

START_MS: Final = 1_788_273_068_412
TOOL: Final = "payment.refund"
LEDGER: Final = "ldg_01J9ZC3Y3V7W2R5T8QK4M6N0PG"
CONTENT_BYTES: Final = 350
"""Of the encoded content; its record is 30 bytes longer."""

_ids = UlidIds()


Described = tuple[Draft, Put]
"""An event and the row that follows from it, before anything of the ledger has looked at them."""


class Sample:
    """One stream and any number of full events for it, each about some effect; every second one about the same."""

    def __init__(
        self,
        ledger_id: str = LEDGER,
        *,
        content_bytes: int = CONTENT_BYTES,
        genesis: Genesis | None = None,
        material: KeyMaterial | None = None,
    ) -> None:
        self.run_id, self.cause = _ids.new("run"), _ids.new("evt")
        self.genesis = genesis or make_genesis(
            ledger=ledger_id,
            tenant="default",
            stream_id=_ids.new("str"),
            kind="conversation",
            key=_ids.new("dk"),
        )
        self.stream_id = self.genesis.stream_id
        # The same for every handle of the stream, so that other processes write events that can be opened.
        data_key = hashlib.sha256(self.stream_id.encode()).digest()
        self.material = material or KeyMaterial(self.genesis.key, self.stream_id, data_key)
        self.registry = Registry()
        self._filling = data_key.hex() * (1 + content_bytes // 64)
        self._content_bytes = content_bytes
        self._numbers = itertools.count(1)
        self._effect_id = _ids.new("eff")

    def draft(self) -> Draft:
        """The next event as a caller describes it."""
        number = next(self._numbers)
        if number % 2:
            self._effect_id = _ids.new("eff")
        return Draft(
            event_id=_ids.new("evt"),
            event_type="effect.observed",
            occurred_at=time_text(START_MS + number),
            actor={"type": "agent", "id": "refund-agent"},
            data={
                "effect_id": self._effect_id,
                "outcome": "succeeded",
                "source": "call",
                "latency_ms": 212,
            },
            parts=(Part(self._content(number)),),
            run_id=self.run_id,
            attempt=1,
            causation_event_id=self.cause,
        )

    def _content(self, number: int) -> dict[str, Any]:
        result = {
            "id": f"re_{number}",
            "order": "O-1042",
            "line": number % 7,
            "amount": {"$decimal": "40.00"},
            "status": "booked",
            "ok": True,
            "note": self._filling[: max(0, self._content_bytes - 130)],
        }
        return {"result": result, "provider_effect_id": f"re_{number}"}

    def prepared(self, draft: Draft) -> Prepared:
        """The event as the writer takes it."""
        return prepare(self.genesis, self.material, draft, self.registry)

    def row(self, draft: Draft) -> Put:
        """The row of the event's effect."""
        return Put(EFFECTS.name, self._cells(draft))

    def described(self, count: int) -> list[Described]:
        """So many events as a caller has them when it turns to the ledger."""
        return [(draft, self.row(draft)) for draft in (self.draft() for _ in range(count))]

    def unit(self, described: Described) -> Unit:
        """One event and its row, sealed and ready to append: what a caller's own thread does for it."""
        draft, row = described
        return Unit((StreamAppend(self.stream_id, (self.prepared(draft),)),), (row,))

    def creation(self) -> Unit:
        """The stream itself."""
        return Unit((StreamAppend(self.stream_id, (), create=self.genesis),))

    def _cells(self, draft: Draft) -> dict[str, CellSource]:
        effect_id = str(draft.data["effect_id"])
        return {
            "effect_id": effect_id,
            "tenant": "default",
            "stream_id": self.stream_id,
            "run_id": self.run_id,
            "tool": TOOL,
            "tool_version": "2026-08-01",
            "schema": "0" * 64,
            "doubt": "lookup",
            "state": "succeeded",
            "outcome": "succeeded",
            "attempt": 1,
            "lookups": 0,
            "deadline_ms": START_MS,
            "key_index": effect_id,
            "arguments_index": effect_id,
            "first_event_id": self.cause,
            "first_sequence": 1,
            "intended_event_id": self.cause,
            "intended_sequence": 1,
            "outcome_sequence": SequenceOf(draft.event_id),
            "intended_at_ms": START_MS,
            "changed_at_ms": RecordedAtOf(draft.event_id),
        }
