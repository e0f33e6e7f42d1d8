"""Stopping children when the run above them is stopped: asked on record by that end, carried out here, by anybody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

from counterfoil.abc import ChildHost, ChildLink, HostAnswer
from counterfoil.core.event import Draft
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import (
    Append,
    Call,
    CallResult,
    Entry,
    Flow,
    Read,
    Release,
    Returned,
    RowOf,
    Rows,
    UnitDraft,
    Wait,
)
from counterfoil.runtime import rows as runtime_rows
from counterfoil.runtime.cancel import MOVED, FoundRun, end_run, look_at_run
from counterfoil.runtime.children.decide import OVER, STOPPING, ChildState, fate
from counterfoil.runtime.children.events import child_settled, not_begun
from counterfoil.runtime.children.kin import KIN_MAX, said_by, stopped_by_parent
from counterfoil.runtime.children.rows import CHILDREN, END
from counterfoil.runtime.children.settle import settle_finished, settle_flow
from counterfoil.runtime.children.state import admission_of, link_of, state_of, takes_more
from counterfoil.runtime.state import ACCEPTED, DEFERRED, FINISHED, RELEASED, RUNNING
from counterfoil.store.rows import Row, RowIs

TRIES_MAX: Final = 32
"""How often a child is looked at anew because it moved while it was being stopped."""

PATIENCE_S: Final = 2.0
"""How long a run that was stopped waits for the children that were told to end, all together."""

STEP_S: Final = 0.02
DEEPEST: Final = 64
"""Generations below a run that is stopped which are gone through; deeper ones are left to recovery."""

Stopped = Literal["stopped", "lost", "settled", "asked", "kept"]
"""What came of it; ``asked``: whoever holds the child was told, and ends it at its next call."""


class Stopper(Struct, frozen=True):
    """With what children are stopped: their host, the ledger, and who claims a conversation whose worker is gone."""

    host: ChildHost
    ports: Ports
    owner: str
    actor: Mapping[str, str]


def stop_children(stream_id: str, by: Stopper, patience_s: float = PATIENCE_S) -> Flow[None]:
    """Carry out what the end of a run in this conversation has asked of its children, and of theirs."""
    told: list[Row] = []
    generation = [stream_id]
    for _ in range(DEEPEST):
        below: list[str] = []
        for parent in generation:
            for row in (yield from asked_to_stop(parent, by.ports)):
                done = yield from stop_child(row, by)
                told += [row] if done == "asked" else []
                below.append(str(row["child_stream_id"]))
        if not below:
            break
        generation = below
    yield from _see_them_end(told, patience_s)


def asked_to_stop(parent_stream_id: str, ports: Ports) -> Flow[list[Row]]:
    """The children of a conversation that were asked to end and have not been settled."""
    found: list[Row] = yield Read(Rows(CHILDREN.name, "by_parent", (parent_stream_id, END), KIN_MAX))
    asked: list[Row] = []
    for row in found:
        to_end = (yield from stopped_by_parent(row)) is not None or not (
            yield from takes_more(str(row["child_stream_id"]), ports)
        )
        asked += [row] if to_end else []
    return asked


def stop_child(row: Row, by: Stopper) -> Flow[Stopped]:
    """Stop one child whose conversation holds that it is to end; may be stopped and begun again at any point."""
    answer: HostAnswer | None = None
    for _ in range(TRIES_MAX):
        now: Row | None = yield Read(RowOf(CHILDREN.name, (row["child_stream_id"],)))
        if now is None:
            return "kept"
        exists = yield from takes_more(str(row["child_stream_id"]), by.ports)
        run: Row | None = yield Read(RowOf(runtime_rows.RUNS, (row["child_run_id"],)))
        state = state_of(str(now["state"]), run, exists=exists)
        try:
            if run is not None and run["state"] == FINISHED and now["state"] not in OVER and exists:
                yield from settle_finished(now, by.ports)
                return "settled"
            if state in OVER:
                return "kept"
            if run is None and exists:
                yield from _end_unbegun(now, by)
                return "stopped"
            seen = (yield from look_at_run(str(row["child_run_id"]))) if exists else None
            if seen is not None and not (seen.state == RUNNING and seen.held):
                yield from end_run(seen, by.actor, by.owner, ports=by.ports)
                return "stopped"
            if answer is None:
                answer = yield from ask_host(by.host.stop, (yield from link_of(now)))
                continue
            return (yield from _by_answer(now, state, seen, answer, by))
        except MOVED:
            continue
    return "asked"


def _by_answer(
    row: Row, state: ChildState, seen: FoundRun | None, answer: HostAnswer, by: Stopper
) -> Flow[Stopped]:
    """What the host's answer makes of a child that is held by somebody, or whose conversation is purged."""
    if answer == "running":
        return "asked"
    if answer == "gone" and seen is not None:
        if seen.head.lease is not None:
            # Its host says that nobody is at it: what it held is free before the time is up.
            yield Release(seen.head.lease)
        yield from end_run(seen, by.actor, by.owner, ports=by.ports)
        return "stopped"
    terminal = yield from _stopping_terminal(row)
    # Without a run that was stopped above it, what has no conversation any more has got lost.
    decided = "lost" if terminal is None else fate(terminal, state, reachable=answer == "gone")
    settlement: Literal["stopped", "lost"] = "stopped" if decided == "stopped" else "lost"
    said = child_settled(str(row["child_stream_id"]), settlement, "parent", terminal)
    yield from settle_flow(row, said, by.actor, by.ports)
    return settlement


