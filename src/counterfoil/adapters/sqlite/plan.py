"""What a unit becomes on the caller's thread: checked against the declarations, with its parameters made.

Everything that needs neither the database nor the sequence is done here, so that the writer only splices,
hashes and binds (DESIGN 4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from counterfoil.adapters.sqlite.bulk import Bulk
from counterfoil.adapters.sqlite.tables import PYTHON_TYPES, RowTable, RowTables
from counterfoil.errors import CounterfoilError, InvalidUnit
from counterfoil.store.rows import (
    STATE_COLUMN,
    CellSource,
    Column,
    Guard,
    Key,
    Patch,
    Put,
    RecordedAtOf,
    Remove,
    RowChange,
    RowIs,
    SequenceOf,
)
from counterfoil.store.unit import StreamAppend, Unit

INTEGER_MIN: Final = -(1 << 63)
INTEGER_MAX: Final = (1 << 63) - 1
EVENT_OVERHEAD_BYTES: Final = 400
"""Counted for each event beside its header and records: index entries, rows."""

_NO_IDS: Final[frozenset[str]] = frozenset()


@dataclass(slots=True)
class RowStep:
    """One row change as statement and parameters; ``late`` if a sequence or time must be filled in."""

    sql: str | Bulk
    params: tuple[Any, ...]
    late: bool


@dataclass(slots=True)
class GuardStep:
    """One guard with the statement that fetches its row."""

    guard: Guard
    table: RowTable


@dataclass(slots=True)
class Job:
    """A unit ready for the writer; ``refusal`` is set when it contradicts itself and nothing else is."""

    unit: Unit
    streams: tuple[StreamAppend, ...] = ()
    rows: list[RowStep] = field(default_factory=list)
    guards: list[GuardStep] = field(default_factory=list)
    events: int = 0
    size: int = 0
    refusal: CounterfoilError | None = None


def plan_unit(tables: RowTables, unit: Unit) -> Job:
    """The job of a unit; one that contradicts itself carries its refusal."""
    try:
        return _plan(tables, unit)
    except InvalidUnit as error:
        return Job(unit, refusal=error)


def plan_rows(tables: RowTables, changes: Sequence[RowChange]) -> list[RowStep]:
    """Row changes without an append (a rebuild): no cell may stand for a sequence. Raises InvalidUnit."""
    return [_row_step(tables.table(change.table), change, _NO_IDS) for change in changes]


def check_key(table: RowTable, key: Key) -> None:
    """Refuse with InvalidUnit a key of another length or other types than declared."""
    names = table.spec.key
    if len(key) != len(names):
        raise InvalidUnit(
            f"a key of {table.spec.name} is {names}; got {len(key)} values", table=table.spec.name
        )
    for name, cell in zip(names, key, strict=True):
        if cell is None:
            raise InvalidUnit(
                f"the key column {table.spec.name}.{name} cannot be empty", table=table.spec.name
            )
        _check_cell(table, table.columns[name], cell, _NO_IDS)


def _plan(tables: RowTables, unit: Unit) -> Job:
    event_ids, size = _check_events(unit)
    job = Job(unit, unit.streams, events=len(event_ids), size=size)
    if unit.rows:
        job.rows = [_row_step(tables.table(change.table), change, event_ids) for change in unit.rows]
    if unit.guards:
        job.guards = [_guard_step(tables.table(guard.table), guard) for guard in unit.guards]
    return job


def _check_events(unit: Unit) -> tuple[set[str], int]:
    """The event ids of the unit and the bytes it will write."""
    ids: set[str] = set()
    count = size = 0
    creates = False
    for part in unit.streams:
        stream_id = part.stream_id
        if part.create is not None:
            creates = True
            if part.create.stream_id != stream_id:
                raise InvalidUnit(f"the genesis of another stream was given for {stream_id}")
        for event in part.events:
            if event.stream_id != stream_id:
                raise InvalidUnit(f"an event of another stream was given for {stream_id}")
            ids.add(event.event_id)
            size += len(event.head) + len(event.middle) + len(event.tail) + EVENT_OVERHEAD_BYTES
            size += sum(map(len, event.records))
        count += len(part.events)
    if not count and not creates:
        raise InvalidUnit("an append unit needs an event, or a stream to create")
    if len(ids) != count:
        raise InvalidUnit("an append unit holds an event id twice")
    if len(unit.streams) > 1 and len({part.stream_id for part in unit.streams}) != len(unit.streams):
        raise InvalidUnit("an append unit names a stream twice", hint="put its events into one StreamAppend")
    return ids, size


def _row_step(table: RowTable, change: RowChange, event_ids: set[str] | frozenset[str]) -> RowStep:
    match change:
        case Put(_, values):
            return _put_step(table, values, event_ids)
        case Patch(_, key, values, only_in):
            check_key(table, key)
            if only_in:
                _check_state_column(table)
            late = _check_patch(table, values, event_ids)
            sql = table.patch(tuple(values), len(only_in))
            return RowStep(sql, (*values.values(), *key, *sorted(only_in)), late)
        case Remove(_, key):
            check_key(table, key)
            return RowStep(table.remove, key, late=False)


def _put_step(
    table: RowTable, values: Mapping[str, CellSource], event_ids: set[str] | frozenset[str]
) -> RowStep:
    late = False
    cells = []
    known = 0
    for name, plain_type in table.plain:
        cell = values.get(name)
        cells.append(cell)
        if cell is not None or name in values:
            known += 1
        if type(cell) is plain_type and (
            cell.isascii() if plain_type is str else plain_type is bytes or INTEGER_MIN <= cell <= INTEGER_MAX  # type: ignore[union-attr, operator]  # its type was just looked at
        ):
            continue
        column = table.columns[name]
        if cell is None:
            if column.required or name in table.spec.key:
                raise InvalidUnit(
                    f"a row of {table.spec.name} needs a value in {name}", table=table.spec.name
                )
        elif _check_cell(table, column, cell, event_ids):
            late = True
            if name in table.spec.key:
                raise InvalidUnit(
                    f"the key of {table.spec.name} must be known before the append", table=table.spec.name
                )
    if known != len(values):
        raise _undeclared(table, next(name for name in values if name not in table.columns))
    return RowStep(table.put, tuple(cells), late)


def _check_patch(
    table: RowTable, values: Mapping[str, CellSource], event_ids: set[str] | frozenset[str]
) -> bool:
    late = False
    for name, cell in values.items():
        column = table.columns.get(name)
        if column is None:
            raise _undeclared(table, name)
        if name in table.spec.key:
            raise InvalidUnit(
                f"a patch cannot change the key column {table.spec.name}.{name}", table=table.spec.name
            )
        if cell is None:
            if column.required:
                raise InvalidUnit(
                    f"the column {table.spec.name}.{name} cannot be empty", table=table.spec.name
                )
        elif _check_cell(table, column, cell, event_ids):
            late = True
    return late


def _check_cell(
    table: RowTable, column: Column, cell: CellSource, event_ids: set[str] | frozenset[str]
) -> bool:
    """Refuse a cell of another type than declared; whether the writer must fill it in."""
    if isinstance(cell, SequenceOf | RecordedAtOf):
        if column.type != "integer":
            raise _wrong_type(table, column, "integer")
        if cell.event_id not in event_ids:
            raise InvalidUnit(
                f"{table.spec.name}.{column.name} refers to an event that is not in this unit",
                event_id=cell.event_id,
            )
        return True
    if not isinstance(cell, PYTHON_TYPES[column.type]) or isinstance(cell, bool):
        raise _wrong_type(table, column, type(cell).__name__)
    if isinstance(cell, int) and not INTEGER_MIN <= cell <= INTEGER_MAX:
        raise InvalidUnit(
            f"{table.spec.name}.{column.name} holds integers of 64 bits",
            table=table.spec.name,
            column=column.name,
        )
    if isinstance(cell, str) and not cell.isascii():
        _check_text(table, column, cell)
    return False


def _check_text(table: RowTable, column: Column, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidUnit(
            f"{table.spec.name}.{column.name} cannot hold half a surrogate pair",
            table=table.spec.name,
            column=column.name,
        ) from None


def _guard_step(table: RowTable, guard: Guard) -> GuardStep:
    check_key(table, guard.key)
    if isinstance(guard, RowIs) and guard.states:
        _check_state_column(table)
    return GuardStep(guard, table)


def _check_state_column(table: RowTable) -> None:
    if STATE_COLUMN not in table.columns:
        raise InvalidUnit(
            f"table {table.spec.name} has no column {STATE_COLUMN!r} to go by", table=table.spec.name
        )


def _undeclared(table: RowTable, name: str) -> InvalidUnit:
    return InvalidUnit(
        f"table {table.spec.name} declares no column {name!r}", table=table.spec.name, column=name
    )


def _wrong_type(table: RowTable, column: Column, got: str) -> InvalidUnit:
    return InvalidUnit(
        f"{table.spec.name}.{column.name} holds {column.type}, not {got}",
        table=table.spec.name,
        column=column.name,
    )
