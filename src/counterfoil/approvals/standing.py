"""The rows of approvals with names and types, as the flows read them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from msgspec import Struct

from counterfoil.abc.policy import ApprovalScope
from counterfoil.approvals.decide import Found
from counterfoil.approvals.rows import APPROVALS
from counterfoil.approvals.state import OPEN, PENDING
from counterfoil.flow.requests import Flow, Now, Read, RowOf, Rows
from counterfoil.store.rows import Row, RowIs

APPROVALS_MAX = 500
"""Approvals of one run that are looked at."""


class ApprovalStanding(Struct, frozen=True):
    """How an approval stands."""

    approval_id: str
    stream_id: str
    run_id: str | None
    effect_id: str
    binding: str
    scope: ApprovalScope
    state: str
    expires_at_ms: int | None
    tool: str | None
    tool_version: str | None
    arguments_index: str | None
    requested_sequence: int
    row_version: int

    @property
    def found(self) -> Found:
        """As the rules see it."""
        return Found(self.state, self.scope, self.expires_at_ms)

    @property
    def unchanged(self) -> RowIs:
        """Guard: nothing has happened to it since."""
        return RowIs(APPROVALS.name, (self.approval_id,), version=self.row_version)


def standing_of(row: Row) -> ApprovalStanding:
    """The typed view of a row."""
    given: dict[str, Any] = {name: row[name] for name in ApprovalStanding.__struct_fields__}
    return ApprovalStanding(**cast("Any", given))


def approval_now(approval_id: str) -> Flow[ApprovalStanding | None]:
    """The approval as it stands in the ledger, or None."""
    row: Row | None = yield Read(RowOf(APPROVALS.name, (approval_id,)))
    return None if row is None else standing_of(row)


def approvals_of(run_id: str) -> Flow[list[ApprovalStanding]]:
    """The run's approvals in the order in which they were asked for."""
    found: list[Row] = yield Read(Rows(APPROVALS.name, "by_run", (run_id,), APPROVALS_MAX))
    return [standing_of(row) for row in found]


def open_approvals(run_id: str) -> Flow[list[ApprovalStanding]]:
    """The run's approvals that could still be used: what lapses when it ends."""
    found = yield from approvals_of(run_id)
    return [approval for approval in found if approval.state in OPEN]


def unanswered(waits_for: Iterable[str]) -> Flow[tuple[str, ...]]:
    """Those of these ids that are approvals which nobody has answered, and whose time is not over."""
    found = []
    for name in waits_for:
        if name.startswith("apr_"):
            now: int = yield Now()
            approval = yield from approval_now(name)
            if approval is not None and approval.state in PENDING and not approval.found.lapsed(now):
                found.append(name)
    return tuple(found)
