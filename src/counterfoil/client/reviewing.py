"""Reviews of a ledger: the queue as a query, who has them, and their settlement by a named person (DESIGN 7)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from counterfoil.approvals.rows import person_index
from counterfoil.client.handle import Handle
from counterfoil.client.ports import LedgerPorts
from counterfoil.core.bounds import check_limit, check_texts
from counterfoil.core.ids import is_id
from counterfoil.effects.assigning import Assigned, assign_review
from counterfoil.effects.rows import EFFECTS, REVIEWS
from counterfoil.effects.settle import Settled, SettledOutcome, settle_effect
from counterfoil.errors import InvalidForm, ReviewNotFound
from counterfoil.flow.drafting import Person
from counterfoil.flow.drive import drive
from counterfoil.store.rows import Key, Row

PAGE_ROWS: Final = 500
STATES: Final = ("open", "settled")


def review_rows(
    ports: LedgerPorts,
    *,
    state: str | None = "open",
    assignee: str | None = None,
    tool: str | None = None,
    cause: str | None = None,
    run_id: str | None = None,
    stream_id: str | None = None,
    unassigned: bool = False,
    overdue: bool = False,
    after: str | None = None,
    limit: int | None = None,
) -> list[Row]:
    """Rows of reviews that fit every filter, the longest waiting first; ``after`` is the last review seen."""
    if state not in (None, *STATES):
        raise InvalidForm(f"a review is {' or '.join(STATES)}", argument="state")
    check_limit(limit)
    check_texts("what reviews are found by", (assignee, tool, cause, run_id, stream_id, after))
    now_ms = ports.now_ms()
    whose = None if assignee is None else person_index(ports.index, assignee)
    found: list[Row] = []
    if limit == 0:
        return found
    for row in _candidates(ports, state, run_id, stream_id, after):
        due = row["due_at_ms"]
        fits = (
            row["tenant"] == ports.tenant
            and state in (None, row["state"])
            and whose in (None, row["assignee_index"])
            and not (unassigned and row["assignee"] is not None)
            and cause in (None, row["cause"])
            and run_id in (None, row["run_id"])
            and stream_id in (None, row["stream_id"])
            and (not overdue or (isinstance(due, int) and due < now_ms))
            and (tool is None or tool == _tool_of(ports, row))
        )
        if fits:
            found.append(row)
        if limit is not None and len(found) >= limit:
            break
    return found


def _tool_of(ports: LedgerPorts, review: Row) -> Any:
    effect = ports.store.get(EFFECTS.name, (review["effect_id"],))
    return None if effect is None else effect["tool"]


def _candidates(
    ports: LedgerPorts, state: str | None, run_id: str | None, stream_id: str | None, after: str | None
) -> Iterator[Row]:
    """Rows by the narrowest index that the filters allow, those after ``after``."""
    start = None if after is None else review_row(ports, after)
    if run_id is not None:
        return _pages(ports, start, "by_run", (run_id,))
    if stream_id is not None:
        return _pages(ports, start, "by_stream", (stream_id,))
    return _pages(ports, start, "by_state", (ports.tenant,) if state is None else (ports.tenant, state))


def _pages(ports: LedgerPorts, start: Row | None, index: str, prefix: Key) -> Iterator[Row]:
    def place(row: Row) -> Key:
        # The row may have left the prefix since it was seen; the page goes on from where it stood.
        return (*prefix, *REVIEWS.place_in(index, row)[len(prefix) :])

    after = None if start is None else place(start)
    while page := ports.store.select(REVIEWS.name, index, prefix, after, PAGE_ROWS):
        yield from page
        after = place(page[-1])


def review_row(ports: LedgerPorts, review_id: str) -> Row:
    """The row of one review. Raises ``ReviewNotFound``, also for one of another tenant."""
    row = ports.store.get(REVIEWS.name, (review_id,)) if is_id(review_id, "rev") else None
    if row is None or row["tenant"] != ports.tenant:
        raise ReviewNotFound(
            f"there is no review {review_id} in this ledger",
            hint="`counterfoil review ls` lists them",
            review_id=review_id,
        )
    return row


class Reviewing(Handle):
    """The reviews of a ledger: what waits for a person, who has it, and how it ended."""

    def reviews(self, state: str | None = "open", limit: int | None = None, **filters: Any) -> list[Row]:
        """Rows of reviews, the longest waiting first: those that wait for a person, by default.

        A query, so nothing is missed after a restart. ``state`` is ``open``, ``settled`` or None for all; ``filters``
        are ``assignee`` (a name), ``unassigned``, ``tool``, ``cause``, ``run_id``, ``stream_id``, ``overdue`` and
        ``after`` (the last one seen).
        """
        return review_rows(self.ports, state=state, limit=limit, **filters)

    def assign(
        self, review_id: str, to: str, *, by: str, note: str = "", due: datetime | None = None
    ) -> Assigned:
        """Give an open review to the person ``to``, as the named human ``by``; the last assignment counts.

        ``due``, a time with a zone, says by when it should be settled. Anybody may settle it all the same. Raises
        ``ReviewNotFound``, ``SettledAlready`` or ``InvalidForm``.
        """
        self.check_writable()
        if due is not None and due.tzinfo is None:
            raise InvalidForm("due is a time with a zone, such as datetime.now(UTC)", argument="due")
        for name, given in (("to", to), ("by", by)):
            if not given.strip():
                raise InvalidForm(f"{name} is the name of a person", argument=name)
        stream_id = str(review_row(self.ports, review_id)["stream_id"])
        flow = assign_review(
            review_id,
            assignee=Person(self.ports.subject_key(stream_id, to), to),
            person=Person(self.ports.subject_key(stream_id, by), by),
            note=note,
            due_at_ms=None if due is None else round(due.timestamp() * 1000),
        )
        return drive(flow, self.ports)

    def settle(
        self,
        review_id: str,
        outcome: SettledOutcome,
        *,
        by: str,
        reason: str,
        result: Any = None,
        evidence: Any = None,
    ) -> Settled:
        """Settle a review as the named human ``by``: ``succeeded``, ``rejected``, ``failed`` or ``abandoned``.

        ``result`` is what the tool would have returned; the run gets it when it resumes. Settling again with the
        same outcome changes nothing. Where the conversation's key is missing, outcome and person are recorded and the
        reason is not (``without_content``). Raises ``ReviewNotFound``, ``SettledAlready``, or ``KeyMissing`` for a result
        or evidence that nobody could read.
        """
        self.check_writable()
        row = review_row(self.ports, review_id)
        person = Person(self.ports.subject_key(str(row["stream_id"]), by), by)
        flow = settle_effect(
            review_id, outcome, person=person, reason=reason, evidence=evidence, result=result
        )
        return drive(flow, self.ports)
