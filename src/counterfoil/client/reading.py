"""Looking at a ledger: conversations, events and rows, page by page; what is damaged is shown, not hidden."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from counterfoil.client.ports import LedgerPorts
from counterfoil.core.bounds import check_count, check_limit, check_texts
from counterfoil.core.event import Header
from counterfoil.effects.rows import EFFECTS
from counterfoil.errors import CounterfoilError, InputError, IntegrityError, StreamNotFound
from counterfoil.flow.event import ContentState, Event, Opened
from counterfoil.runtime import rows
from counterfoil.runtime.owner import is_gone
from counterfoil.runtime.state import RUNNING, SUSPENDED
from counterfoil.store.rows import Key, Row
from counterfoil.store.unit import Lease, StoredEvent, StoredStream

if TYPE_CHECKING:
    from counterfoil.access.session import Session

PAGE_EVENTS: Final = 500
PAGE_ROWS: Final = 500
SEQUENCE_MAX: Final = (1 << 63) - 1
"""Behind every row of a run."""
BEGINNINGS: Final = frozenset({"conversation.opened", "runtime.baseline"})
"""The types whose content names a conversation."""
RUNS_COUNTED_MAX: Final = 1000
"""Runs of one conversation counted for a list; one that has more shows this number."""


class ConversationInfo(Struct, frozen=True):
    """One line of a list of conversations.

    ``name`` and ``title`` are content: None where there is none or where it cannot be opened, and ``name_state``
    says which. ``state`` is ``running``, ``interrupted`` (its worker is gone and its run is open), ``waiting``,
    ``open`` or ``closed``; ``agent`` is empty where no row of the conversation is there. ``head_sequence`` is None
    where the stream's head row is damaged or gone.
    """

    stream_id: str
    name: str | None
    name_state: ContentState
    title: str | None
    agent: str
    origin: str
    state: str
    opened_at_ms: int | None
    head_sequence: int | None
    runs: int
    running: str | None
    waiting: int


# ---- events --------------------------------------------------------------------------------------------------------


def view(ports: LedgerPorts, stored: StoredEvent, session: Session | None = None) -> Event:
    """A stored event for people; one whose header cannot be read is made of its columns and says why (case S24).

    In a ``session`` its content is shown as far as that was allowed.
    """
    try:
        return ports.event(stored, session)
    except (InputError, IntegrityError) as fault:
        reason = fault.message
        members: dict[str, Any] = {
            "stream_id": stored.stream_id,
            "stream_sequence": stored.sequence,
            "event_id": str(stored.event_id),
            "event_type": str(stored.event_type),
            "data": {},
            "actor": {},
        }
        if stored.run_id is not None:
            members["run_id"] = str(stored.run_id)
        return Event(
            stored.stream_id,
            stored.sequence,
            stored.recorded_at_ms,
            Header(members),
            stored.hash,
            lambda: Opened("damaged", (), f"the header cannot be read: {reason}"),
            reason,
        )


def stream_events(
    ports: LedgerPorts,
    stream_id: str,
    after: int,
    types: frozenset[str] | None,
    run_id: str | None,
    limit: int | None,
    session: Session | None = None,
) -> Iterator[Event]:
    """The events of a stream in order, held in memory one page at a time. Raises InvalidForm before the first."""
    check_count("after", after)
    check_limit(limit)
    check_texts("run_id", (run_id,))
    return _stream_events(ports, stream_id, after, types, run_id, limit, session)


def _stream_events(
    ports: LedgerPorts,
    stream_id: str,
    after: int,
    types: frozenset[str] | None,
    run_id: str | None,
    limit: int | None,
    session: Session | None,
) -> Iterator[Event]:
    left = limit
    while left is None or left > 0:
        want = PAGE_EVENTS if left is None else min(PAGE_EVENTS, left)
        page = ports.store.read(stream_id, after, want, types, run_id)
        for stored in page:
            yield view(ports, stored, session)
        if len(page) < want:
            return
        after = page[-1].sequence
        left = None if left is None else left - len(page)


# ---- conversations -------------------------------------------------------------------------------------------------


def conversations(ports: LedgerPorts, after: str, limit: int) -> list[ConversationInfo]:
    """A page of conversations in the order in which they were opened."""
    check_count("limit", limit)
    check_texts("after", (after,))
    found: list[ConversationInfo] = []
    while len(found) < limit:
        page = ports.store.streams(ports.tenant, after, limit)
        found += [_conversation(ports, stored) for stored in page if stored.kind == "conversation"]
        if len(page) < limit:
            break
        after = page[-1].stream_id
    return found[:limit]


def conversation(ports: LedgerPorts, stream_id: str) -> ConversationInfo:
    """One stream as a line of a list. Raises ``StreamNotFound``."""
    stored = ports.store.stream(stream_id)
    if stored is None:
        raise StreamNotFound(
            f"there is no stream {stream_id} in ledger {ports.store.ledger_id}", stream_id=stream_id
        )
    return _conversation(ports, stored)


def _conversation(ports: LedgerPorts, stored: StoredStream) -> ConversationInfo:
    stream_id = stored.stream_id
    row = ports.store.get(rows.CONVERSATIONS, (stream_id,)) or {}
    running = ports.store.select(rows.RUNS, "by_slot", (stream_id, RUNNING), limit=1)
    waiting = ports.store.count(rows.RUNS, "by_slot", (stream_id, SUSPENDED), RUNS_COUNTED_MAX)
    content, state = _opening(ports, stream_id)
    opened = row.get("opened_at_ms")
    return ConversationInfo(
        stream_id=stream_id,
        name=_text(content, "name"),
        name_state=state,
        title=_text(content, "title"),
        agent=str(row.get("agent") or ""),
        origin=str(row.get("origin") or ""),
        state=_state(row, bool(running), waiting, held=_held(ports, stored.head.lease)),
        opened_at_ms=opened if isinstance(opened, int) else None,
        head_sequence=_head_sequence(stored),
        runs=ports.store.count(rows.RUNS, "by_stream", (stream_id,), RUNS_COUNTED_MAX),
        running=str(running[0]["run_id"]) if running else None,
        waiting=waiting,
    )


def _head_sequence(stored: StoredStream) -> int | None:
    """The head row as it lies in the store may hold anything, or not be there (FORMAT 18)."""
    found: object = stored.head.sequence
    return found if type(found) is int and found >= 0 else None


def _opening(ports: LedgerPorts, stream_id: str) -> tuple[dict[str, Any], ContentState]:
    """Content of the first event and its state; anything wrong with it is a state and not an error."""
    page = ports.store.read(stream_id, 0, 1)
    if not page or page[0].event_type not in BEGINNINGS:
        return {}, "none"
    try:
        event = view(ports, page[0])
        return dict(event.content_or_none() or {}), event.content_state
    except CounterfoilError:
        return {}, "damaged"


def name_of(ports: LedgerPorts, stream_id: str) -> str | None:
    """The name of a conversation; None where it has none or it cannot be opened."""
    return _text(_opening(ports, stream_id)[0], "name")


def is_held(ports: LedgerPorts, stream_id: str) -> bool:
    """Whether a worker that lives, as far as can be told, holds the conversation now."""
    head = ports.store.head(stream_id)
    return head is not None and _held(ports, head.lease)


def _held(ports: LedgerPorts, lease: Lease | None) -> bool:
    return lease is not None and ports.now_ms() < lease.expires_at_ms and not is_gone(lease.owner)


def _state(row: Row, running: bool, waiting: int, *, held: bool) -> str:
    if row.get("state") == rows.CLOSED:
        return "closed"
    if running:
        return "running" if held else "interrupted"
    return "waiting" if waiting else "open"


def _text(content: dict[str, Any], name: str) -> str | None:
    value = content.get(name)
    return value if isinstance(value, str) else None


# ---- rows ----------------------------------------------------------------------------------------------------------


def table_rows(
    ports: LedgerPorts, table: str, index: str, prefix: Key, limit: int | None, after: Key | None = None
) -> list[Row]:
    """Rows of an index under a prefix, behind the place ``after`` and at most ``limit``, in the order of the index."""
    check_limit(limit)
    check_texts("what rows are found by", prefix)
    from counterfoil.client.features import TABLES

    spec = next(spec for spec in TABLES if spec.name == table)
    found: list[Row] = []
    while limit is None or len(found) < limit:
        want = PAGE_ROWS if limit is None else min(PAGE_ROWS, limit - len(found))
        page = ports.store.select(table, index, prefix, after, want)
        found += page
        if len(page) < want:
            break
        after = spec.place_in(index, page[-1])
    return found


def effects_of_run(ports: LedgerPorts, run_id: str, state: str | None, limit: int | None) -> list[Row]:
    """The effects of a run in the order they were intended; none if there is no such run."""
    check_texts("run_id", (run_id,))
    run = ports.store.get(rows.RUNS, (run_id,))
    return [] if run is None else list(_effects(ports, (run["stream_id"], run_id), state, limit))


def effects_of_stream(ports: LedgerPorts, stream_id: str, state: str | None, limit: int | None) -> list[Row]:
    """The effects of a conversation in the order they were intended, whichever run intended them."""
    return sorted(_effects(ports, (stream_id,), state, limit), key=_first_sequence)[:limit]


def _effects(ports: LedgerPorts, prefix: Key, state: str | None, limit: int | None) -> Iterator[Row]:
    """Run by run, at most ``limit`` of each; what a run has beyond them is passed over, and not read."""
    want = PAGE_ROWS if limit is None or state is not None else min(PAGE_ROWS, limit)
    after: Key | None = None
    run_id, kept = None, 0
    while page := ports.store.select(EFFECTS.name, "by_run", prefix, after, want):
        for row in page:
            if row["run_id"] != run_id:
                run_id, kept = row["run_id"], 0
            if row["tenant"] == ports.tenant and state in (None, row["state"]) and kept != limit:
                kept += 1
                yield row
        if len(page) < want:
            return
        after = EFFECTS.place_in("by_run", page[-1])
        if kept == limit:
            after = (*after[:2], SEQUENCE_MAX, after[3])


def _first_sequence(effect: Row) -> int:
    sequence = effect["first_sequence"]
    return sequence if isinstance(sequence, int) else 0
