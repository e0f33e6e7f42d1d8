"""Recovery: effects whose worker is gone are brought to an outcome, or to a person (DESIGN 7)."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field

from counterfoil.artifacts.handle import serving
from counterfoil.core.forms import time_text
from counterfoil.core.ids import is_id
from counterfoil.core.several import several
from counterfoil.effects.outcome import error_label
from counterfoil.effects.recover import Recovered, recover_effect, retry_effect
from counterfoil.effects.retrying import due_of
from counterfoil.effects.rows import EFFECTS, RETRIES
from counterfoil.effects.state import IN_DOUBT, IN_REVIEW
from counterfoil.errors import (
    CounterfoilError,
    Fenced,
    LeaseHeld,
    LeaseLost,
    NotFoundError,
    RunCancelled,
    RunSuspended,
    StoreError,
)
from counterfoil.flow.context import LEASE_TTL_MS, RunScope
from counterfoil.flow.drive import adrive, drive
from counterfoil.flow.event import Event
from counterfoil.flow.loops import is_cancellation, running_loop
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import ClaimSpec, Entry, Events, Flow, HeadOf, RowOf, Rows, UnitDraft
from counterfoil.runtime import events, rows
from counterfoil.runtime.children.recover import ChildReport
from counterfoil.runtime.doubt import open_effects, waiting_on
from counterfoil.runtime.leave import rest_flow
from counterfoil.runtime.owner import is_gone
from counterfoil.runtime.rehearsals import rehearsed_by
from counterfoil.runtime.spec import worker
from counterfoil.runtime.state import FINISHED, RUNNING
from counterfoil.store.rows import Cell, Key, Row
from counterfoil.store.unit import Claimed, Head

if TYPE_CHECKING:
    from counterfoil.effects.tool import Tool

T = TypeVar("T")
FindTool = Callable[[str, str | None], "Tool[..., Any] | None"]

PAGE_ROWS = 500

_ASKED = "a person was asked, and has not settled it yet"


class EffectReport(Struct, frozen=True):
    """What recovery found or did for one effect.

    ``done`` is ``decided``, ``review``, ``left`` (``why`` says what it needs), ``retrying`` (not done, and due again
    later), ``given_up`` (not tried again), ``nothing`` or ``live`` (a worker holds the conversation).
    """

    effect_id: str
    tool: str
    tool_version: str
    run_id: str
    stream_id: str
    done: str
    state: str
    why: str = ""


class RecoveryReport(Struct):
    """What one pass over the ledger came to.

    ``effects`` are those this pass looked at, ``retries`` those whose policy tries them again, ``waiting`` those that a person was asked about before, which no
    recovery can end. ``tools_missing`` are tools in doubt whose code is not loaded here; ``open_runs`` are runs that
    no worker holds: running their code again resumes them. ``children`` are those that were settled or told to end.
    """

    effects: list[EffectReport] = field(default_factory=list)
    retries: list[EffectReport] = field(default_factory=list)
    waiting: list[EffectReport] = field(default_factory=list)
    tools_missing: list[str] = field(default_factory=list)
    open_runs: list[Row] = field(default_factory=list)
    children: list[ChildReport] = field(default_factory=list)

    @property
    def undecided(self) -> list[EffectReport]:
        """Effects that are still in doubt or wait for a person."""
        left = [effect for effect in self.effects if effect.done in {"review", "left", "live"}]
        doubted = [effect for effect in self.retries if effect.state in IN_DOUBT | IN_REVIEW]
        return [*left, *doubted, *self.waiting]


def recover(
    ports: Ports, owner: str, find_tool: FindTool, *, only: Iterable[str] | None = None
) -> RecoveryReport:
    """Look at every effect in doubt of the tenant and end its doubt as its rule says; make the retries that are due.

    ``only`` names effects, runs, streams or tools to look at. May be stopped and started again at any point, and run
    anywhere at the same time: each conversation is claimed before anything is asked or recorded.
    What goes wrong with one effect is said in its report, and the others have their turn. Raises ``NotFoundError``
    for a name of ``only`` that names nothing here, ``InvalidForm`` for one text in place of several, and ``StoreError`` when the store fails.
    """
    wanted = None if only is None else frozenset(several(only, "only"))
    doubted, asked = _rows_in(ports, IN_DOUBT, wanted), _rows_in(ports, IN_REVIEW, wanted)
    retried = [row for row in retry_rows(ports) if wanted is None or wanted & _names(row)]
    for name in sorted(wanted or ()):
        if not any(name in _names(row) for row in (*doubted, *retried, *asked)):
            _check_name(ports, find_tool, name)
    report = RecoveryReport(waiting=[_report(row, "review", _ASKED) for row in asked])
    report.effects = [end_doubt(ports, owner, find_tool, row) for row in doubted]
    report.retries = [make_retry(ports, owner, find_tool, row) for row in retried]
    missing = {
        effect.tool
        for effect in (*report.effects, *report.retries)
        if effect.done in {"left", "live"} and find_tool(effect.tool, effect.tool_version) is None
    }
    report.tools_missing = sorted(missing)
    report.open_runs = list(open_runs(ports))
    return report


def open_runs(ports: Ports) -> Iterator[Row]:
    """Runs that began, did not end and are held by nobody; no rehearsals, which nobody goes on with."""
    return (row for row in _left(ports) if drive(rehearsed_by(str(row["run_id"])), ports) is None)


def _left(ports: Ports) -> Iterator[Row]:
    for row in run_pages(ports, RUNNING):
        if not is_held(ports, str(row["stream_id"])):
            yield row


def given_up(ports: Ports, older_than_s: float) -> Iterator[Row]:
    """Open runs to which nothing came for so long, rehearsals too."""
    before_ms = ports.now_ms() - round(older_than_s * 1000)
    return (row for row in _left(ports) if int(row["changed_at_ms"] or 0) < before_ms)


def run_pages(ports: Ports, state: str) -> Iterator[Row]:
    """Rows of the tenant's runs in one state, a page in memory at a time."""
    # The columns of the index, then those of the key, although they are the same here.
    columns = ("tenant", "state", "run_id", "run_id")
    return _pages(ports, rows.RUNS, "by_state", (ports.tenant, state), columns)


