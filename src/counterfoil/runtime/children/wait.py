"""Waiting for a child: its recorded result, or the run is put to rest until there is one."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from counterfoil.abc import ChildLink
from counterfoil.core.values import from_json
from counterfoil.errors import ChildFailed, InvalidForm, NotFoundError
from counterfoil.flow.context import RunScope
from counterfoil.flow.event import Event
from counterfoil.flow.outside import CANCELLING
from counterfoil.flow.requests import Call, CallResult, Events, Flow, Now, Raised, Read, RowOf, Wait
from counterfoil.runtime.children.events import SETTLED
from counterfoil.runtime.children.nursery import Nursery
from counterfoil.runtime.children.rows import CHILDREN, LEFT
from counterfoil.runtime.children.state import standing_of
from counterfoil.runtime.children.stop import ask_host
from counterfoil.runtime.ready import can_go_on
from counterfoil.runtime.rows import RUNS
from counterfoil.runtime.spec import check_seconds
from counterfoil.store.rows import Row

STEP_S: Final = 0.05
LOOKS_PER_CANCEL: Final = 20
"""Looks at a child between two looks whether the waiting run itself was cancelled."""


class _Patience(Struct):
    """How long to wait, and what was tried."""

    within_s: float | None
    began_ms: int
    started: bool = False
    fault: str = ""
    looks: int = 0

    def is_over(self, now_ms: int) -> bool:
        """Whether the time that the caller gave has passed."""
        return self.within_s is not None and now_ms - self.began_ms >= self.within_s * 1000


def wait_flow(scope: RunScope, link: ChildLink, nursery: Nursery, within_s: float | None) -> Flow[Any]:
    """The child's output, as its first settlement says it, today and whenever the run is entered again.

    While its host is at it the run waits, ``within_s`` at most; a child that nobody is at is started once more. Then the
    run is suspended with the cause ``child``. Raises ``ChildFailed`` for one that did not end well.
    """
    if not isinstance(link, ChildLink):
        raise InvalidForm(
            f"a child is what run.spawn returned, not {type(link).__name__}",
            hint="ledger.children(run.id) lists those of a run, each with its link",
            argument="child",
        )
    if within_s is not None:
        check_seconds("within_s", within_s, least="from 0")
    scope.check()
    now: int = yield Now()
    patience = _Patience(within_s, now)
    while True:
        settled = yield from _first_settlement(link)
        if settled is not None:
            return output_of(link, settled)
        if scope.terminal is not None:
            scope.frontier(f"a result of child {link.run_id}")
        if not (yield from _worth_waiting(link, nursery, patience)):
            why = f"child {link.run_id} of {link.agent} has not ended{patience.fault}"
            raise scope.suspend(why, cause="child", waits_for=(link.run_id,))
        yield Wait(STEP_S, polling=True)
        yield from _look_up(scope, patience)


def _worth_waiting(link: ChildLink, nursery: Nursery, patience: _Patience) -> Flow[bool]:
    now: int = yield Now()
    if patience.is_over(now):
        return False
    if (yield from ask_host(nursery.host.probe, link)) == "running":
        return True
    row: Row | None = yield Read(RowOf(CHILDREN.name, (link.stream_id,)))
    if row is None:
        raise NotFoundError(f"there is no child {link.run_id} in this ledger", run_id=link.run_id)
    if patience.started or not (yield from _can_go_on(row)):
        # It may have ended between the two looks; then there is a settlement to find.
        return (yield Read(RowOf(CHILDREN.name, (link.stream_id,))))["state"] not in ("open", LEFT)
    patience.started = True
    answer: CallResult = yield Call("host of children", nursery.host.start, (link,))
    if isinstance(answer, Raised):
        patience.fault = f": its host could not start it ({type(answer.error).__name__})"
        return False
    return True


def _can_go_on(row: Row) -> Flow[bool]:
    """Whether a child that nobody is at may be carried out: not begun, or left by its worker, or what it waited for came."""
    standing = yield from standing_of(row)
    if standing.state == "suspended":
        run: Row | None = yield Read(RowOf(RUNS, (row["child_run_id"],)))
        return run is not None and (yield from can_go_on(run))
    return standing.state in ("spawned", "running")


def _look_up(scope: RunScope, patience: _Patience) -> Flow[None]:
    """Whoever waits is told of the outside: the run's own end, its deadline, its budget."""
    patience.looks += 1
    scope.check()
    if patience.looks % LOOKS_PER_CANCEL == 0:
        after = scope.outside.seen or 0
        asked: list[Event] = yield Read(Events(scope.stream_id, after, CANCELLING, scope.run_id, 1))
        if asked:
            scope.cancel()
            scope.check()


def _first_settlement(link: ChildLink) -> Flow[Event | None]:
    """The first that says how the child ended: a later one, of a child that was given up, changes no result."""
    row: Row | None = yield Read(RowOf(CHILDREN.name, (link.stream_id,)))
    if row is not None and row["state"] in ("open", LEFT):
        return None
    types, run_id = frozenset({SETTLED}), link.parent_run_id
    told: list[Event] = yield Read(Events(link.parent_stream_id, types=types, run_id=run_id))
    for event in told:
        if event.data["child_stream_id"] == link.stream_id and event.data["state"] != LEFT:
            return event
    return None


def output_of(link: ChildLink, settled: Event) -> Any:
    """What a settlement means to the parent's code. Raises ``ChildFailed`` for a child that did not end well."""
    result = settled.content.get("result", {})
    terminal = result.get("terminal")
    if settled.data["state"] == "finished" and terminal == "success":
        return from_json(result.get("output"))
    error_class = str((result.get("error") or {}).get("class", "")) or None
    ended = (
        settled.data["state"] if terminal is None else f"{settled.data['state']}, its run ended as {terminal}"
    )
    raise ChildFailed(
        f"child {link.run_id} of {link.agent} brought no result: {ended}",
        hint=f"`counterfoil show {link.run_id}` shows what it did",
        child_run_id=link.run_id,
        child_stream_id=link.stream_id,
        state=settled.data["state"],
        terminal=terminal,
        error_class=error_class,
    )
