"""What goes on by itself: the runs that can go on, and workers that take them up (DESIGN 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, cast

from msgspec import Struct

from counterfoil.abc import ChildLink, Policy
from counterfoil.client.childing import Childing
from counterfoil.client.place import MEMORY
from counterfoil.core.values import from_json
from counterfoil.effects.declaring import record_tools, recorded_schema
from counterfoil.effects.registry import find_tool, tools
from counterfoil.errors import ConflictError, CounterfoilError, LeaseLost, RunWaiting
from counterfoil.flow.drive import drive
from counterfoil.runtime.agents import Agent, find_agent
from counterfoil.runtime.block import RunHost
from counterfoil.runtime.ready import ReadyRun, ready_runs
from counterfoil.runtime.ready_inputs import ReadyInput, ready_inputs
from counterfoil.runtime.recover import policy_of
from counterfoil.runtime.rows import RUNS
from counterfoil.runtime.run import Run
from counterfoil.runtime.schedules.timer import RowTimer
from counterfoil.runtime.shutdown import WATCH
from counterfoil.runtime.spec import check_seconds, make_spec
from counterfoil.runtime.worker import Entry, Happening, Started, Worker

NO_POLICY = "it began under a policy, and its agent is registered without one: counterfoil.agent(…, policy=…) gives it one"


class Working(Childing):
    """The runs of a ledger that can go on, and workers."""

    def ready(self) -> Iterator[ReadyRun]:
        """Runs that can go on: an approval was answered, a review settled, a retry is due, or the worker is gone.

        ``ledger.run(ready.agent, resume=ready.run_id)`` goes on with one. A query, whoever waits where; a page is in
        memory at a time.
        """
        return ready_runs(self.ports)

    def ready_inputs(self) -> Iterator[ReadyInput]:
        """Inputs that wait for a run and can have one: released, due by now, or next in line of a free conversation.

        ``ledger.run(ready.agent, admission=ready.admission_id)`` starts one. A query; a page is in memory at a time.
        """
        return ready_inputs(self.ports)

    def worker(
        self,
        *,
        every_s: float = 1.0,
        agents: bool = True,
        tell: Callable[[Happening], None] = lambda _: None,
    ) -> Worker:
        """A worker on this handle: ``worker.work()`` goes on until ``worker.stop()``, ``worker.look()`` is one pass.

        It ends doubt whose time has come, makes due retries, fires schedules, enters the runs of :func:`counterfoil.agent` again and
        starts inputs that wait for them, unless ``agents`` is False. On a handle with ``turns=True`` it also keeps the heads of turns that ended by
        another's hand, and gives up those that nobody has been at for a day. It looks every ``every_s`` seconds. ``tell`` hears of everything that happened.
        """
        self.check_writable()
        check_seconds("every_s", every_s, least="above 0")
        enter, start = (self._enter, self._start) if agents else (None, None)
        return Worker(
            self.ports,
            self.owner,
            find_tool,
            enter=enter,
            start=start,
            timer=(self.host.timer or RowTimer(self.ports)) if agents else None,
            every_s=every_s,
            children=self.child_host,
            turns=self.keeps_turns,
            tell=tell,
        )

    def record_tools(self) -> list[str]:
        """Put the declared tools on record as they are now: what each schema digest stands for; those that were new.

        Recorded once. Where a tool has changed since a call that is in doubt, both schemas can then be shown.
        """
        self.check_writable()
        new = drive(record_tools(tools(), self.tenant, self.streams.id_of("config")), self.ports)
        return [f"{tool.name} {tool.version}" for tool in new]

    def recorded_schema(self, tool: str, version: str, schema: str) -> Mapping[str, Any] | None:
        """The JSON schema of a tool's arguments that a digest in an intention stands for, if it was put on record."""
        found = drive(recorded_schema(self.tenant, tool, version, schema), self.ports)
        return None if found is None else cast("Mapping[str, Any]", from_json(dict(found)))

    def carry_out(self, child: ChildLink) -> None:
        """Enter a child's run with the code of its agent; how the block was left stands in the ledger."""
        agent = find_agent(child.agent)
        row = self.store.get(RUNS, (child.run_id,))
        started = 1 if row is None else int(row["started_sequence"] or 1)
        if agent is not None:
            self._enter(ReadyRun(child.run_id, child.stream_id, child.agent, "spawned", started), agent)

    def _enter(self, ready: ReadyRun, agent: Agent) -> Entry:
        """Run an agent's code in its run, and tell how the block was left."""
        policy = self.policy if agent.policy is None else agent.policy
        if policy is None and policy_of(self.ports, ready.stream_id, ready.started_sequence) is not None:
            return Entry(ready, "left", why=NO_POLICY)
        run = self._run_of(agent, policy, run_id=ready.run_id)
        how = _worked(run, agent)
        return Entry(ready, how.done, how.terminal, how.error_class, how.why)

    def _start(self, waiting: ReadyInput, agent: Agent) -> Started:
        """Run an agent's code in a run for an input that waited."""
        policy = self.policy if agent.policy is None else agent.policy
        run = self._run_of(agent, policy, admission_id=waiting.admission_id)
        how = _worked(run, agent)
        run_id = run.id if run.entered else None
        return Started(waiting, how.done, run_id, how.terminal, how.error_class, how.why)

    def _run_of(
        self,
        agent: Agent,
        policy: Policy | None,
        *,
        run_id: str | None = None,
        admission_id: str | None = None,
    ) -> Run:
        spec = make_spec(
            agent.name,
            agent_version=agent.version,
            run_id=run_id,
            admission_id=admission_id,
            policy_revision=None if policy is None else policy.revision,
            place=None if self.place == MEMORY else self.place,
        )
        host = RunHost(
            self.ports,
            self.registry,
            self._heartbeat,
            self.owner,
            policy,
            self.keeps_turns,
            self.host,
            trees=self._trees,
            nursery=self.nursery(),
        )
        return Run(host, spec)


class _How(Struct, frozen=True):
    """How a block was left, in the words of :class:`Entry`."""

    done: Literal["ended", "waits", "busy", "left"]
    terminal: str | None = None
    error_class: str | None = None
    why: str = ""


def _worked(run: Run, agent: Agent) -> _How:
    import asyncio

    try:
        if agent.asynchronous:
            asyncio.run(_go_on_async(run, agent))
        else:
            _go_on(run, agent)
    except RunWaiting as waiting:
        return _How("waits", why=waiting.message)
    except LeaseLost as lost:
        return _How("busy", why=str(lost))
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the run's own affair; it is recorded, and the next run has its turn
        return _left(run, error)
    except SystemExit as left:
        # The agent's own affair too, unless it is this process that is told to go.
        if WATCH.may_have_left():
            raise
        return _left(run, left)
    return _How("ended", run.terminal)


def _go_on(run: Run, agent: Agent) -> None:
    with run:
        if not run.done:
            agent.fn(run)


async def _go_on_async(run: Run, agent: Agent) -> None:
    async with run:
        if not run.done:
            await agent.fn(run)


def _left(run: Run, error: BaseException) -> _How:
    """What is told of an error holds no words of the application: those are content of the run's end (FORMAT 11)."""
    name = type(error).__name__
    if run.terminal is not None:
        return _How("ended", run.terminal, name)
    if isinstance(error, ConflictError):
        return _How("busy", error_class=name, why=error.message)
    why = error.message if isinstance(error, CounterfoilError) else ""
    return _How("left", error_class=name, why=why)
