"""Setting and clearing a slot: one append each, which a run that is entered again does not repeat."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from counterfoil.core import canonical
from counterfoil.core.event import Draft
from counterfoil.core.values import comparable, to_json
from counterfoil.errors import EventIdReused, GuardFailed, SlotMoved, StoreError
from counterfoil.flow.context import RunScope
from counterfoil.flow.event import Event
from counterfoil.flow.requests import EventsById, Flow, Read, RowOf
from counterfoil.runtime.events import Said
from counterfoil.runtime.recording import record, shown_name
from counterfoil.runtime.resume import Identity, Record, attempt_event_id, identify
from counterfoil.runtime.slots.book import Book, Held, held_by, look_at
from counterfoil.runtime.slots.events import state_cleared, state_set
from counterfoil.runtime.slots.rows import SLOTS, mark_of_row
from counterfoil.runtime.spec import check_text
from counterfoil.store.rows import Absent, Guard, Row, RowIs

TRIES_MAX: Final = 64
"""How often a slot is looked at anew because a sibling of the same run set it meanwhile."""


def set_flow(scope: RunScope, name: str, value: Any) -> Flow[int]:
    """Let the slot hold this value; returns the version that this made.

    Raises ``SlotMoved`` if another run has changed it since this run looked, ``InputError`` for a value without a
    JSON form.
    """
    check_text("slot", name or "")
    scope.check()
    given = to_json(value, "value")
    return (yield from _change(scope, name, Held(0, holds=True, value=given)))


def clear_flow(scope: RunScope, name: str) -> Flow[int | None]:
    """Let the slot hold nothing; returns the version that this made, or None where it held nothing. Raises as setting."""
    check_text("slot", name or "")
    scope.check()
    seen = yield from look_at(scope, name)
    if not seen.holds:
        return None
    return (yield from _change(scope, name, Held(0)))


def _change(scope: RunScope, name: str, wanted: Held) -> Flow[int]:
    slot = shown_name(scope, name)
    book = scope.part(Book)
    moved: GuardFailed | None = None
    for _ in range(TRIES_MAX):
        seen = yield from look_at(scope, name)
        identity = _identity(scope, name, wanted)
        try:
            version = _recorded(scope, identity, slot, seen)
            if version is None:
                version = yield from _live(scope, identity, slot, wanted, seen)
        except (StoreError, GuardFailed, SlotMoved) as error:
            scope.give_back(f"state:{name}", identity.digest, identity.occurrence, identity.path)
            if not isinstance(error, GuardFailed):
                raise
            moved = error
            continue
        book.changed(slot, name, replace(wanted, version=version))
        return version
    raise _moved(name) from moved


def _identity(scope: RunScope, name: str, wanted: Held) -> Identity:
    told = canonical.encode([wanted.holds, comparable(wanted.value)])
    identity = identify(scope, "state", name, told)
    return replace(identity, memo=attempt_event_id(scope, identity.memo, 0))


def _recorded(scope: RunScope, identity: Identity, slot: str, seen: Held) -> int | None:
    """The version that an earlier entry made of this call, or None at the frontier.

    Where another run's version lies between what is seen and what was made, the call was refused the first time, and
    is again: the record is of the call after the code had looked anew. Versions of siblings may come in any order.
    """
    record = scope.part(Record)
    found = record.recorded(identity)
    if found is None:
        return None
    version = int(found.data["version"])
    between = set(range(seen.version + 1, version))
    if not between <= scope.part(Book).made_before(slot):
        raise _moved(identity.name)
    record.take(identity)
    return version


def _live(scope: RunScope, identity: Identity, slot: str, wanted: Held, seen: Held) -> Flow[int]:
    row: Row | None = yield Read(RowOf(SLOTS, (scope.stream_id, slot)))
    current = 0 if row is None else int(row["version"] or 0)
    if row is not None and current > seen.version:
        if row["run_id"] != scope.run_id:
            raise _moved(identity.name)
        # A sibling of this run was first, so this one comes on top of it.
        sibling = yield from held_by(scope, mark_of_row(row))
        scope.part(Book).changed(slot, identity.name, sibling)
    scope.part(Record).live(identity)
    guard: Guard = Absent(SLOTS, (scope.stream_id, slot)) if row is None else _still(scope, row)
    try:
        with scope.in_flight(identity.memo):
            yield from record(scope, _draft(scope, identity, slot, wanted, current + 1), guards=(guard,))
    except EventIdReused:
        # An append whose answer was lost had recorded it: the id says what it says.
        recorded: list[Event] = yield Read(EventsById(scope.stream_id, (identity.memo,)))
        return int(recorded[0].data["version"])
    return current + 1


def _still(scope: RunScope, row: Row) -> RowIs:
    return RowIs(SLOTS, (scope.stream_id, row["slot"]), version=int(row["row_version"] or 0))


def _draft(scope: RunScope, identity: Identity, slot: str, wanted: Held, version: int) -> Draft:
    content = identity.place() | ({} if slot == identity.name else {"name": identity.name})
    if wanted.holds:
        content["value"] = wanted.value
    return _said(scope, slot, wanted, version, content).draft(
        identity.memo, scope.ports.now_ms(), scope.actor, run_id=scope.run_id
    )


def _said(scope: RunScope, slot: str, wanted: Held, version: int, content: dict[str, Any]) -> Said:
    if not wanted.holds:
        return state_cleared(slot, version, content)
    tag = scope.ports.material(scope.stream_id).tag("state", [slot], canonical.encode(wanted.value))
    return state_set(slot, version, tag, content)


def _moved(name: str) -> SlotMoved:
    return SlotMoved(
        "another run has changed a state slot since this run looked at it",
        slot=name,
    )
