"""Families of runs for tests: a parent conversation, its children in every state, and every way in which a run can end."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from typing import Any

from counterfoil.abc import ChildLink
from counterfoil.client.ledger import Ledger
from counterfoil.errors import ModelFailed, WrongSequence
from counterfoil.runtime.run import Run
from counterfoil.testing.crash import World
from counterfoil.testing.hosts import ManualHost
from tests.running import gone

CASE = "family"


class Family:
    """A world with one parent conversation whose host does only what the test says."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.host = ManualHost()
        self._left: list[Run] = []

    def open(self) -> Ledger:
        """A worker's own handle."""
        ledger = self.world.open()
        ledger.child_host = self.host
        return ledger

    def parent(self, dedupe: str = "m1", **given: Any) -> Run:
        """A run of the parent."""
        return self.open().run("parent", conversation=CASE, message="please", dedupe=dedupe, **given)

    def child(self, link: ChildLink) -> Run:
        """The child's run, as whoever carries it out enters it."""
        return self.open().run(link.agent, resume=link.run_id)

    def vanish(self, run: Run) -> None:
        """Enter a run and be gone, without leaving its block; the lease is held on."""

        def live() -> None:
            run.__enter__()
            gone(run)

        contextvars.copy_context().run(live)
        self._left.append(run)

    # ---- a child in each state ----

    def spawned_before(self, state: str) -> ChildLink | None:
        """A child of an earlier run of the conversation, for states that only such a run brings about."""
        if state not in ("stopped", "lost"):
            return None
        with contextlib.suppress(asyncio.CancelledError), self.parent("m0") as run:
            link = run.spawn("kid", "go")
            self.vanish(self.child(link))
            self.host.unreachable = state == "lost"
            raise asyncio.CancelledError
        self.host.unreachable = False
        return link

    def bring(self, link: ChildLink, state: str) -> None:
        """Bring a child that was just spawned into a state."""
        match state:
            case "running":
                self.vanish(self.child(link))
            case "suspended":
                with contextlib.suppress(Exception), self.child(link) as run:
                    raise run._scope.suspend("it waits", cause="input")
            case "settled":
                with self.child(link) as run:
                    run.finish("done")
            case "purged":
                self.purge(link.stream_id)

    def purge(self, stream_id: str) -> None:
        """Remove a conversation as retention does, with the rows that are its own."""
        store = self.open().store
        if store.capabilities.engine != "memory":
            store.remove_stream(stream_id, "retention")
            return
        with store._lock:
            state = store._state
            state.streams.pop(stream_id)
            state.feed[:] = [event for event in state.feed if event.stream_id != stream_id]
            for table in state.tables.values():
                column = table.spec.stream_column
                for key in [k for k, row in table.rows.items() if column and row[column] == stream_id]:
                    table.rows.pop(key)

    # ---- each way to end ----

    def end(self, run: Run, terminal: str) -> None:
        """Leave the run so that it ends with this terminal; to be called inside its block, last."""
        match terminal:
            case "success":
                run.finish("done")
            case "policy_stop" | "provider_stop" | "output_rejected" | "context_overflow":
                run.finish("done", terminal=terminal)
            case "interrupted":
                raise KeyboardInterrupt
            case "cancelled":
                raise asyncio.CancelledError
            case "shutdown":
                raise SystemExit
            case "timeout":
                self.world.clock.advance(20_000)
                run.step("late", str)
            case "superseded":
                self.vanish(self.parent("m2", while_running="supersede"))
            case "absorbed":
                # No code may choose it; its end is recorded in the same way.
                run._chosen = "absorbed"
            case "provider_failure":
                raise ModelFailed("no answer")
            case "runtime_failure":
                raise ValueError("broken")
            case "storage_conflict":
                raise WrongSequence("moved")
