"""Reading what an input meets: its conversation, its admission, the run in the slot and those that wait."""

from __future__ import annotations

from typing import Any, cast

from msgspec import Struct

from counterfoil.core.genesis import Genesis
from counterfoil.core.ids import is_id
from counterfoil.errors import InputError, NotFoundError, RunNotFound, StreamNotFound
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import Flow, HeadOf, Now, Read, RowOf, Rows
from counterfoil.runtime import rows
from counterfoil.runtime.children.state import admission_of, child_row
from counterfoil.runtime.decide import Situation
from counterfoil.runtime.events import WhileRunning, WhileSuspended
from counterfoil.runtime.owner import is_gone
from counterfoil.runtime.spec import RunSpec
from counterfoil.runtime.state import RUNNING, STARTED, SUPERSEDED, SUSPENDED, RunState
from counterfoil.store.rows import Row
from counterfoil.store.unit import Head, Lease

WAITING_RUNS_MAX = 64
"""Runs of one conversation looked at in each state: one runs, a few wait."""


class Seen(Struct, frozen=True):
    """A situation with the addresses needed to act on it. ``stream_id`` None: the conversation does not exist yet."""

    situation: Situation
    stream_id: str | None = None
    token: int = 0
    lease: Lease | None = None
    name: str | None = None
    """The conversation's name, if the caller gave one that is new here."""
    admission_version: int | None = None
    """Version of the admission's row: whoever has it wait for something else meanwhile is not passed over."""
    child: bool = False
    """Whether the conversation is a child's."""

    @property
    def admission_id(self) -> str | None:
        """The admission that was found, if any."""
        found = self.situation.admission
        return None if found is None else found.admission_id


def own_stream(ports: Ports, stream_id: str) -> Genesis:
    """Genesis of a stream of this tenant. Raises ``StreamNotFound``, also for the stream of another tenant."""
    if not ports.owns(stream_id):
        raise StreamNotFound(f"there is no stream {stream_id} of tenant {ports.tenant}", stream_id=stream_id)
    return ports.genesis(stream_id)


def find_conversation(ports: Ports, name: str) -> Flow[str | None]:
    """Stream of a conversation by its name, or by its own ``str_…``. Raises ``StreamNotFound`` for an unknown id."""
    if is_id(name, "str"):
        own_stream(ports, name)
        return name
    row: Row | None = yield Read(RowOf(rows.NAMES, (ports.tenant, rows.name_index(ports.index, name))))
    return None if row is None else str(row["stream_id"])


def look(ports: Ports, spec: RunSpec) -> Flow[Seen]:
    """What this request meets.

    The head is read before the rows: whoever claims in between moves the token, and the claim that follows from
    what was seen is refused.
    """
    stream_id: str | None = None
    if spec.conversation is not None:
        stream_id = yield from find_conversation(ports, spec.conversation)
    admission: Row | None = yield from _admission(ports, spec, stream_id)
    if admission is not None:
        stream_id = str(admission["stream_id"])
    if stream_id is None:
        return Seen(_policies(spec, None), name=spec.conversation)
    return (yield from _look_at(ports, spec, stream_id, admission))


def _look_at(ports: Ports, spec: RunSpec, stream_id: str, admission: Row | None) -> Flow[Seen]:
    if own_stream(ports, stream_id).kind != "conversation":
        raise InputError(f"{stream_id} is a system stream, in which no agent runs", stream_id=stream_id)
    head: Head = yield Read(HeadOf(stream_id))
    now: int = yield Now()
    if admission is not None:
        # Read again behind the head: what was found before it may have moved on.
        admission = yield Read(RowOf(rows.ADMISSIONS, (admission["admission_id"],)))
    conversation: Row | None = yield Read(RowOf(rows.CONVERSATIONS, (stream_id,)))
    own = yield from _own_run(admission)
    running = yield from _in_slot(stream_id, RUNNING)
    suspended = yield from _in_slot(stream_id, SUSPENDED)
    base = _policies(spec, conversation)
    situation = Situation(
        while_running=base.while_running,
        while_suspended=base.while_suspended,
        admission=None if admission is None else rows.admission_of_row(admission),
        same_message=admission is None or _same(ports, spec, admission),
        own=own,
        held=head.lease is not None and not _lapsed(head.lease, now),
        lapsed=head.lease is not None and _lapsed(head.lease, now),
        running=running[0] if running else None,
        suspended=[run for run in suspended if own is None or run.run_id != own.run_id],
        closed=conversation is not None and conversation["state"] == rows.CLOSED,
        now_ms=now,
    )
    version = None if admission is None else int(admission["row_version"] or 0)
    child = conversation is not None and conversation["origin"] == "child"
    return Seen(situation, stream_id, head.token, head.lease, admission_version=version, child=child)


