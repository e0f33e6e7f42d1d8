"""Where a child stands: its row beside the row of its run and whether its conversation is there."""

from __future__ import annotations

from typing import Any, cast

from msgspec import Struct

from counterfoil.abc import ChildLink
from counterfoil.errors import AccessError, NotFoundError
from counterfoil.flow.event import Event
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import Call, CallResult, Flow, HeadOf, Raised, Read, RowOf, Rows
from counterfoil.runtime import rows as runtime_rows
from counterfoil.runtime import state as run_is
from counterfoil.runtime.children.decide import ChildState
from counterfoil.runtime.children.rows import CHILDREN, FINISHED, LEFT, LOST, STOPPED
from counterfoil.store.rows import Row
from counterfoil.store.unit import Head


class ChildStanding(Struct, frozen=True):
    """A child as it stands. ``left``: a run of the parent conversation ended and left it running.

    ``settled_by`` is ``child`` or ``parent``; ``parent_terminal`` is how the run ended that last decided its fate,
    ``terminal`` how its own run did.
    """

    link: ChildLink
    state: ChildState
    left: bool
    settled_by: str | None
    parent_terminal: str | None
    terminal: str | None
    spawned_at_ms: int
    changed_at_ms: int

    def to_json(self) -> dict[str, Any]:
        """As plain values; times in milliseconds."""
        link = self.link
        return {
            "child_stream_id": link.stream_id,
            "child_run_id": link.run_id,
            "agent": link.agent,
            "parent_stream_id": link.parent_stream_id,
            "parent_run_id": link.parent_run_id,
            "depth": link.depth,
            "state": self.state,
            "left": self.left,
            "terminal": self.terminal,
            "settled_by": self.settled_by,
            "parent_terminal": self.parent_terminal,
        }


def state_of(settled: str, run: Row | None, *, exists: bool) -> ChildState:
    """The state in the words of the fate table, from what became of it, its run, and whether its conversation is there."""
    if settled in (STOPPED, LOST):
        return cast("ChildState", settled)
    if settled == FINISHED:
        return "settled"
    if not exists:
        return "purged"
    if run is None:
        return "spawned"
    return "settled" if run["state"] == run_is.FINISHED else cast("ChildState", run["state"])


def standing_of(row: Row) -> Flow[ChildStanding]:
    """Where the child of this row stands now."""
    stream_id = str(row["child_stream_id"])
    head: Head | None = yield Read(HeadOf(stream_id))
    run: Row | None = yield Read(RowOf(runtime_rows.RUNS, (row["child_run_id"],)))
    if run is None and head is not None and row["state"] not in (FINISHED, STOPPED, LOST):
        # Not begun when its row was looked at; the row that is decided on is read behind the head.
        row = (yield Read(RowOf(CHILDREN.name, (stream_id,)))) or row
    return ChildStanding(
        link=(yield from link_of(row)),
        state=state_of(str(row["state"]), run, exists=head is not None),
        left=row["state"] == LEFT,
        settled_by=_text(row, "settled_by"),
        parent_terminal=_text(row, "parent_terminal"),
        terminal=None if run is None else _text(run, "terminal"),
        spawned_at_ms=int(row["spawned_at_ms"] or 0),
        changed_at_ms=int(row["changed_at_ms"] or 0),
    )


def link_of(row: Row) -> Flow[ChildLink]:
    """The link that a row tells; the agent stands with the conversation, and is unknown when that is purged."""
    found: Row | None = yield Read(RowOf(runtime_rows.CONVERSATIONS, (row["child_stream_id"],)))
    return ChildLink(
        stream_id=str(row["child_stream_id"]),
        run_id=str(row["child_run_id"]),
        agent="" if found is None else str(found["agent"]),
        parent_stream_id=str(row["parent_stream_id"]),
        parent_run_id=str(row["parent_run_id"]),
        depth=int(row["depth"] or 0),
    )


def child_row(run_id: str) -> Flow[Row | None]:
    """The row of the child whose run this is, or None."""
    found: list[Row] = yield Read(Rows(CHILDREN.name, "by_run", (run_id,), 1))
    return found[0] if found else None


def link_in(started: Event) -> ChildLink:
    """The link that a recorded ``child.started`` tells."""
    data = started.data
    return ChildLink(
        stream_id=data["child_stream_id"],
        run_id=data["child_run_id"],
        agent=str(started.content["agent"]),
        parent_stream_id=started.stream_id,
        parent_run_id=str(started.header.run_id),
        depth=data["depth"],
    )


def takes_more(stream_id: str, ports: Ports | None) -> Flow[bool]:
    """Whether a conversation takes events: it is there, and its key too. One that was erased is as good as purged."""
    head: Head | None = yield Read(HeadOf(stream_id))
    if head is None or ports is None:
        return head is not None
    answer: CallResult = yield Call("key of a conversation", ports.material, (stream_id,))
    return not (isinstance(answer, Raised) and isinstance(answer.error, (AccessError, NotFoundError)))


def admission_of(run_id: str) -> str:
    """The admission of a run in a child's conversation: both have one number, so the run is named before it begins."""
    return f"adm_{run_id.partition('_')[2]}"


def run_of(admission_id: str) -> str:
    """The other way round."""
    return f"run_{admission_id.partition('_')[2]}"


def _text(row: Row, column: str) -> str | None:
    value = row[column]
    return None if value is None else str(value)
