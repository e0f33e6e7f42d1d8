"""Approvals whose time is over, put on record although nobody looked at them (DESIGN 7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterfoil.approvals import events
from counterfoil.approvals.rows import APPROVALS
from counterfoil.approvals.standing import approval_now, standing_of
from counterfoil.errors import GuardFailed
from counterfoil.flow.drafting import Outsider
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import Append, Entry, Flow, NewId, Now, Rows, UnitDraft
from counterfoil.store.rows import Key, Row

PAGE_ROWS: Final = 500
AWAITS: Final = ("answer", "use")
"""What an approval waits for that may still lapse: an answer, or to be used."""


def lapsed_rows(ports: Ports) -> Iterator[Row]:
    """Rows of the tenant's approvals whose time is over and which nothing says so of; a page in memory at a time."""
    now_ms = ports.now_ms()
    for awaits in AWAITS:
        prefix: Key = (ports.tenant, awaits)
        after: Key | None = None
        while page := ports.read(Rows(APPROVALS.name, "by_awaits", prefix, PAGE_ROWS, after)):
            yield from (row for row in page if standing_of(row).found.lapsed(now_ms))
            if len(page) < PAGE_ROWS:
                break
            after = APPROVALS.place_in("by_awaits", page[-1])


def expire_approval(approval_id: str) -> Flow[bool]:
    """Record that an approval's time is over; False when it was answered, used or recorded meanwhile.

    Whoever is about to use it is stopped by its guard, so it is used or it has expired, never both.
    """
    approval = yield from approval_now(approval_id)
    now: int = yield Now()
    if approval is None or not approval.found.lapsed(now):
        return False
    event_id: str = yield NewId("evt")
    draft = events.expired(Outsider(event_id, now, approval.run_id), approval_id, approval.effect_id)
    try:
        yield Append(UnitDraft((Entry(approval.stream_id, (draft,)),), (approval.unchanged,)))
    except GuardFailed:
        return False
    return True