def _stopping_terminal(row: Row) -> Flow[str | None]:
    """How the run ended that stopped the child; None where none did, or nobody knows any more."""
    told = yield from stopped_by_parent(row)
    if told:
        return told
    run: Row | None = yield Read(RowOf(runtime_rows.RUNS, (row["parent_run_id"],)))
    terminal = None if run is None or run["terminal"] is None else str(run["terminal"])
    return terminal if terminal in STOPPING else None


def _end_unbegun(row: Row, by: Stopper) -> Flow[None]:
    """Nobody has begun it: its input is refused, in the append that settles it, so nobody begins it from now on."""
    stream_id, run_id = str(row["child_stream_id"]), str(row["child_run_id"])
    terminal = yield from stopped_by_parent(row)
    admission_id = admission_of(run_id)
    refused = yield from said_by(by.actor, not_begun(admission_id), run_id, None)
    said = child_settled(stream_id, "stopped", "parent", terminal or None)
    guards = (
        RowIs(runtime_rows.ADMISSIONS, (admission_id,), frozenset({ACCEPTED, DEFERRED, RELEASED})),
        RowIs(CHILDREN.name, (stream_id,), frozenset({str(row["state"])})),
    )
    parent_stream_id = str(row["parent_stream_id"])
    drafts: tuple[Draft, ...] = (refused,)
    entries: tuple[Entry, ...] = ()
    if not (yield from takes_more(parent_stream_id, by.ports)):
        drafts += ((yield from said_by(by.actor, said, run_id, refused.event_id)),)
    else:
        told = yield from said_by(by.actor, said, str(row["parent_run_id"]), refused.event_id, stream_id)
        entries = (Entry(parent_stream_id, (told,)),)
    yield Append(UnitDraft((Entry(stream_id, drafts), *entries), guards))


def ask_host(ask: object, link: ChildLink) -> Flow[HostAnswer]:
    """What a host says of a child; one that raises, or says anything else, cannot reach it."""
    assert callable(ask)
    result: CallResult = yield Call("host of children", ask, (link,))
    if isinstance(result, Returned) and result.value in ("gone", "running"):
        answer: HostAnswer = result.value
        return answer
    return "unreachable"


def _see_them_end(told: list[Row], patience_s: float) -> Flow[None]:
    """Give those who were told a moment, so that whoever stopped a run usually finds its children stopped too."""
    waited_s = 0.0
    for row in told:
        while waited_s < patience_s:
            now: Row | None = yield Read(RowOf(CHILDREN.name, (row["child_stream_id"],)))
            if now is None or now["awaits"] != END:
                break
            yield Wait(STEP_S, polling=True)
            waited_s += STEP_S