def _rows_in(ports: Ports, states: frozenset[str], wanted: frozenset[str] | None) -> list[Row]:
    """The rows as they are now: recovery moves them to other states while it goes through them."""
    found: list[Row] = []
    for state in sorted(states):
        columns = ("tenant", "state", "deadline_ms", "effect_id")
        page = _pages(ports, EFFECTS.name, "by_state", (ports.tenant, state), columns)
        found += [row for row in page if wanted is None or wanted & _names(row)]
    return found


def doubt_due(ports: Ports) -> Iterator[Row]:
    """Rows of the effects in doubt whose deadline has passed, a page in memory at a time."""
    columns = ("tenant", "state", "deadline_ms", "effect_id")
    now_ms = ports.now_ms()
    for state in sorted(IN_DOUBT):
        for row in _pages(ports, EFFECTS.name, "by_state", (ports.tenant, state), columns):
            if isinstance(row["deadline_ms"], int) and row["deadline_ms"] > now_ms:
                # In the order of deadlines, so those behind it are not due either.
                break
            yield row


def retry_rows(ports: Ports) -> Iterator[Row]:
    """Rows of the effects that their policy tries again, whenever that is due; the longest decided first."""
    columns = ("tenant", "decided_at_ms", "effect_id")
    for retry in _pages(ports, RETRIES.name, "by_decided", (ports.tenant,), columns):
        row: Row | None = ports.read(RowOf(EFFECTS.name, (retry["effect_id"],)))
        # An attempt decided on under a doubt rule has such a row too; its effect is in doubt and is found there.
        if row is not None and row["state"] == "failed":
            yield {**row, "due_at_ms": due_of(retry)}


def _names(row: Row) -> frozenset[Cell]:
    """What an effect may be asked for by."""
    return frozenset((row["effect_id"], row["run_id"], row["stream_id"], row["tool"]))


