"""What stands open in a ledger: effects in doubt and in review, and approvals, counted in bounded reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from counterfoil.approvals.rows import APPROVALS
from counterfoil.cli.render.cells import number, text
from counterfoil.client.reading import is_held, table_rows
from counterfoil.effects.state import IN_DOUBT, IN_REVIEW
from counterfoil.errors import KeyStoreMissing
from counterfoil.repair.rows import REPAIRS
from counterfoil.store.rows import Row

if TYPE_CHECKING:
    from counterfoil.client.ledger import Ledger

COUNTED_MAX: Final = 2_000
"""Open effects counted for a list; beyond it the count says so with a plus."""


class Standing(Struct):
    """Open effects, approvals and repairs by conversation, and the oldest of the effects."""

    in_doubt: Counter[str] = field(default_factory=Counter)
    in_review: Counter[str] = field(default_factory=Counter)
    under_way: Counter[str] = field(default_factory=Counter)
    to_approve: Counter[str] = field(default_factory=Counter)
    to_repair: Counter[str] = field(default_factory=Counter)
    oldest_ms: int | None = None
    more: bool = False

    def add(self, row: Row, *, under_way: bool) -> None:
        """Count one open effect; one whose call may be answered at any moment needs nobody."""
        stream_id, state = text(row, "stream_id"), text(row, "state")
        if under_way:
            self.under_way[stream_id] += 1
            return
        (self.in_review if state in IN_REVIEW else self.in_doubt)[stream_id] += 1
        since = row["intended_at_ms"]
        if isinstance(since, int) and (self.oldest_ms is None or since < self.oldest_ms):
            self.oldest_ms = since


def is_under_way(ledger: Ledger, row: Row, now_ms: int) -> bool:
    """Whether the call may still be answered: intended, its deadline has not come, and its worker lives."""
    deadline = row["deadline_ms"]
    waits = row["state"] == "intended" and isinstance(deadline, int) and now_ms < deadline
    return waits and is_held(ledger.ports, text(row, "stream_id"))


def standing(ledger: Ledger, now_ms: int) -> Standing:
    """The open effects, approvals and repairs of the whole tenant."""
    found = Standing()
    for approval in _to_approve(ledger):
        found.to_approve[text(approval, "stream_id")] += 1
    open_repairs = (ledger.tenant, "open")
    for repair in table_rows(ledger.ports, REPAIRS.name, "by_state", open_repairs, COUNTED_MAX):
        found.to_repair[text(repair, "stream_id")] += 1
    for state in sorted(IN_DOUBT | IN_REVIEW):
        rows = ledger.effects(state=state, limit=COUNTED_MAX)
        found.more = found.more or len(rows) == COUNTED_MAX
        for row in rows:
            found.add(row, under_way=is_under_way(ledger, row, now_ms))
    return found


def _to_approve(ledger: Ledger) -> list[Row]:
    """Approvals that wait for people. Where there are none, what answers them is not loaded (ADR 0081)."""
    waiting = (ledger.tenant, "answer")
    if not table_rows(ledger.ports, APPROVALS.name, "by_awaits", waiting, 1):
        return []
    return ledger.approvals(limit=COUNTED_MAX)


def open_effects(ledger: Ledger, stream_id: str, run_id: str | None) -> list[Row]:
    """The open effects of a conversation, or of one of its runs, oldest first."""
    found: list[Row] = []
    for state in sorted(IN_DOUBT | IN_REVIEW):
        found += [row for row in _rows(ledger, state, stream_id) if run_id is None or row["run_id"] == run_id]
    return sorted(found, key=lambda row: number(row, "first_sequence"))


def _rows(ledger: Ledger, state: str, stream_id: str) -> Iterable[Row]:
    """Open effects are few, those of a conversation may be very many: so they are found by state."""
    rows = ledger.effects(state=state, limit=COUNTED_MAX)
    if len(rows) == COUNTED_MAX:
        rows = ledger.effects(state=state, stream=stream_id)
    return [row for row in rows if row["stream_id"] == stream_id]


def keys_note(ledger: Ledger) -> str:
    """What to say above everything when the key store is not there, or opens nothing; empty where it does."""
    try:
        _ = ledger.keyring.store.store_id
    except KeyStoreMissing:
        return "the key store is not found: content is withheld and nothing can be written; headers verify all the same"
    if ledger.keys_withheld:
        return f"{ledger.keys_withheld}: content is withheld, and headers verify all the same"
    return ""
