"""Children of runs: where they stand, and the host of this process that carries them out (DESIGN 6, ADR 0175)."""

from __future__ import annotations

import contextvars
import heapq
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from counterfoil.abc import ChildHost, ChildLink, HostAnswer
from counterfoil.client.handle import Handle
from counterfoil.core.bounds import check_limit, check_texts
from counterfoil.core.ids import is_id
from counterfoil.core.several import several
from counterfoil.errors import InvalidForm, RunNotFound
from counterfoil.flow.drive import drive
from counterfoil.runtime.agents import find_agent
from counterfoil.runtime.children.recover import RECOVERY, ChildReport, recover_children
from counterfoil.runtime.children.rows import CHILDREN, END, FINISHED, LOST, STOPPED
from counterfoil.runtime.children.spawn import Nursery
from counterfoil.runtime.children.state import ChildStanding, child_row, standing_of
from counterfoil.runtime.children.stop import Stopper, stop_children
from counterfoil.runtime.recover import is_held
from counterfoil.runtime.rows import RUNS
from counterfoil.store.rows import Key, Row

PAGE_ROWS: Final = 200

_ENDED: Final[Mapping[str, str]] = {"settled": FINISHED, "stopped": STOPPED, "lost": LOST}
"""States that a row says by itself, and its word for each."""

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


class Childing(Handle):
    """The children of a ledger's runs."""

    _child_host: ChildHost | None = None

    @property
    def child_host(self) -> ChildHost:
        """Who carries children out: what ``counterfoil.open(…, host=…)`` was given, or threads of this process."""
        if self._child_host is None and self.host.children is not None:
            self._child_host = self.host.children
        if self._child_host is None:
            self._child_host = InProcessHost(
                self._carry_out, self._heartbeat.cancel, lambda stream_id: is_held(self.ports, stream_id)
            )
        return self._child_host

    @child_host.setter
    def child_host(self, host: ChildHost) -> None:
        self._child_host = host

    def children(
        self,
        of: str | None = None,
        state: str | None = None,
        *,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[ChildStanding]:
        """The children of a run (``run_…``) or of a conversation, or all of the tenant, in the order they were spawned.

        ``state`` is ``spawned``, ``running``, ``suspended``, ``settled``, ``stopped``, ``lost`` or ``purged``; ``after`` is
        the run of the last child seen. Raises ``RunNotFound`` or ``StreamNotFound``.
        """
        check_limit(limit)
        check_texts("what children are found by", (of, state, after))
        start = "" if after is None else str(self._known_child(after)["child_stream_id"])
        found: list[ChildStanding] = []
        for row in self._child_rows(of, state):
            if limit is not None and len(found) >= limit:
                break
            if str(row["child_stream_id"]) > start:
                standing = drive(standing_of(row), self.ports)
                found += [standing] if state in (None, standing.state) else []
        return found

    def parent_of(self, name: str) -> ChildStanding | None:
        """A run (``run_…``) or a conversation as a child, with its parent; None for one that nobody spawned."""
        if is_id(name, "run"):
            row = drive(child_row(name), self.ports)
        else:
            row = self.store.get(CHILDREN.name, (self._family(name),))
        return None if row is None or row["tenant"] != self.tenant else drive(standing_of(row), self.ports)

    def _family(self, name: str) -> str:
        """Stream id of a conversation; one that was purged has children and a parent all the same."""
        return name if is_id(name, "str") else self.stream_named(name)

    def _known_child(self, run_id: str) -> Row:
        row = drive(child_row(run_id), self.ports) if is_id(run_id, "run") else None
        if row is None or row["tenant"] != self.tenant:
            raise RunNotFound(f"there is no child {run_id} in {self.place}", run_id=run_id)
        return row

    def _child_rows(self, of: str | None, state: str | None) -> Iterator[Row]:
        """Rows among which those in this state are, by the index that says most about it."""
        if of is None:
            if state is None:
                return self._rows("by_tenant", (self.tenant,))
            open_ = self._rows("by_awaits", (self.tenant, END))
            if state not in _ENDED:
                return open_
            ended = self._rows("by_state", (self.tenant, _ENDED[state]))
            # A child's run may have ended a moment before that is settled.
            return heapq.merge(open_, ended, key=lambda row: str(row["child_stream_id"]))
        if not is_id(of, "run"):
            return self._rows("by_family", (self._family(of),))
        run = self.store.get(RUNS, (of,))
        if run is None or run["tenant"] != self.tenant:
            raise RunNotFound(f"there is no run {of} in {self.place}", run_id=of)
        family = self._rows("by_family", (str(run["stream_id"]),))
        return (row for row in family if row["parent_run_id"] == of)

    def _rows(self, index: str, prefix: Key) -> Iterator[Row]:
        after: Key | None = None
        while page := self.store.select(CHILDREN.name, index, prefix, after, PAGE_ROWS):
            yield from page
            after = CHILDREN.place_in(index, page[-1])

    def _nursery(self) -> Nursery:
        return Nursery(self.child_host, check_depth(self.host.child_depth_max))

    @abstractmethod
    def _carry_out(self, child: ChildLink) -> None:
        """Run the registered agent on a child's run, in the caller's thread."""

    def _stop_children(self, stream_id: str) -> None:
        """Carry out what the end of a run in this conversation asked of its children."""
        by = Stopper(self.child_host, self.ports, self.owner, RECOVERY)
        drive(stop_children(stream_id, by), self.ports)

    def _recover_children(self, only: Iterable[str] | None) -> list[ChildReport]:
        wanted = None if only is None else frozenset(several(only, "only"))
        return recover_children(self.ports, self.owner, self.child_host, wanted)


def check_depth(depth_max: object) -> int:
    """Refuse what is no depth."""
    if type(depth_max) is not int or not 0 <= depth_max <= DEPTH_MOST:
        raise InvalidForm(f"child_depth_max is from 0 to {DEPTH_MOST}", argument="child_depth_max")
    return depth_max
