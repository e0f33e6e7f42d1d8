"""What goes on by itself: the runs that can go on, and workers that take them up (DESIGN 7)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from counterfoil.abc import Policy
from counterfoil.client.handle import Handle
from counterfoil.client.place import MEMORY
from counterfoil.core.values import from_json
from counterfoil.effects.declaring import record_tools, recorded_schema
from counterfoil.effects.registry import find_tool, tools
from counterfoil.errors import ConflictError, CounterfoilError, LeaseLost, RunWaiting
from counterfoil.flow.drive import drive
from counterfoil.runtime.agents import Agent
from counterfoil.runtime.block import RunHost
from counterfoil.runtime.ready import ReadyRun, ready_runs
from counterfoil.runtime.recover import policy_of
from counterfoil.runtime.run import Run
from counterfoil.runtime.spec import check_seconds, make_spec
from counterfoil.runtime.worker import Entry, Happening, Worker

NO_POLICY = "it began under a policy, and its agent is registered without one: counterfoil.agent(…, policy=…) gives it one"


class Working(Handle):
    """The runs of a ledger that can go on, and workers."""

    def ready(self) -> Iterator[ReadyRun]:
        """Runs that can go on: an approval was answered, a review settled, a retry is due, or the worker is gone.

        ``ledger.run(ready.agent, resume=ready.run_id)`` goes on with one. A query, whoever waits where; a page is in
        memory at a time.
        """
        return ready_runs(self.ports)

    def worker(
        self,
        *,
        every_s: float = 1.0,
        agents: bool = True,
        tell: Callable[[Happening], None] = lambda _: None,
    ) -> Worker:
        """A worker on this handle: ``worker.work()`` goes on until ``worker.stop()``, ``worker.look()`` is one pass.

        It ends doubt whose time has come, makes due retries, and enters the runs of :func:`counterfoil.agent` again
        unless ``agents`` is False. On a handle with ``turns=True`` it also keeps the heads of turns that ended by
        another's hand, and gives up those that nobody has been at for a day. It looks every ``every_s`` seconds. ``tell`` hears of everything that happened.
        """
        self.check_writable()
        check_seconds("every_s", every_s, least="above 0")
        enter = self._enter if agents else None
        return Worker(
            self.ports,
            self.owner,
            find_tool,
            enter=enter,
            every_s=every_s,
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

    def _enter(self, ready: ReadyRun, agent: Agent) -> Entry:
        """Run an agent's code in its run, and tell how the block was left."""
        policy = self.policy if agent.policy is None else agent.policy
        if policy is None and policy_of(self.ports, ready.stream_id, ready.started_sequence) is not None:
            return Entry(ready, "left", why=NO_POLICY)
        run = self._run_of(ready, agent, policy)
        try:
            if agent.asynchronous:
                asyncio.run(_go_on_async(run, agent))
            else:
                _go_on(run, agent)
        except RunWaiting as waiting:
            return Entry(ready, "waits", why=waiting.message)
        except LeaseLost as lost:
            return Entry(ready, "busy", why=str(lost))
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the run's own affair; it is recorded, and the next run has its turn
            return _left(ready, run, error)
        return Entry(ready, "ended", run.terminal)

    def _run_of(self, ready: ReadyRun, agent: Agent, policy: Policy | None) -> Run:
        spec = make_spec(
            agent.name,
            agent_version=agent.version,
            run_id=ready.run_id,
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
        )
        return Run(host, spec)


def _go_on(run: Run, agent: Agent) -> None:
    with run:
        if not run.done:
            agent.fn(run)


async def _go_on_async(run: Run, agent: Agent) -> None:
    async with run:
        if not run.done:
            await agent.fn(run)


def _left(ready: ReadyRun, run: Run, error: BaseException) -> Entry:
    """What is told of an error holds no words of the application: those are content of the run's end (FORMAT 11)."""
    name = type(error).__name__
    if run.terminal is not None:
        return Entry(ready, "ended", run.terminal, name)
    if isinstance(error, ConflictError):
        return Entry(ready, "busy", error_class=name, why=error.message)
    why = error.message if isinstance(error, CounterfoilError) else ""
    return Entry(ready, "left", error_class=name, why=why)
