"""Budgets over a family: what children use that count on the run that spawned them, and on whose budget a child draws."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from counterfoil.flow.context import RunScope
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Events, Flow, Read, RowOf, Rows
from counterfoil.runtime.budgets.decide import Spent
from counterfoil.runtime.budgets.limits import Limit
from counterfoil.runtime.budgets.rows import BUDGETS
from counterfoil.runtime.budgets.state import limit_of
from counterfoil.runtime.children.rows import CHILDREN
from counterfoil.runtime.resume import COUNTED_TYPES, tally_of
from counterfoil.store.rows import Key, Row

PAGE_ROWS = 200
USED_TYPES = COUNTED_TYPES | {"provider.requested"}


class Account(Struct, frozen=True):
    """A run above whose budget a child draws on too: its limits, but for time, which it keeps itself."""

    stream_id: str
    run_id: str
    limits: tuple[Limit, ...]


class Shared:
    """What is known of a family's use, for one run in it: read on from where the last look ended."""

    def __init__(self, stream_id: str, run_id: str) -> None:
        self._stream_id = stream_id
        self._run_id = run_id
        self._counts: dict[str, bool] = {}
        self._used: dict[str, tuple[int, Spent]] = {}
        self._accounts: list[Account] | None = None

    def accounts(self) -> Flow[list[Account]]:
        """The runs above that this one counts on, the nearest first; looked up once."""
        if self._accounts is None:
            found: list[Account] = []
            row: Row | None = yield Read(RowOf(CHILDREN.name, (self._stream_id,)))
            if row is not None and row["child_run_id"] != self._run_id:
                row = None
            while row is not None and (yield from self._counts_on(row)):
                found.append((yield from _account(row)))
                row = yield from _row_of_run(str(row["parent_stream_id"]), str(row["parent_run_id"]))
            self._accounts = found
        return self._accounts

    def used_by(self, stream_id: str, run_id: str) -> Flow[Spent]:
        """What a run has used, with its children that count on it, and theirs."""
        own = yield from self._own(stream_id, run_id)
        return own + (yield from self.used_below(stream_id, run_id))

    def used_below(self, stream_id: str, run_id: str) -> Flow[Spent]:
        """What the children of a run have used that count on it, and theirs."""
        total = Spent()
        after: Key | None = None
        while page := (yield Read(Rows(CHILDREN.name, "by_family", (stream_id,), PAGE_ROWS, after))):
            for row in page:
                if row["parent_run_id"] == run_id and (yield from self._counts_on(row)):
                    child = str(row["child_stream_id"]), str(row["child_run_id"])
                    total += yield from self.used_by(*child)
            after = CHILDREN.place_in("by_family", page[-1])
        return total

    def _own(self, stream_id: str, run_id: str) -> Flow[Spent]:
        after, before = self._used.get(run_id, (0, Spent()))
        record: list[Event] = yield Read(Events(stream_id, after, USED_TYPES, run_id))
        if not record:
            return before
        used = before + _used_in(record)
        self._used[run_id] = (record[-1].sequence, used)
        return used

    def _counts_on(self, row: Row) -> Flow[bool]:
        """Whether a child counts on the run that spawned it; where that is not to be read any more it does not."""
        name = str(row["child_run_id"])
        if name not in self._counts:
            place = Events(str(row["parent_stream_id"]), int(row["started_sequence"] or 1) - 1, limit=1)
            found: list[Event] = yield Read(place)
            content = (found[0].content_or_none() if found else None) or {}
            self._counts[name] = content.get("counts") is True
        return self._counts[name]


def shared_by(scope: RunScope) -> Shared:
    """The one of a run's entry (``scope.part(shared_by)``)."""
    return Shared(scope.stream_id, scope.run_id)


def _account(row: Row) -> Flow[Account]:
    stream_id, run_id = str(row["parent_stream_id"]), str(row["parent_run_id"])
    found: list[Row] = yield Read(Rows(BUDGETS.name, None, (run_id,), PAGE_ROWS))
    return Account(stream_id, run_id, tuple(_limits_in(found)))


def _limits_in(rows: list[Row]) -> Iterator[Limit]:
    for row in rows:
        if row["budget"] != "wall":
            yield limit_of(
                {"budget": row["budget"], "limit": row["limit_value"], "currency": row["currency"]}
            )


def _row_of_run(stream_id: str, run_id: str) -> Flow[Row | None]:
    row: Row | None = yield Read(RowOf(CHILDREN.name, (stream_id,)))
    return row if row is not None and row["child_run_id"] == run_id else None


def _used_in(record: list[Event]) -> Spent:
    tally = tally_of(record)
    calls = sum(event.type == "provider.requested" for event in record)
    return Spent(tally.input_tokens + tally.output_tokens, calls, 0, dict(tally.money))
