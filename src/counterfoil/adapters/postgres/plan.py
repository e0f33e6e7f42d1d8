"""What a unit becomes on the caller's thread: checked against the declarations, with the rows it touches by key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, field

from counterfoil.adapters.memory.appending import check_unit
from counterfoil.adapters.memory.state import State
from counterfoil.adapters.postgres.tables import RowTables
from counterfoil.errors import CounterfoilError, InvalidUnit
from counterfoil.store.rows import Absent, Guard, Key, Put, RowChange
from counterfoil.store.unit import StreamAppend, Unit

EVENT_OVERHEAD_BYTES: Final = 400
"""Counted for each event beside its header and records: index entries, rows."""


class Job(Struct):
    """A unit ready for the writer; ``refusal`` is set when it contradicts itself and nothing else is.

    ``keys`` names the rows that its guards and changes look at, ``held`` those that only have to stay absent, and
    ``written`` the tables that it changes.
    """

    unit: Unit
    streams: tuple[StreamAppend, ...] = ()
    keys: dict[str, set[Key]] = field(default_factory=dict)
    held: dict[str, set[Key]] = field(default_factory=dict)
    written: frozenset[str] = frozenset()
    events: int = 0
    size: int = 0
    refusal: CounterfoilError | None = None

    @property
    def plain(self) -> bool:
        """Whether it only adds events to one stream that exists: then one statement does it all."""
        unit = self.unit
        return len(unit.streams) == 1 and not (unit.rows or unit.guards) and unit.streams[0].create is None


def plan_unit(tables: RowTables, unit: Unit) -> Job:
    """The job of a unit; one that contradicts itself carries its refusal."""
    try:
        check_unit(State(tables=tables.empty), unit)
    except InvalidUnit as error:
        return Job(unit, refusal=error)
    events = [event for part in unit.streams for event in part.events]
    size = sum(
        len(event.head)
        + len(event.middle)
        + len(event.tail)
        + sum(map(len, event.records))
        + EVENT_OVERHEAD_BYTES
        for event in events
    )
    if not unit.rows and not unit.guards:
        return Job(unit, unit.streams, events=len(events), size=size)
    keys = touched(tables, unit.rows, unit.guards)
    written = touched(tables, unit.rows, ())
    absent = touched(tables, (), [guard for guard in unit.guards if isinstance(guard, Absent)])
    # Of a watched table, the whole table is locked against changes.
    held = {
        name: found - written.get(name, set())
        for name, found in absent.items()
        if not tables.table(name).spec.watched
    }
    kept = {n: k for n, k in held.items() if k}
    return Job(unit, unit.streams, keys, kept, frozenset(written), len(events), size)


def touched(tables: RowTables, changes: Iterable[RowChange], guards: Iterable[Guard]) -> dict[str, set[Key]]:
    """The keys of rows that these change or look at, by table."""
    found: dict[str, set[Key]] = {}
    for change in changes:
        key = _put_key(tables, change) if isinstance(change, Put) else change.key
        found.setdefault(change.table, set()).add(key)
    for guard in guards:
        found.setdefault(guard.table, set()).add(guard.key)
    return found


def merged(parts: Iterable[Mapping[str, set[Key]]]) -> dict[str, set[Key]]:
    """The union of several, table by table."""
    found: dict[str, set[Key]] = {}
    for part in parts:
        for name, keys in part.items():
            found.setdefault(name, set()).update(keys)
    return found


def _put_key(tables: RowTables, change: Put) -> Key:
    # Checked before: every key column is there, and plain.
    return tuple(change.values[name] for name in tables.table(change.table).spec.key)  # type: ignore[misc]  # see above
