"""Checks of what waits: doubt, reviews, approvals, retries, holds, repairs, runs and their leases. Indexes only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from counterfoil.approvals.rows import APPROVALS
from counterfoil.client.finding import Finding, State
from counterfoil.client.ports import LedgerPorts
from counterfoil.effects.lever import LEVERS
from counterfoil.effects.rows import EFFECTS, RETRIES, REVIEWS
from counterfoil.effects.state import IN_DOUBT
from counterfoil.repair.rows import REPAIRS
from counterfoil.runtime.children.rows import CHILDREN
from counterfoil.runtime.rows import RUNS
from counterfoil.store.rows import Row

ROWS_MAX: Final = 1_000
"""Rows that one check reads; where there are more, its figures are lower bounds."""


def waiting(ports: LedgerPorts) -> list[Finding]:
    """Every check of what waits, in the order in which a person would act."""
    now_ms = ports.now_ms()
    return [
        doubt(ports, now_ms),
        reviews(ports, now_ms),
        approvals(ports, now_ms),
        retries(ports, now_ms),
        holds(ports),
        repairs(ports, now_ms),
        leases(ports, now_ms),
        children(ports),
    ]


def doubt(ports: LedgerPorts, now_ms: int) -> Finding:
    """The oldest effect that was sent and has no answer; calls under way under a live lease are not in doubt."""
    pages = [_rows(ports, EFFECTS.name, state) for state in sorted(IN_DOUBT)]
    found, more = [row for page in pages for row in page], any(len(page) >= ROWS_MAX for page in pages)
    live = {stream: _live(ports, stream, now_ms) for stream in {str(row["stream_id"]) for row in found}}
    left = [row for row in found if row["state"] != "intended" or not live[str(row["stream_id"])]]
    if not left and more:
        means = f"the first {len(found)} calls are under way, and there are more that were not looked at"
        return Finding("oldest doubt", "work", "unknown", None, "", means, "counterfoil recover")
    if not left:
        return Finding("oldest doubt", "work", "ok", None, "", "no effect is in doubt")
    return Finding(
        "oldest doubt",
        "work",
        "warn",
        now_ms - _oldest(left, "intended_at_ms"),
        "ms",
        f"{len(left)} in doubt: it is not known whether they happened",
        "counterfoil recover",
        at_least=more,
    )


def reviews(ports: LedgerPorts, now_ms: int) -> Finding:
    """The oldest open review, and how many are overdue."""
    found = _rows(ports, REVIEWS.name, "open")
    return _asked("oldest review", "reviews", found, "opened_at_ms", now_ms, "counterfoil review ls")


def approvals(ports: LedgerPorts, now_ms: int) -> Finding:
    """The oldest approval that waits for an answer, and how many are overdue."""
    found = ports.store.select(APPROVALS.name, "by_awaits", (ports.tenant, "answer"), limit=ROWS_MAX)
    return _asked("oldest approval", "approvals", found, "requested_at_ms", now_ms, "counterfoil approve ls")


def retries(ports: LedgerPorts, now_ms: int) -> Finding:
    """Retries that were decided and whose time has come."""
    found = ports.store.select(RETRIES.name, "by_decided", (ports.tenant,), limit=ROWS_MAX)
    due = sum(int(row["decided_at_ms"] or 0) + int(row["delay_ms"] or 0) <= now_ms for row in found)
    return _counted(
        "retries due",
        due,
        len(found) >= ROWS_MAX,
        f"{len(found)} decided",
        "counterfoil worker",
    )


def holds(ports: LedgerPorts) -> Finding:
    """Levers that the tenant holds."""
    found = _rows(ports, LEVERS.name, "held")
    means = "what is held starts no new effect" if found else "nothing of the tenant is held"
    return _counted("holds", len(found), len(found) >= ROWS_MAX, means, "counterfoil hold ls")


def repairs(ports: LedgerPorts, now_ms: int) -> Finding:
    """The oldest repair that is not closed."""
    found = _rows(ports, REPAIRS.name, "open")
    return _asked("oldest repair", "repairs", found, "opened_at_ms", now_ms, "counterfoil repair ls")


def leases(ports: LedgerPorts, now_ms: int) -> Finding:
    """Runs that are said to be running although nobody holds their conversation."""
    found = _rows(ports, RUNS, "running")
    stale = sum(not _live(ports, str(row["stream_id"]), now_ms) for row in found)
    means = f"{len(found)} running; without a lease their worker is gone"
    return _counted("runs without a lease", stale, len(found) >= ROWS_MAX, means, "counterfoil recover")


def children(ports: LedgerPorts) -> Finding:
    """Children that were given up because nobody could reach whoever carried them out."""
    lost = _rows(ports, CHILDREN.name, "lost")
    open_ = ports.store.select(CHILDREN.name, "by_awaits", (ports.tenant, "end"), limit=ROWS_MAX)
    plus = "+" if len(open_) >= ROWS_MAX else ""
    means = f"{len(open_)}{plus} not ended; lost: nobody could be reached"
    return _counted(
        "children lost", len(lost), len(lost) >= ROWS_MAX, means, "counterfoil ls children --state lost"
    )


def _rows(ports: LedgerPorts, table: str, state: str) -> list[Row]:
    return ports.store.select(table, "by_state", (ports.tenant, state), limit=ROWS_MAX)


def _live(ports: LedgerPorts, stream_id: str, now_ms: int) -> bool:
    head = ports.store.head(stream_id)
    return head is not None and head.lease is not None and head.lease.expires_at_ms > now_ms


def _oldest(rows: Iterable[Row], column: str) -> int:
    return min(int(row[column] or 0) for row in rows)


def _asked(name: str, what: str, rows: list[Row], column: str, now_ms: int, do: str) -> Finding:
    if not rows:
        return Finding(name, "work", "ok", None, "", f"no open {what}")
    late = sum(row.get("due_at_ms") is not None and int(row["due_at_ms"] or 0) <= now_ms for row in rows)
    means = f"{len(rows)} open, {late} overdue"
    age = now_ms - _oldest(rows, column)
    return Finding(name, "work", "warn", age, "ms", means, do, at_least=len(rows) >= ROWS_MAX)


def _counted(name: str, number: int, more: bool, means: str, do: str) -> Finding:
    state: State = "warn" if number else "ok"
    return Finding(name, "work", state, number, "count", means, do if number else "", at_least=more)