def _lapsed(lease: Lease, now_ms: int) -> bool:
    """Whether a lease is nobody's any more; one whose process is gone need not expire first."""
    return now_ms >= lease.expires_at_ms or is_gone(lease.owner)


def _admission(ports: Ports, spec: RunSpec, stream_id: str | None) -> Flow[Row | None]:
    if spec.run_id is not None:
        return (yield from _admission_of_run(spec.run_id))
    if spec.admission_id is not None:
        named: Row | None = yield Read(RowOf(rows.ADMISSIONS, (spec.admission_id,)))
        if named is None:
            raise NotFoundError(f"there is no admission {spec.admission_id} in this ledger")
        return named
    if spec.dedupe is None or (spec.conversation is not None and stream_id is None):
        return None
    key = rows.key_index(ports.index, spec.dedupe, stream_id)
    found: Row | None = yield Read(RowOf(rows.ADMISSION_KEYS, (ports.tenant, key)))
    if found is None:
        return None
    admission: Row | None = yield Read(RowOf(rows.ADMISSIONS, (found["admission_id"],)))
    return admission


def _admission_of_run(run_id: str) -> Flow[Row | None]:
    run: Row | None = yield Read(RowOf(rows.RUNS, (run_id,)))
    if run is None and (spawned := (yield from child_row(run_id))) is not None:
        # On record and not begun: the input that its parent gave it is there.
        run = {**spawned, "admission_id": admission_of(run_id)}
    if run is None or run["admission_id"] is None:
        raise RunNotFound(f"there is no run {run_id} to go on with in this ledger", run_id=run_id)
    admission: Row | None = yield Read(RowOf(rows.ADMISSIONS, (run["admission_id"],)))
    if admission is None:
        raise RunNotFound(f"the conversation of run {run_id} is gone", run_id=run_id)
    return admission


def _same(ports: Ports, spec: RunSpec, admission: Row) -> bool:
    """Whether the message is the one admitted. Asked for by id, the admitted message is meant whatever was given."""
    if spec.run_id is not None or spec.admission_id is not None or admission["message_index"] is None:
        return True
    mine = rows.message_index(ports.index, str(admission["admission_id"]), spec.message)
    return mine == admission["message_index"]


def _own_run(admission: Row | None) -> Flow[RunState | None]:
    """The run that this admission started; one it merely joined is not its own."""
    if admission is None or admission["state"] not in {STARTED, SUPERSEDED}:
        return None
    row: Row | None = yield Read(RowOf(rows.RUNS, (admission["run_id"],)))
    return None if row is None else rows.run_of_row(row)


def _in_slot(stream_id: str, state: str) -> Flow[list[RunState]]:
    found: list[Row] = yield Read(Rows(rows.RUNS, "by_slot", (stream_id, state), WAITING_RUNS_MAX))
    if state != RUNNING or not found:
        return [rows.run_of_row(row) for row in found]
    admission: Row | None = yield Read(RowOf(rows.ADMISSIONS, (found[0]["admission_id"],)))
    resumable = admission is not None and admission["key_index"] is not None
    return [rows.run_of_row(found[0], resumable=resumable)]


def _policies(spec: RunSpec, conversation: Row | None) -> Situation:
    """The caller's policies, else the conversation's own, else the defaults of DESIGN 6."""
    recorded: dict[str, Any] = {} if conversation is None else dict(conversation)
    running = spec.while_running or recorded.get("while_running") or "queue"
    suspended = spec.while_suspended or recorded.get("while_suspended") or "start"
    return Situation(cast("WhileRunning", running), cast("WhileSuspended", suspended))
