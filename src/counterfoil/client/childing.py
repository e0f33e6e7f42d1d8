"""Children of runs: where they stand, and the host of this process that carries them out (DESIGN 6, ADR 0175)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from counterfoil.client.nursing import Nursing
from counterfoil.core.bounds import check_limit, check_texts
from counterfoil.core.ids import is_id
from counterfoil.core.several import several
from counterfoil.errors import RunNotFound
from counterfoil.flow.drive import drive
from counterfoil.runtime.children.recover import RECOVERY, ChildReport, recover_children
from counterfoil.runtime.children.rows import CHILDREN, END, FINISHED, LOST, STOPPED
from counterfoil.runtime.children.state import ChildStanding, child_row, standing_of
from counterfoil.runtime.children.stop import Stopper, stop_children
from counterfoil.runtime.rows import RUNS
from counterfoil.store.rows import Key, Row

PAGE_ROWS: Final = 200

_ENDED: Final[Mapping[str, str]] = {"settled": FINISHED, "stopped": STOPPED, "lost": LOST}
"""States that a row says by itself, and its word for each."""


class Childing(Nursing):
    """The children of a ledger's runs."""

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

    def _stop_children(self, stream_id: str) -> None:
        """Carry out what the end of a run in this conversation asked of its children."""
        by = Stopper(self.child_host, self.ports, self.owner, RECOVERY)
        drive(stop_children(stream_id, by), self.ports)

    def recover_children(self, only: Iterable[str] | None) -> list[ChildReport]:
        """Bring to an end what is open of the children of ``only`` these conversations, or of all; part of ``recover``."""
        wanted = None if only is None else frozenset(several(only, "only"))
        return recover_children(self.ports, self.owner, self.child_host, wanted)
