"""What a unit becomes on the caller's thread: checked against the declarations, with its parameters made.

Everything that needs neither the database nor the sequence is done here, so that the writer only splices,
hashes and binds (DESIGN 4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from msgspec import Struct

from counterfoil.adapters.sqlite.bulk import Bulk
from counterfoil.adapters.sqlite.tables import PYTHON_TYPES, RowTable, RowTables
from counterfoil.errors import CounterfoilError, InvalidUnit
from counterfoil.store.rows import (
    STATE_COLUMN,
    Absent,
    CellSource,
    Column,
    Guard,
    Key,
    Patch,
    Put,
    RecordedAtOf,
    RowChange,
    RowIs,
    SequenceOf,
    check_beside,
)
from counterfoil.store.unit import ANY, StreamAppend, Unit

SHAPES_MAX: Final = 1024
"""Combinations of types remembered for each table."""
ANSWERS_MAX: Final = 16
"""Row changes of a unit that are looked at for one that answers a guard: more than any of our events makes."""
INTEGER_MIN: Final = -(1 << 63)
INTEGER_MAX: Final = (1 << 63) - 1
EVENT_OVERHEAD_BYTES: Final = 400
"""Counted for each event beside its header and records: index entries, rows."""

_NO_IDS: Final[frozenset[str]] = frozenset()


class RowStep(Struct):
    """One row change as statement and parameters; ``late`` are the places where the writer must fill something in.

    ``must``: it changes its row, or the whole unit is refused.
    """

    sql: str | Bulk
    params: tuple[Any, ...]
    late: tuple[int, ...] = ()
    must: bool = False


class GuardStep(Struct):
    """One guard with the statement that fetches its row."""

    guard: Guard
    table: RowTable


class Job(Struct):
    """A unit ready for the writer; ``refusal`` is set when it contradicts itself and nothing else is.

    ``plain``: it asks for no check but that its streams are there. ``asked`` are those of the guards that no row
    change of the unit answers by itself when it is made.
    """

    streams: tuple[StreamAppend, ...]
    rows: Sequence[RowStep] = ()
    guards: Sequence[GuardStep] = ()
    asked: Sequence[GuardStep] = ()
    events: int = 0
    size: int = 0
    plain: bool = False
    refusal: CounterfoilError | None = None


def plan_unit(tables: RowTables, unit: Unit) -> Job:
    """The job of a unit; one that contradicts itself carries its refusal."""
    try:
        return _plan(tables, unit)
    except InvalidUnit as error:
        return Job(unit.streams, refusal=error)


def plan_rows(tables: RowTables, changes: Sequence[RowChange], *, loaded: bool = False) -> list[RowStep]:
    """Row changes without an append (a rebuild, a load): no cell may stand for a sequence. Raises InvalidUnit.

    Rows of truth are written beside an event of their stream, or ``loaded`` with its events as they were recorded.
    """
    if not loaded:
        for change in changes:
            check_beside(tables.table(change.table).spec, change, ())
    return [_row_step(tables.table(change.table), change, _NO_IDS) for change in changes]


def check_key(table: RowTable, key: Key) -> None:
    """Refuse with InvalidUnit a key of another length or other types than declared."""
    names = table.spec.key
    if len(key) != len(names):
        raise InvalidUnit(
            f"a key of {table.spec.name} is {names}; got {len(key)} values", table=table.spec.name
        )
    if tuple(map(type, key)) == table.text_key and "".join(key).isascii():  # type: ignore[arg-type]  # texts, as seen
        return
    shape = _shape_of(table, names, key, whole=True)
    _check_values(table, names, key, shape, _NO_IDS)


def _plan(tables: RowTables, unit: Unit) -> Job:
    ids, size, plain = _check_events(unit)
    rows = [_row_step(tables.table(change.table), change, ids) for change in unit.rows]
    _check_truth(tables, unit)
    if not unit.guards:
        return Job(unit.streams, rows, events=len(ids), size=size, plain=plain)
    guards = [_guard_step(tables.table(guard.table), guard) for guard in unit.guards]
    asked = [step for step in guards if not _answered(step, unit.rows, rows)]
    return Job(unit.streams, rows, guards, asked, len(ids), size)


def _check_truth(tables: RowTables, unit: Unit) -> None:
    for change in unit.rows:
        spec = tables.table(change.table).spec
        if spec.truth:
            check_beside(spec, change, {part.stream_id for part in unit.streams if part.events})


def _check_events(unit: Unit) -> tuple[set[str], int, bool]:
    """The event ids of the unit, the bytes it will write, and whether its streams ask for no check."""
    ids: set[str] = set()
    count = size = 0
    creates, plain = False, True
    for part in unit.streams:
        stream_id = part.stream_id
        if part.token is not None or part.expected is not ANY:
            plain = False
        if part.create is not None:
            creates, plain = True, False
            if part.create.stream_id != stream_id:
                raise InvalidUnit(f"the genesis of another stream was given for {stream_id}")
        for event in part.events:
            if event.stream_id != stream_id:
                raise InvalidUnit(f"an event of another stream was given for {stream_id}")
            ids.add(event.event_id)
            size += len(event.head) + len(event.tail) + EVENT_OVERHEAD_BYTES
            for record in event.records:
                size += len(record)
        count += len(part.events)
    if not count and not creates:
        raise InvalidUnit("an append unit needs an event, or a stream to create")
    if len(ids) != count:
        raise InvalidUnit("an append unit holds an event id twice")
    if len(unit.streams) > 1 and len({part.stream_id for part in unit.streams}) != len(unit.streams):
        raise InvalidUnit("an append unit names a stream twice", hint="put its events into one StreamAppend")
    return ids, size, plain


def _row_step(table: RowTable, change: RowChange, event_ids: set[str] | frozenset[str]) -> RowStep:
    if isinstance(change, Put):
        return _put_step(table, change.values, event_ids)
    if isinstance(change, Patch):
        return _patch_step(table, change.key, change.values, change.only_in, event_ids)
    check_key(table, change.key)
    return RowStep(table.remove, change.key)


def _put_step(
    table: RowTable, values: Mapping[str, CellSource], event_ids: set[str] | frozenset[str]
) -> RowStep:
    if tuple(values) not in table.declared:
        _check_names(table, values)
    cells = tuple(map(values.get, table.names))
    shape = table.shapes.get(tuple(map(type, cells)))
    if shape is None:
        shape = _shape_of(table, table.names, cells, whole=True)
    _check_values(table, table.names, cells, shape, event_ids)
    return RowStep(table.put, cells, shape.late)


def _patch_step(
    table: RowTable,
    key: Key,
    values: Mapping[str, CellSource],
    only_in: frozenset[str],
    event_ids: set[str] | frozenset[str],
) -> RowStep:
    check_key(table, key)
    if only_in:
        _check_state_column(table)
    names, cells = tuple(values), tuple(values.values())
    if names not in table.declared:
        _check_names(table, values)
    shape = _shape_of(table, names, cells, whole=False)
    _check_values(table, names, cells, shape, event_ids)
    return RowStep(table.patch(names, len(only_in)), (*cells, *key, *sorted(only_in)), shape.late)


# ---- cells: what depends on their types is checked once for each combination, the values every time ---------------


class Shape(Struct, frozen=True):
    """Where a row change of these types holds text, integers, and cells that only the writer can fill in."""

    texts: tuple[int, ...]
    integers: tuple[int, ...]
    late: tuple[int, ...]
    pick_texts: Callable[[tuple[Any, ...]], Any]
    """The texts of a row, for one look at all of them."""


def _shape_of(
    table: RowTable, names: tuple[str, ...], cells: tuple[CellSource, ...], *, whole: bool
) -> Shape:
    """The shape of a change; ``whole`` for a full row or key, otherwise a patch. Raises InvalidUnit for a wrong type."""
    types: tuple[object, ...] = tuple(map(type, cells))
    # A full row is known by its types alone, everything else by its columns too.
    known = types if whole and names is table.names else (names, types, whole)
    shape = table.shapes.get(known)
    if shape is None:
        shape = _new_shape(table, names, cells, whole=whole)
        if len(table.shapes) >= SHAPES_MAX:
            table.shapes.clear()
        table.shapes[known] = shape
    assert isinstance(shape, Shape)
    return shape


def _new_shape(
    table: RowTable, names: tuple[str, ...], cells: tuple[CellSource, ...], *, whole: bool
) -> Shape:
    texts, integers, late = [], [], []
    for place, (name, cell) in enumerate(zip(names, cells, strict=True)):
        column, in_key = table.columns[name], name in table.spec.key
        if in_key and not whole:
            raise _refused(table, name, "is part of the key, which a patch cannot change")
        if cell is None:
            if column.required or in_key:
                raise _refused(table, name, "needs a value")
        elif isinstance(cell, SequenceOf | RecordedAtOf):
            if in_key:
                raise _refused(table, name, "is part of the key, which must be known before the append")
            _check_type(table, column, int)
            late.append(place)
        else:
            _check_type(table, column, type(cell))
            if isinstance(cell, str):
                texts.append(place)
            elif isinstance(cell, int):
                integers.append(place)
    pick = itemgetter(*texts) if texts else _no_texts
    return Shape(tuple(texts), tuple(integers), tuple(late), pick)


def _no_texts(_: tuple[Any, ...]) -> str:
    return ""


def _check_type(table: RowTable, column: Column, got: type) -> None:
    if got is bool or not issubclass(got, PYTHON_TYPES[column.type]):
        raise _refused(table, column.name, f"holds {column.type}, not {got.__name__}")


def _check_values(
    table: RowTable,
    names: tuple[str, ...],
    cells: tuple[Any, ...],
    shape: Shape,
    event_ids: set[str] | frozenset[str],
) -> None:
    for place in shape.integers:
        if not INTEGER_MIN <= cells[place] <= INTEGER_MAX:
            raise _refused(table, names[place], "holds integers of 64 bits")
    for place in shape.late:
        if cells[place].event_id not in event_ids:
            raise _refused(table, names[place], "refers to an event that is not in this unit")
    if not "".join(shape.pick_texts(cells)).isascii():
        for place in shape.texts:
            _check_text(table, names[place], cells[place])


def _check_text(table: RowTable, name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _refused(table, name, "cannot hold half a surrogate pair") from None


def _guard_step(table: RowTable, guard: Guard) -> GuardStep:
    check_key(table, guard.key)
    if isinstance(guard, RowIs) and guard.states:
        _check_state_column(table)
    return GuardStep(guard, table)


def _answered(step: GuardStep, changes: Sequence[RowChange], rows: list[RowStep]) -> bool:
    """Whether the first change of the row answers its guard: then it is made so that it fails where the guard does.

    That a key is free shows when its row is inserted, that a row is in a state when it is changed out of it; so the
    row need not be read first, and whoever is refused is told so by a look of their own.
    """
    guard, table = step.guard, step.table
    for place, change in enumerate(changes[:ANSWERS_MAX]):
        if change.table != guard.table or _key_of(table, change) != guard.key:
            continue
        row = rows[place]
        if isinstance(change, Put) and isinstance(guard, Absent):
            row.sql = table.insert
            return True
        if not isinstance(change, Patch) or not isinstance(guard, RowIs):
            return False
        states = guard.states
        if (
            row.must
            or guard.version is not None
            or not states
            or (change.only_in and not states <= change.only_in)
        ):
            return False
        row.sql = table.patch(tuple(change.values), len(states))
        row.params = (*change.values.values(), *change.key, *sorted(states))
        row.must = True
        return True
    return False


def _key_of(table: RowTable, change: RowChange) -> Key:
    if isinstance(change, Put):
        return tuple([change.values[name] for name in table.spec.key])  # type: ignore[misc]  # checked with its step
    return change.key


def _check_state_column(table: RowTable) -> None:
    if STATE_COLUMN not in table.columns:
        raise InvalidUnit(
            f"table {table.spec.name} has no column {STATE_COLUMN!r} to go by", table=table.spec.name
        )


def _check_names(table: RowTable, values: Mapping[str, CellSource]) -> None:
    """Refuse with InvalidUnit a column that is not declared; names that were seen together are known from then on."""
    for name in values:
        if name not in table.columns:
            raise InvalidUnit(
                f"table {table.spec.name} declares no column {name!r}", table=table.spec.name, column=name
            )
    if len(table.declared) >= SHAPES_MAX:
        table.declared.clear()
    table.declared.add(tuple(values))


def _refused(table: RowTable, name: str, why: str) -> InvalidUnit:
    return InvalidUnit(f"{table.spec.name}.{name} {why}", table=table.spec.name, column=name)
