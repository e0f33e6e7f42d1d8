"""Approvals of a ledger: the queue as a query, and answers in the name of a person (DESIGN 7, case X9)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from counterfoil.approvals.answer import Answered, answer_approval
from counterfoil.approvals.events import Answer
from counterfoil.approvals.rows import APPROVAL_ASSIGNEES, APPROVALS, person_index
from counterfoil.approvals.standing import ApprovalStanding, standing_of
from counterfoil.approvals.state import PENDING, STATES
from counterfoil.client import reading
from counterfoil.client.handle import Handle
from counterfoil.client.ports import LedgerPorts
from counterfoil.core.bounds import check_limit, check_texts
from counterfoil.core.ids import is_id
from counterfoil.errors import ApprovalNotFound, InvalidForm
from counterfoil.flow.drafting import Person
from counterfoil.flow.drive import drive
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Events, RowOf
from counterfoil.runtime.rows import ADMISSIONS, RUNS
from counterfoil.runtime.state import FINISHED
from counterfoil.store.rows import Key, Row

PAGE_ROWS: Final = 500


def state_now(row: Row, now_ms: int) -> str:
    """The state as people see it: ``pending`` however many have to agree, ``expired`` once its time is over."""
    approval = standing_of(row)
    if approval.found.lapsed(now_ms):
        return "expired"
    return "pending" if approval.state in PENDING else approval.state


def approval_rows(
    ports: LedgerPorts,
    *,
    state: str | None = "pending",
    assignee: str | None = None,
    tool: str | None = None,
    run_id: str | None = None,
    stream_id: str | None = None,
    overdue: bool = False,
    after: str | None = None,
    limit: int | None = None,
) -> list[Row]:
    """Rows of approvals that fit every filter, the oldest first; ``after`` is the last approval seen."""
    if state is not None and state not in STATES:
        raise InvalidForm(f"an approval is {', '.join(STATES)}", argument="state")
    check_limit(limit)
    check_texts("what approvals are found by", (assignee, tool, run_id, stream_id, after))
    now_ms = ports.now_ms()
    found: list[Row] = []
    if limit == 0:
        return found
    start = None if after is None else approval_row(ports, after)
    for row in _candidates(ports, start, state, assignee, run_id, stream_id):
        due = row["due_at_ms"]
        fits = (
            row["tenant"] == ports.tenant
            and state in (None, state_now(row, now_ms))
            and tool in (None, row["tool"])
            and run_id in (None, row["run_id"])
            and stream_id in (None, row["stream_id"])
            and (not overdue or (isinstance(due, int) and due < now_ms))
        )
        if fits:
            found.append(row)
        if limit is not None and len(found) >= limit:
            break
    return found


def _candidates(
    ports: LedgerPorts,
    start: Row | None,
    state: str | None,
    assignee: str | None,
    run_id: str | None,
    stream_id: str | None,
) -> Iterator[Row]:
    """Rows by the narrowest index that the filters allow, those after ``start``."""
    if assignee is not None:
        return _waiting_for(ports, start, assignee)
    if run_id is not None:
        return _pages(ports, start, "by_run", (run_id,), ("requested_sequence",))
    if stream_id is not None:
        return _pages(ports, start, "by_stream", (stream_id,), ("requested_sequence",))
    if state == "pending":
        return _pages(ports, start, "by_awaits", (ports.tenant, "answer"), ("requested_at_ms",))
    if state in (None, "expired"):
        # By id, which is by time; an approval that lapsed unseen still has the state of before.
        return _pages(ports, start, None, (), ())
    return _pages(ports, start, "by_state", (ports.tenant, state), ("requested_at_ms",))


def _waiting_for(ports: LedgerPorts, start: Row | None, name: str) -> Iterator[Row]:
    prefix: Key = (ports.tenant, person_index(ports.index, name))
    after: Key | None = None if start is None else (*prefix, start["approval_id"])
    while page := ports.store.select(APPROVAL_ASSIGNEES.name, None, prefix, after, PAGE_ROWS):
        for assigned in page:
            row = ports.store.get(APPROVALS.name, (assigned["approval_id"],))
            if row is not None:
                yield row
        after = (*prefix, page[-1]["approval_id"])


def _pages(
    ports: LedgerPorts, start: Row | None, index: str | None, prefix: Key, columns: tuple[str, ...]
) -> Iterator[Row]:
    """``columns`` are those of the index behind the prefix; the key comes last."""

    def place(row: Row) -> Key:
        return (*prefix, *(row[column] for column in columns), row["approval_id"])

    after = None if start is None else place(start)
    while page := ports.store.select(APPROVALS.name, index, prefix, after, PAGE_ROWS):
        yield from page
        after = place(page[-1])


def approval_row(ports: LedgerPorts, approval_id: str) -> Row:
    """The row of one approval. Raises ``ApprovalNotFound``, also for one of another tenant."""
    row = ports.store.get(APPROVALS.name, (approval_id,)) if is_id(approval_id, "apr") else None
    if row is None or row["tenant"] != ports.tenant:
        raise ApprovalNotFound(
            f"there is no approval {approval_id} in this ledger",
            hint="`counterfoil approve ls` lists them",
            approval_id=approval_id,
        )
    return row


def answer(ports: LedgerPorts, approval_id: str, said: Answer, *, by: str, comment: str) -> Answered:
    """Answer in the name of the person ``by``; see :func:`counterfoil.approvals.answer.answer_approval`."""
    approval = standing_of(approval_row(ports, approval_id))
    run: Row | None = ports.read(RowOf(RUNS, (approval.run_id,)))
    person = Person(ports.subject_key(approval.stream_id, by), by)
    flow = answer_approval(
        approval_id,
        said,
        person=person,
        comment=comment,
        requesters=requesters(ports, approval, run),
        run_ended=run is not None and run["state"] == FINISHED,
    )
    return drive(flow, ports)


def requesters(ports: LedgerPorts, approval: ApprovalStanding, run: Row | None) -> frozenset[str]:
    """Keys of the people for whom the run acts: its principal, and who sent the input that it answers."""
    if run is None:
        return frozenset()
    found: set[str] = set()
    started = _event_at(ports, approval.stream_id, run["started_sequence"])
    principal: Any = None if started is None else started.data.get("principal")
    if isinstance(principal, str):
        found.add(principal)
    admission: Row | None = ports.read(RowOf(ADMISSIONS, (run["admission_id"],)))
    sent = None if admission is None else _event_at(ports, approval.stream_id, admission["sequence"])
    if sent is not None and sent.type == "admission.accepted":
        # The stream key stands for a user whom nobody has named (FORMAT 3), and for no person who could answer.
        found.add(sent.header.actor["id"])
    return frozenset(found)


def _event_at(ports: LedgerPorts, stream_id: str, sequence: Any) -> Event | None:
    found = list(reading.stream_events(ports, stream_id, int(sequence) - 1, None, None, 1))
    return found[0] if found else None


def request_event(ports: LedgerPorts, row: Row) -> Event:
    """The event that asked: what people were shown."""
    found: list[Event] = ports.read(
        Events(str(row["stream_id"]), after=int(row["requested_sequence"] or 1) - 1, limit=1)
    )
    return found[0]


class Approving(Handle):
    """The approvals of a ledger: what waits for people, and their answers."""

    def approvals(self, state: str | None = "pending", **filters: Any) -> list[Row]:
        """Rows of approvals, the oldest first: those that wait for people, by default. A query, whoever asked.

        ``state`` is ``pending granted denied revoked expired consumed`` or None for all; ``filters`` are ``assignee``
        (a name), ``tool``, ``run_id``, ``stream_id``, ``overdue``, ``after`` (the last one seen) and ``limit``.
        """
        return approval_rows(self.ports, state=state, **filters)

    def approve(self, approval_id: str, *, by: str, comment: str = "") -> Answered:
        """Grant an approval as the named person ``by``, who must not be the one for whom the run acts.

        The run goes on when its code is run again, and uses the grant once. Granting again changes nothing. Raises
        ``ApprovalNotFound``, ``AnsweredAlready`` or ``ApproverRefused``.
        """
        self.check_writable()
        return answer(self.ports, approval_id, "granted", by=by, comment=comment)

    def deny(self, approval_id: str, *, by: str, comment: str = "") -> Answered:
        """Deny an approval: the call that waits for it gets ``ApprovalDenied``. Raises as :meth:`approve`."""
        self.check_writable()
        return answer(self.ports, approval_id, "denied", by=by, comment=comment)

    def revoke(self, approval_id: str, *, by: str, comment: str = "") -> Answered:
        """Take an approval back that was not used yet. Raises as :meth:`approve`."""
        self.check_writable()
        return answer(self.ports, approval_id, "revoked", by=by, comment=comment)