def _check_name(ports: Ports, find_tool: FindTool, name: str) -> None:
    """Raise ``NotFoundError`` unless the name is that of an effect, run, stream or tool that is not in doubt."""
    if is_id(name, "eff"):
        row: Row | None = ports.read(RowOf(EFFECTS.name, (name,)))
    elif is_id(name, "run"):
        row = ports.read(RowOf(rows.RUNS, (name,)))
    elif is_id(name, "str"):
        row = None if ports.read(HeadOf(name)) is None else {"tenant": ports.tenant}
    else:
        row = None if find_tool(name, None) is None else {"tenant": ports.tenant}
    if row is None or row["tenant"] != ports.tenant:
        raise NotFoundError(
            f"{name!r} names no effect, run, conversation or tool here",
            hint="`counterfoil ls effects` lists what can be recovered",
            name=name,
        )


def _pages(ports: Ports, table: str, index: str, prefix: Key, columns: tuple[str, ...]) -> Iterator[Row]:
    after: Key | None = None
    while True:
        page: list[Row] = ports.read(Rows(table, index, prefix, PAGE_ROWS, after))
        yield from page
        if len(page) < PAGE_ROWS:
            return
        after = tuple(page[-1][column] for column in columns)


def is_held(ports: Ports, stream_id: str) -> bool:
    """Whether a worker that may be alive owns this conversation."""
    head: Head | None = ports.read(HeadOf(stream_id))
    if head is None or head.lease is None:
        return False
    return ports.now_ms() < head.lease.expires_at_ms and not is_gone(head.lease.owner)


# ---- one effect ----------------------------------------------------------------------------------------------------


def end_doubt(ports: Ports, owner: str, find_tool: FindTool, row: Row) -> EffectReport:
    """End the doubt of one effect, if its conversation can be claimed and its deadline has passed.

    What goes wrong is said in the report. Raises ``StoreError`` when the store fails.
    """
    return _told(row, lambda: _end_doubt(ports, owner, find_tool, row))


def make_retry(ports: Ports, owner: str, find_tool: FindTool, row: Row) -> EffectReport:
    """Make one retry if it is due; ``row`` is the effect's, with ``due_at_ms``.

    A run that began under a policy goes on under it: its code makes the retry when it is entered again.
    What goes wrong is said in the report. Raises ``StoreError`` when the store fails.
    """
    return _told(row, lambda: _make_retry(ports, owner, find_tool, row))


def _told(row: Row, bring: Callable[[], EffectReport]) -> EffectReport:
    """What came of one effect; whatever leaves its flow is told, so that it stops neither a pass nor a worker."""
    try:
        return bring()
    except StoreError:
        raise
    except BaseException as error:
        # A key that is gone, a record that cannot be read, or what an application's code raises keeps no other effect
        # from being recovered. A store that fails is nobody's own, and an interrupt is for the process.
        if not (isinstance(error, Exception | RunCancelled) or is_cancellation(error)):
            raise
        return _report(row, "left", _said_of(error))


def _said_of(error: BaseException) -> str:
    """Our own words; of an error of the application only its class, since its words may be content."""
    if isinstance(error, CounterfoilError):
        return error.message
    return f"its recovery ended with {error_label(error)}"


def _end_doubt(ports: Ports, owner: str, find_tool: FindTool, row: Row) -> EffectReport:
    tool = find_tool(str(row["tool"]), str(row["tool_version"]))
    deadline = row["deadline_ms"]
    if isinstance(deadline, int) and ports.now_ms() < deadline:
        return _report(row, "left", "its call may be under way until its deadline")
    if tool is None and row["doubt"] != "review":
        return _report(row, "left", f"no tool {row['tool']!s} is declared here")
    return _claimed(ports, owner, row, lambda scope: recover_effect(row, tool, scope), tool)


def _make_retry(ports: Ports, owner: str, find_tool: FindTool, row: Row) -> EffectReport:
    tool = find_tool(str(row["tool"]), str(row["tool_version"]))
    due_ms = int(row["due_at_ms"] or 0)
    if ports.now_ms() < due_ms:
        return _report(row, "left", f"its next attempt is due at {time_text(due_ms)}")
    run: Row | None = ports.read(RowOf(rows.RUNS, (row["run_id"],)))
    ended = run is None or run["state"] == FINISHED
    if not ended and tool is None:
        return _report(row, "left", f"no tool {row['tool']!s} is declared here")
    started = 1 if run is None else int(run["started_sequence"] or 1)
    if not ended and policy_of(ports, str(row["stream_id"]), started) is not None:
        return _report(row, "left", "its run began under a policy and goes on under it: run its code again")
    return _claimed(ports, owner, row, lambda scope: retry_effect(row, tool, scope, ended=ended), tool)


