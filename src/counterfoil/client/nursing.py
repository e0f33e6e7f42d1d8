"""Who carries out the children of a ledger's runs: a host that was given, or threads of this process (ADR 0175)."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from counterfoil.abc import ChildHost, ChildLink, HostAnswer
from counterfoil.client.handle import Handle
from counterfoil.errors import InvalidForm
from counterfoil.runtime.agents import find_agent
from counterfoil.runtime.children.nursery import Nursery

if TYPE_CHECKING:
    from counterfoil.client.working import Working

DEPTH_MOST: Final = 64
"""The deepest that ``child_depth_max`` may allow."""


class InProcessHost:
    """Carries children out in threads of this process, by the agents that are registered in it.

    A child of an agent that is not registered here stays spawned, for a worker elsewhere. The threads are daemons: when
    the process ends they end, and whoever recovers or waits goes on with their runs from the record.
    """

    def __init__(
        self,
        carry_out: Callable[[ChildLink], None],
        cancel: Callable[[str], None],
        is_held: Callable[[str], bool],
    ) -> None:
        self._carry_out = carry_out
        self._cancel = cancel
        self._is_held = is_held
        self._threads: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()

    def start(self, child: ChildLink) -> None:
        """See :class:`counterfoil.abc.ChildHost`."""
        if find_agent(child.agent) is None:
            return
        with self._lock:
            known = self._threads.get(child.run_id)
            if known is not None and known.is_alive():
                return
            # A context of its own: the child is not inside of the run that spawned it.
            thread = threading.Thread(
                target=contextvars.Context().run,
                args=(self._work, child),
                name=f"counterfoil-child-{child.run_id}",
                daemon=True,
            )
            self._threads[child.run_id] = thread
            # Started under the lock, so that nobody meets it before it is alive.
            thread.start()

    def stop(self, child: ChildLink) -> HostAnswer:
        """See :class:`counterfoil.abc.ChildHost`; whoever else holds the run sees on record that it is to end."""
        self._cancel(child.run_id)
        return self.probe(child)

    def probe(self, child: ChildLink) -> HostAnswer:
        """See :class:`counterfoil.abc.ChildHost`; a worker elsewhere that holds the conversation is at it too."""
        with self._lock:
            thread = self._threads.get(child.run_id)
            here = thread is not None and thread.is_alive()
        return "running" if here or self._is_held(child.stream_id) else "gone"

    def _work(self, child: ChildLink) -> None:
        try:
            self._carry_out(child)
        finally:
            with self._lock:
                self._threads.pop(child.run_id, None)


class Nursing(Handle):
    """What every run of a ledger may need for children of its own."""

    _child_host: ChildHost | None = None

    @property
    def child_host(self) -> ChildHost:
        """Who carries children out: what ``counterfoil.open(…, host=…)`` was given, or threads of this process."""
        if self._child_host is None:
            self._child_host = self.host.children or InProcessHost(
                self._carry_out, self._heartbeat.cancel, self._is_held
            )
        return self._child_host

    @child_host.setter
    def child_host(self, host: ChildHost) -> None:
        self._child_host = host

    def nursery(self) -> Nursery:
        """What a run spawns children with. Raises ``InvalidForm`` for a depth that is none."""
        return Nursery(self.child_host, check_depth(self.host.child_depth_max))

    def _carry_out(self, child: ChildLink) -> None:
        """Run the registered agent on a child's run, in the caller's thread."""
        cast("Working", self).carry_out(child)

    def _is_held(self, stream_id: str) -> bool:
        from counterfoil.runtime.recover import is_held

        return is_held(self.ports, stream_id)


def check_depth(depth_max: object) -> int:
    """Refuse what is no depth."""
    if type(depth_max) is not int or not 0 <= depth_max <= DEPTH_MOST:
        raise InvalidForm(f"child_depth_max is from 0 to {DEPTH_MOST}", argument="child_depth_max")
    return depth_max
