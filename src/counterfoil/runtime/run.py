"""The run as an application sees it: a block, and what may be done inside it (DESIGN 11)."""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, Unpack, cast, overload

from counterfoil.abc import ChildLink, Host
from counterfoil.artifacts.handle import Artifact, serving
from counterfoil.artifacts.keep import Given, How, keep_flow, wanted
from counterfoil.companions.table import Change
from counterfoil.core.catalogue import Registry
from counterfoil.core.values import from_json, to_json
from counterfoil.effects.decisions import Constrained, Decisions
from counterfoil.effects.handle import Handle
from counterfoil.effects.perform import propose
from counterfoil.effects.tool import Tool
from counterfoil.errors import InvalidForm, NoRun, RunCancelled, RunClosed
from counterfoil.errors.base import text_of
from counterfoil.flow.context import RunScope, ScopeToken, enter_scope, leave_scope
from counterfoil.flow.drive import adrive, drive
from counterfoil.flow.event import Event
from counterfoil.flow.lanes import begin_main_lane
from counterfoil.flow.outside import CANCELLING
from counterfoil.flow.requests import Flow
from counterfoil.runtime import inputs
from counterfoil.runtime.admit import Entered, enter
from counterfoil.runtime.asking import Asking
from counterfoil.runtime.block import Ending, Outcome, RunHost, leave, leave_async, make_scope
from counterfoil.runtime.checking import Checking
from counterfoil.runtime.decide import CHOSEN_TERMINALS
from counterfoil.runtime.facts import message_flow, own_type, record_flow
from counterfoil.runtime.notes import Notes
from counterfoil.runtime.shutdown import WATCH
from counterfoil.runtime.slots.facade import State
from counterfoil.runtime.spec import RunSpec
from counterfoil.runtime.step import asked_step, check_callable, is_async, live_step, result_of, step_flow