def policy_of(ports: Ports, stream_id: str, started_sequence: int) -> str | None:
    """The revision of the policy that a run began under, by where it was started; None without a policy."""
    found: list[Event] = ports.read(Events(stream_id, after=started_sequence - 1, limit=1))
    revision: str | None = found[0].data.get("policy_revision") if found else None
    return revision


def _claimed(
    ports: Ports,
    owner: str,
    row: Row,
    flow_of: Callable[[RunScope], Flow[Recovered]],
    tool: Tool[..., Any] | None,
) -> EffectReport:
    """What comes of a flow about one effect while its conversation is owned."""
    try:
        scope = _claim(ports, owner, row)
    except (Fenced, LeaseHeld):
        return _report(row, "live", "a worker holds the conversation")
    try:
        asynchronous = tool is not None and tool.asynchronous
        with serving(scope):
            done: Recovered = carry(flow_of(scope), scope.ports, asynchronous=asynchronous)
        drive(_put_to_rest(scope), scope.ports)
        return _report(row, done.done, done.why, done.state)
    except LeaseLost:
        return _report(row, "live", "a worker took the conversation over")
    except RunSuspended as parked:
        return _report(row, "left", str(parked))
    finally:
        ports.release(scope.lease)


def _claim(ports: Ports, owner: str, row: Row) -> RunScope:
    """Own the conversation for the recovery of one effect. Raises ``LeaseHeld`` or ``Fenced``."""
    stream_id, run_id = str(row["stream_id"]), str(row["run_id"])
    head: Head = ports.read(HeadOf(stream_id))
    if head.lease is not None and is_gone(head.lease.owner):
        ports.release(head.lease)
    run: Row | None = ports.read(RowOf(rows.RUNS, (run_id,)))
    agent = str(run["agent"]) if run is not None else "recovery"
    said = events.run_claimed(head.token + 1, head.token, "recovery", worker())
    event = said.draft(
        ports.new_id("evt"), ports.now_ms(), {"type": "worker", "id": "recovery"}, run_id=run_id
    )
    unit = UnitDraft((Entry(stream_id, (event,)),))
    claimed = ports.append(unit, ClaimSpec(stream_id, owner, LEASE_TTL_MS, head.token))
    assert isinstance(claimed, Claimed)
    return RunScope(ports, stream_id=stream_id, run_id=run_id, agent=agent, lease=claimed.lease)


def _put_to_rest(scope: RunScope) -> Flow[None]:
    """A run that its worker left and that waits for a person now is shown as waiting."""
    run: Row | None = scope.ports.read(RowOf(rows.RUNS, (scope.run_id,)))
    if run is None or run["state"] != RUNNING:
        return
    effects = yield from open_effects(scope.stream_id, scope.run_id)
    cause, waits_for = waiting_on(effects)
    if cause == "review":
        yield from rest_flow(scope, cause, waits_for, "found by recovery")


def _report(row: Row, done: str, why: str, state: str | None = None) -> EffectReport:
    return EffectReport(
        effect_id=str(row["effect_id"]),
        tool=str(row["tool"]),
        tool_version=str(row["tool_version"]),
        run_id=str(row["run_id"]),
        stream_id=str(row["stream_id"]),
        done=done,
        state=state or str(row["state"]),
        why=why,
    )


# ---- async code from sync ------------------------------------------------------------------------------------------


def carry(flow: Flow[T], ports: Ports, *, asynchronous: bool) -> T:
    """Drive a flow to its end on this thread; one that calls async code gets an event loop of its own."""
    if not asynchronous:
        return drive(flow, ports)
    if running_loop() is not None:
        return _in_thread(flow, ports)
    import asyncio

    return asyncio.run(adrive(flow, ports))


def _in_thread(flow: Flow[T], ports: Ports) -> T:
    """As the caller's own loop is running, the flow gets a thread with another one."""
    import asyncio

    outcome: list[T] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            outcome.append(asyncio.run(adrive(flow, ports)))
        except BaseException as error:  # noqa: BLE001 - handed to the caller below
            failure.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]
