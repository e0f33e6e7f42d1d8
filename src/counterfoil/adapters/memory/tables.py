"""Row tables in memory: what may stand in a cell, the order of rows, the changes and guards of a unit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from counterfoil.errors import GuardFailed, InvalidUnit
from counterfoil.store.rows import (
    STATE_COLUMN,
    VERSION_COLUMN,
    Absent,
    Cell,
    CellSource,
    Column,
    ColumnType,
    Guard,
    Key,
    Patch,
    Put,
    RecordedAtOf,
    Remove,
    Row,
    RowChange,
    RowIs,
    SequenceOf,
    TableSpec,
)

INTEGER_BITS = 64
"""Integers in rows fit a signed integer of this size, on every engine."""

Resolve = Callable[[CellSource], Cell]
"""Turns a cell as the caller gave it into a plain one; only the writer knows sequences and its clock."""

_PYTHON_TYPES: Mapping[ColumnType, type] = {"text": str, "integer": int, "blob": bytes}


class Table(Struct):
    """One declared table and its rows by key. Rows are replaced, never changed in place, so a copy is a view."""

    spec: TableSpec
    rows: dict[Key, Row] = field(default_factory=dict)

    def copy(self) -> Table:
        """The same rows in a table of its own."""
        return Table(self.spec, dict(self.rows))


def table_of(tables: Mapping[str, Table], name: str) -> Table:
    """The table of this name. Raises InvalidUnit if no feature declared it."""
    table = tables.get(name)
    if table is None:
        raise InvalidUnit(f"no table {name!r} is declared in this store", table=name)
    return table


def check_change(tables: Mapping[str, Table], change: RowChange, event_ids: frozenset[str]) -> None:
    """Refuse with InvalidUnit a change that the declaration of its table does not allow."""
    spec = table_of(tables, change.table).spec
    columns = {column.name: column for column in spec.columns}
    if isinstance(change, Put):
        _check_cells(spec, columns, change.values, event_ids)
        for column in spec.columns:
            if change.values.get(column.name) is None and (column.required or column.name in spec.key):
                raise InvalidUnit(f"a row of {spec.name} needs a value in {column.name}", table=spec.name)
        if not all(_is_plain(change.values[name]) for name in spec.key):
            raise InvalidUnit(f"the key of {spec.name} must be known before the append", table=spec.name)
        return
    check_key(spec, change.key)
    if isinstance(change, Patch):
        _check_patch(spec, columns, change)
        _check_cells(spec, columns, change.values, event_ids)


def check_guard(tables: Mapping[str, Table], guard: Guard) -> None:
    """Refuse with InvalidUnit a guard on an undeclared table, a wrong key, or states where there are none."""
    spec = table_of(tables, guard.table).spec
    check_key(spec, guard.key)
    if isinstance(guard, RowIs) and guard.states and all(c.name != STATE_COLUMN for c in spec.columns):
        raise InvalidUnit(f"table {spec.name} has no column {STATE_COLUMN!r} to guard by", table=spec.name)


def check_key(spec: TableSpec, key: Key) -> None:
    """Refuse with InvalidUnit a key of another length or of other types than the table declares."""
    if len(key) != len(spec.key):
        raise InvalidUnit(f"a key of {spec.name} is {spec.key}; got {len(key)} values", table=spec.name)
    columns = {column.name: column for column in spec.columns}
    for name, cell in zip(spec.key, key, strict=True):
        if cell is None:
            raise InvalidUnit(f"the key column {spec.name}.{name} cannot be empty", table=spec.name)
        _check_cell(spec, columns[name], cell, frozenset())


def resolver(positions: Mapping[str, tuple[int, int]]) -> Resolve:
    """Resolves cells of a unit whose events got these (sequence, recorded_at_ms), by event id."""

    def resolve(cell: CellSource) -> Cell:
        match cell:
            case SequenceOf(event_id):
                return positions[event_id][0]
            case RecordedAtOf(event_id):
                return positions[event_id][1]
            case _:
                return cell

    return resolve


def apply(tables: Mapping[str, Table], changes: Iterable[RowChange], resolve: Resolve) -> None:
    """Make checked changes, in order."""
    for change in changes:
        table = tables[change.table]
        match change:
            case Put(_, values):
                row: Row = {column.name: resolve(values.get(column.name)) for column in table.spec.columns}
                _replace(table, tuple(row[name] for name in table.spec.key), row)
            case Patch(_, key, values, only_in):
                found = table.rows.get(key)
                if found is not None and (not only_in or found[STATE_COLUMN] in only_in):
                    _replace(table, key, found | {name: resolve(cell) for name, cell in values.items()})
            case Remove(_, key):
                table.rows.pop(key, None)


def check_guards(tables: Mapping[str, Table], guards: Sequence[Guard]) -> None:
    """Raise GuardFailed, with the current row, for the first guard that does not hold."""
    for guard in guards:
        row = tables[guard.table].rows.get(guard.key)
        if not _holds(guard, row):
            raise GuardFailed(
                f"a row of {guard.table} is not as the caller expected it",
                hint="the error's field `row` holds the row as it is now; decide again",
                table=guard.table,
                key=guard.key,
                row=None if row is None else dict(row),
            )


def select(
    table: Table, index: str | None, prefix: Key, after: Key | None, limit: int, *, descending: bool
) -> list[Row]:
    """Rows in the order of an index, then of the key; see ``Reader.select``."""
    if index is not None and index not in table.spec.indexes:
        raise InvalidUnit(f"table {table.spec.name} has no index {index!r}", table=table.spec.name)
    leading = () if index is None else table.spec.indexes[index]
    names = (*leading, *table.spec.key)
    if len(prefix) > len(leading or names) or (after is not None and len(after) != len(names)):
        raise InvalidUnit(
            f"{table.spec.name} is paged by {names}; the values given do not fit", table=table.spec.name
        )
    rows = [row for row in table.rows.values() if tuple(row[name] for name in names[: len(prefix)]) == prefix]
    rows.sort(key=lambda row: _order(row[name] for name in names), reverse=descending)
    if after is not None:
        edge = _order(after)
        rows = [
            row for row in rows if _beyond(_order(row[name] for name in names), edge, descending=descending)
        ]
    return [dict(row) for row in rows[: max(limit, 0)]]


def rows_of_stream(table: Table, stream_id: str) -> list[Key]:
    """Keys of the rows that belong to a stream; none if the table has no stream column."""
    column = table.spec.stream_column
    if column is None:
        return []
    return [key for key, row in table.rows.items() if row[column] == stream_id]


def _replace(table: Table, key: Key, row: Row) -> None:
    before = table.rows.get(key)
    version = 1 if before is None else before[VERSION_COLUMN]
    assert isinstance(version, int)
    table.rows[key] = row | {VERSION_COLUMN: version if before is None else version + 1}


def _holds(guard: Guard, row: Row | None) -> bool:
    if isinstance(guard, Absent):
        return row is None
    if row is None or (guard.version is not None and row[VERSION_COLUMN] != guard.version):
        return False
    return not guard.states or row[STATE_COLUMN] in guard.states


def _check_patch(spec: TableSpec, columns: Mapping[str, Column], change: Patch) -> None:
    if change.only_in and STATE_COLUMN not in columns:
        raise InvalidUnit(f"table {spec.name} has no column {STATE_COLUMN!r} to patch by", table=spec.name)
    for name, cell in change.values.items():
        if name in spec.key:
            raise InvalidUnit(f"a patch cannot change the key column {spec.name}.{name}", table=spec.name)
        if cell is None and name in columns and columns[name].required:
            raise InvalidUnit(f"the column {spec.name}.{name} cannot be empty", table=spec.name)


def _check_cells(
    spec: TableSpec,
    columns: Mapping[str, Column],
    values: Mapping[str, CellSource],
    event_ids: frozenset[str],
) -> None:
    for name, cell in values.items():
        if name not in columns:
            raise InvalidUnit(f"table {spec.name} declares no column {name!r}", table=spec.name, column=name)
        _check_cell(spec, columns[name], cell, event_ids)


def _check_cell(spec: TableSpec, column: Column, cell: CellSource, event_ids: frozenset[str]) -> None:
    if cell is None:
        return
    where = f"{spec.name}.{column.name}"
    written = int if isinstance(cell, SequenceOf | RecordedAtOf) else type(cell)
    if written is bool or not issubclass(written, _PYTHON_TYPES[column.type]):
        raise InvalidUnit(
            f"{where} holds {column.type}, not {written.__name__}", table=spec.name, column=column.name
        )
    if isinstance(cell, SequenceOf | RecordedAtOf):
        if cell.event_id not in event_ids:
            raise InvalidUnit(f"{where} refers to an event that is not in this unit", event_id=cell.event_id)
    elif isinstance(cell, int) and not -(1 << INTEGER_BITS - 1) <= cell < 1 << INTEGER_BITS - 1:
        raise InvalidUnit(
            f"{where} holds integers of {INTEGER_BITS} bits", table=spec.name, column=column.name
        )
    elif isinstance(cell, str) and not _encodable(cell):
        raise InvalidUnit(f"{where} cannot hold half a surrogate pair", table=spec.name, column=column.name)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_plain(cell: CellSource) -> bool:
    return not isinstance(cell, SequenceOf | RecordedAtOf)


def _order(cells: Iterable[Cell]) -> tuple[Any, ...]:
    # None first, as SQL engines that sort NULL lowest do; cells of one column have one type.
    return tuple((cell is not None, cell) for cell in cells)


def _beyond(order: tuple[Any, ...], edge: tuple[Any, ...], *, descending: bool) -> bool:
    return order < edge if descending else order > edge