if TYPE_CHECKING:
    import asyncio

    from counterfoil.runtime.children.spawn import SpawnHow

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Run(Asking, Checking, Notes):
    """One agent execution in one conversation, made by ``ledger.run(...)`` and used as a ``with`` block.

    Running the same code again with the same dedupe key resumes: steps, responses and effects are handed out from
    the record up to the frontier, from where the run goes on live. ``async with`` works the same way.

    >>> ledger = counterfoil.open(":memory:")
    >>> with ledger.run("agent", conversation="case-8472", dedupe="message-1") as run:
    ...     run.finish(run.ask(lambda request: "On its way.", "Where is my order?").text)
    >>> with ledger.run("agent", conversation="case-8472", dedupe="message-1") as again:  # the same input, the same run
    ...     pass
    >>> again.id == run.id, again.done, again.output
    (True, True, 'On its way.')
    >>> ledger.close()
    """

    def __init__(self, host: RunHost, spec: RunSpec) -> None:
        self._host = host
        self._spec = spec
        self._deadline_s = spec.deadline_s
        self._scope: RunScope | None = None
        self._entered: Entered | None = None
        self._token: ScopeToken | None = None
        self._task: asyncio.Task[Any] | None = None
        self._timeout: asyncio.Timeout | None = None
        self._watched = False
        self._output: Any = None
        self._finished: Event | None = None
        self._entry: RunScope | None = None
        self._chosen = "success"
        self._outcome = Outcome()

    def __repr__(self) -> str:
        return f"<Run {self._entered.run_id if self._entered else 'not entered'} of {self._spec.agent}>"

    # ---- what it is ----

    @property
    def entered(self) -> bool:
        """Whether the block was entered, so that there is a run."""
        return self._entered is not None

    @property
    def id(self) -> str:
        """``run_…``. Raises ``NoRun`` before the block was entered."""
        return self._known().run_id

    @property
    def conversation(self) -> str:
        """Stream id of the conversation, ``str_…``."""
        return self._known().stream_id

    @property
    def admission_id(self) -> str | None:
        """``adm_…``: the input that this run answers."""
        return self._known().admission_id

    @property
    def message(self) -> Any:
        """The input as it was accepted; read from the record, so a worker may resume a run by its id alone."""
        admission_id = self._known().admission_id
        with serving(self._entry):
            return drive(message_flow(admission_id), self._host.ports)

    @property
    def done(self) -> bool:
        """Whether the run had ended when the block was entered: its record is handed out and nothing is touched."""
        return self._known().terminal is not None

    @property
    def terminal(self) -> str | None:
        """How the run ended, once it has (DESIGN 6); None while it is open or waits."""
        return self._outcome.terminal

    @property
    def output(self) -> Any:
        """What :meth:`finish` was given, also in an earlier entry.

        Raises ``ContentUnavailable`` where it moved to an artifact that cannot be had.
        """
        finished = self._finished
        if finished is not None:
            moved = finished.opened.restore is not None
            content = finished.content if moved else finished.content_or_none() or {}
            with serving(self._entry):
                self._output = from_json(content.get("output"))
            self._finished = None
        return self._output

    # ---- the block ----

    def __enter__(self) -> Self:
        self._check_new()
        entered = drive(enter(self._host.ports, self._spec, self._host.owner), self._host.ports)
        self._open(entered, asynchronous=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        scope = self._open_scope()
        try:
            leave(self._host, self._spec, scope, error, Ending(self._chosen, self._output), self._outcome)
        finally:
            self._close(scope)

    async def __aenter__(self) -> Self:
        import asyncio

        self._check_new()
        entered = await adrive(enter(self._host.ports, self._spec, self._host.owner), self._host.ports)
        self._task = asyncio.current_task()
        self._open(entered, asynchronous=True)
        if self._deadline_s is not None and entered.terminal is None:
            self._timeout = asyncio.timeout(self._deadline_s)
            await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        scope = self._open_scope()
        error = await self._timed_out(scope, kind, error, trace)
        try:
            await leave_async(
                self._host, self._spec, scope, error, Ending(self._chosen, self._output), self._outcome
            )
        finally:
            self._close(scope)

    # ---- what may be done inside ----

    def step(self, name: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run code once: its result, or its error, is recorded and handed out whenever the run is resumed.

        Identity is the name, the arguments and which call of these it is. Arguments and result need a JSON form.
        """
        scope = self._open_scope()
        asked = asked_step(scope, name, fn, args, kwargs)
        found = asked.recorded
        return cast("R", self._drive(live_step(scope, asked)) if found is None else result_of(found))

    @overload
    async def astep(
        self, name: str, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    async def astep(self, name: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    async def astep(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """As :meth:`step`, for tasks: ``fn`` is async, or sync and called in a thread."""
        scope = self._open_scope()
        asked = asked_step(scope, name, fn, args, kwargs)
        found = asked.recorded
        return await self._adrive(live_step(scope, asked)) if found is None else result_of(found)

    def record(
        self,
        event_type: str,
        data: Mapping[str, Any] | None = None,
        *,
        version: int = 1,
        ignorable: bool = False,
        rows: Sequence[Change] = (),
    ) -> None:
        """Record a fact of the application.

        Fields declared public with ``ledger.declare`` stand in the open, everything else is content. A type that was
        not declared needs ``ignorable=True`` (DESIGN 3). ``rows`` are changes of companions
        (``ledger.declare_table``), made in the event's own transaction. Resuming records nothing twice. Raises
        InvalidForm for a type of the product.
        """
        registry = self._host.registry
        flow = record_flow(
            self._open_scope(), registry, own_type(event_type), data or {}, version, ignorable, rows
        )
        self._drive(flow)

    async def arecord(
        self,
        event_type: str,
        data: Mapping[str, Any] | None = None,
        *,
        version: int = 1,
        ignorable: bool = False,
        rows: Sequence[Change] = (),
    ) -> None:
        """As :meth:`record`, for tasks."""
        registry = self._host.registry
        flow = record_flow(
            self._open_scope(), registry, own_type(event_type), data or {}, version, ignorable, rows
        )
        await self._adrive(flow)

    def artifact(self, source: Given, **how: Unpack[How]) -> Artifact:
        """Keep bytes outside the events: encrypted, stored once for a subject, recorded as ``artifact.stored``.

        ``source`` is bytes, the path of a file, an open binary file or pieces of bytes; it is streamed. ``how`` may say
        ``kind`` (a label, ``file``), ``classification`` (``public internal confidential personal secret``), ``name``,
        ``media_type``, ``subject`` (whom it is about) and ``permission``. The handle may stand in arguments, results
        and messages. A resumed run gets the recorded one and reads nothing.
        """
        return self._drive(keep_flow(self._open_scope(), wanted(source, **how)))

    async def aartifact(self, source: Given, **how: Unpack[How]) -> Artifact:
        """As :meth:`artifact`, for tasks: files are read and written in a thread."""
        return await self._adrive(keep_flow(self._open_scope(), wanted(source, **how)))

    def inputs(self) -> list[dict[str, Any]]:
        """Inputs that joined this run since the last call (policy ``absorb``), each ``{admission_id, message}``."""
        scope = self._open_scope()
        found = self._drive(step_flow(scope, inputs.STEP_NAME, self._read_inputs, (), {}))
        return self._noted(scope, found)

    async def ainputs(self) -> list[dict[str, Any]]:
        """As :meth:`inputs`, for tasks."""
        scope = self._open_scope()
        found = await self._adrive(step_flow(scope, inputs.STEP_NAME, self._read_inputs, (), {}))
        return self._noted(scope, found)

    @property
    def state(self) -> State:
        """The state slots of the conversation: named values that outlive the run, read and set by name."""
        return State(self._open_scope, self._drive, self._adrive)

    def spawn(self, agent: str, message: Any = None, **how: Unpack[SpawnHow]) -> ChildLink:
        """Spawn a run of another agent, in a conversation of its own that is linked both ways; it is started at once.

        Its identity is agent, message and title, and which spawn of these it is: a resumed run gets the same child.
        ``how`` may say ``title``, ``call_id`` (the tool call it comes of; the last model call if left out),
        ``classification``, ``configuration``, its own ``budget``, and ``count_on_parent``: what it uses counts against this
        run's budget too. Raises ``ChildTooDeep``.
        """
        from counterfoil.runtime.children.spawn import child_wanted, nursery, spawn_flow

        asked = child_wanted(agent, message, self._spec, **how)
        return self._drive(spawn_flow(self._open_scope(), asked, nursery(self._host.nursery)))

    async def aspawn(self, agent: str, message: Any = None, **how: Unpack[SpawnHow]) -> ChildLink:
        """As :meth:`spawn`, for tasks."""
        from counterfoil.runtime.children.spawn import child_wanted, nursery, spawn_flow

        asked = child_wanted(agent, message, self._spec, **how)
        return await self._adrive(spawn_flow(self._open_scope(), asked, nursery(self._host.nursery)))

    def wait(self, child: ChildLink, *, within_s: float | None = None) -> Any:
        """The output of a child. While its host is at it the run waits, ``within_s`` seconds at most; then it is suspended.

        Running the code again, or a worker, goes on when the child has ended. Raises ``ChildFailed`` for a child that
        ended in any other way than ``success``.
        """
        from counterfoil.runtime.children.spawn import nursery
        from counterfoil.runtime.children.wait import wait_flow

        scope = self._open_scope()
        with serving(scope):
            return self._drive(wait_flow(scope, child, nursery(self._host.nursery), within_s))

    async def await_(self, child: ChildLink, *, within_s: float | None = None) -> Any:
        """As :meth:`wait`, for tasks."""
        from counterfoil.runtime.children.spawn import nursery
        from counterfoil.runtime.children.wait import wait_flow

        scope = self._open_scope()
        with serving(scope):
            return await self._adrive(wait_flow(scope, child, nursery(self._host.nursery), within_s))

    def finish(self, output: Any = None, *, terminal: str = "success") -> None:
        """Say what the run came to; recorded when the block ends.

        ``terminal`` may be ``success``, ``policy_stop``, ``provider_stop``, ``output_rejected`` or
        ``context_overflow``; how else a run ends is worked out from what happened.
        """
        if terminal not in CHOSEN_TERMINALS:
            raise InvalidForm(f"terminal is one of {', '.join(CHOSEN_TERMINALS)}", argument="terminal")
        to_json(output, "output")
        self._open_scope()  # after the block nothing is left that could record it
        if self._known().terminal is None:
            self._output, self._chosen = output, terminal

    def propose(self, tool: Tool[..., Any], /, *args: Any, **kwargs: Any) -> str | None:
        """Have people asked about a call of a tool before it is made, so that several calls can wait together.

        Returns the approval, or None if there is nothing to wait for. The call itself is made as ever.
        """
        return self._drive(self._proposal(tool, args, kwargs))

    async def apropose(self, tool: Tool[..., Any], /, *args: Any, **kwargs: Any) -> str | None:
        """As :meth:`propose`, for tasks."""
        return await self._adrive(self._proposal(tool, args, kwargs))

    def _proposal(
        self, tool: Tool[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Flow[str | None]:
        if not isinstance(tool, Tool):
            raise InvalidForm("propose takes a tool declared with counterfoil.effect", argument="tool")
        bound = tool.parameters.bind(args, kwargs, tool.name)
        return propose(self._open_scope(), tool, bound, Handle())

    @property
    def constrained(self) -> list[Constrained]:
        """Calls that a policy allowed with other arguments than the code gave, with both; in the order of proposal."""
        return self._open_scope().part(Decisions).constrained

    def cancel(self, reason: str = "the run was cancelled") -> None:
        """End the run at its next call: it ends as ``cancelled``, and ``RunStopped`` leaves the block."""
        self._open_scope().latch(RunCancelled(text_of(reason)))

    def bind(self, fn: Callable[P, R]) -> Callable[P, R]:
        """``fn`` taking this run along, for thread pools and bare threads; a fresh copy of the context for each call."""
        check_callable("fn", fn)
        self._open_scope()
        context = contextvars.copy_context()
        if is_async(fn):

            @functools.wraps(fn)
            async def bound_async(*args: P.args, **kwargs: P.kwargs) -> Any:
                import asyncio

                call = cast("Callable[..., Any]", fn)(*args, **kwargs)
                return await asyncio.get_running_loop().create_task(call, context=context.copy())

            return cast("Callable[P, R]", bound_async)

        @functools.wraps(fn)
        def bound(*args: P.args, **kwargs: P.kwargs) -> R:
            return context.copy().run(fn, *args, **kwargs)

        return bound

    # ---- inside ----

    def _lends(self) -> Host:
        return self._host.host

    def _drive(self, flow: Flow[T]) -> T:
        return drive(flow, self._host.ports)

    async def _adrive(self, flow: Flow[T]) -> T:
        return await adrive(flow, self._host.ports)

    def _event_types(self) -> Registry:
        return self._host.registry

    def _read_inputs(self) -> list[dict[str, Any]]:
        return self._drive(inputs.read_inputs(self._open_scope()))

    def _noted(self, scope: RunScope, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        scope.part(inputs.Inputs).note(found)
        return [{**message, "message": from_json(message["message"])} for message in found]

    def _check_new(self) -> None:
        if self._entered is not None:
            raise RunClosed(
                f"run {self._entered.run_id} was entered before",
                hint="call ledger.run(...) again to resume it",
            )

    def _known(self) -> Entered:
        if self._entered is None:
            raise NoRun("this run has not been entered", hint="use it as `with ledger.run(...) as run:`")
        return self._entered

    def _open_scope(self) -> RunScope:
        scope = self._scope
        if scope is None:
            self._known()
            raise RunClosed(f"run {self.id} has ended", hint="call ledger.run(...) again", run_id=self.id)
        return scope

    def _open(self, entered: Entered, *, asynchronous: bool) -> None:
        self._entered = entered
        self._outcome.terminal = entered.terminal
        scope = make_scope(self._host, self._spec, entered, asynchronous, self._deadline_s)
        if entered.terminal is not None:
            self._finished = next((event for event in entered.history if event.type == "run.finished"), None)
        else:
            if any(event.type in CANCELLING for event in entered.history):
                scope.cancel()
            self._host.heartbeat.add(scope)
            self._watched = WATCH.begin(self._task)
        self._scope = self._entry = scope
        self._token = enter_scope(scope)
        begin_main_lane()

    async def _timed_out(
        self,
        scope: RunScope,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> BaseException | None:
        """What left the block, with the deadline's cancellation told apart from anybody else's."""
        if self._timeout is None:
            return error
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            return scope.latch(
                RunCancelled(f"the deadline of run {scope.run_id} has passed", terminal="timeout")
            )
        return error

    def _close(self, scope: RunScope) -> None:
        scope.close()
        self._scope = None
        if self._token is not None:
            leave_scope(self._token)
        if self._watched:
            WATCH.end(self._task)
