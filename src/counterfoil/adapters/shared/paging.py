"""One page of a row table in SQL: the SELECT in the order of an index, and the row to go on after."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from counterfoil.errors import InvalidUnit
from counterfoil.store.rows import Cell, Column, Key, TableSpec


def quote(name: str) -> str:
    """The name quoted: a feature may call a column ``order`` or ``index``."""
    return f'"{name}"'


def listed(names: Sequence[str]) -> str:
    """Names for a column list."""
    return ", ".join(map(quote, names))


class Dialect(Struct, frozen=True):
    """How an engine says it: the place of a parameter for a column, and rising and falling order, empty cells first.

    ``limit`` is the place of the page's length, which is ``limit_max`` at most.
    """

    mark: Callable[[Column], str]
    rising: str
    falling: str
    limit: str
    limit_max: int


class Pages:
    """The pages of one table. ``columns`` is the list of what is fetched, ``table`` the table's full name."""

    __slots__ = ("_dialect", "_head", "_marks", "_spec", "_table", "_types")

    def __init__(self, spec: TableSpec, table: str, columns: str, dialect: Dialect) -> None:
        self._spec = spec
        self._table = table
        self._head = f"SELECT {columns} FROM {table}"
        self._dialect = dialect
        self._types: Mapping[str, Column] = {column.name: column for column in spec.columns}
        self._marks = {name: dialect.mark(column) for name, column in self._types.items()}

    def select(
        self, index: str | None, prefix: Key, after: Key | None, limit: int, *, descending: bool
    ) -> tuple[str, tuple[Cell, ...]]:
        """The statement and its parameters. Raises InvalidUnit for an undeclared index or values that do not fit."""
        names, conditions = self._under(index, prefix)
        params: list[Cell] = [cell for cell in prefix if cell is not None]
        if after is not None:
            if len(after) != len(names):
                raise self._unfit(names)
            # Below the prefix only the rest decides, and an index can then go straight to the place.
            told = len(prefix) if after[: len(prefix)] == prefix else 0
            condition, values = self._beyond(names[told:], after[told:], descending=descending)
            conditions.append(condition)
            params += values
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        way = self._dialect.falling if descending else self._dialect.rising
        order = ", ".join(f"{quote(name)}{way}" for name in dict.fromkeys(names))
        sql = f"{self._head}{where} ORDER BY {order} LIMIT {self._dialect.limit}"
        return sql, (*params, min(max(limit, 0), self._dialect.limit_max))

    def count(self, index: str, prefix: Key, most: int) -> tuple[str, tuple[Cell, ...]]:
        """The statement that counts rows under a prefix up to ``most``, by the index alone, and its parameters."""
        _, conditions = self._under(index, prefix)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        sql = f"SELECT count(*) FROM (SELECT 1 FROM {self._table}{where} LIMIT {self._dialect.limit}) counted"
        params = [cell for cell in prefix if cell is not None]
        return sql, (*params, min(max(most, 0), self._dialect.limit_max))

    def _under(self, index: str | None, prefix: Key) -> tuple[tuple[str, ...], list[str]]:
        """The columns that an index goes by, and the conditions that the first of them equal ``prefix``."""
        leading = self._leading(index)
        names = (*leading, *self._spec.key)
        if len(prefix) > len(leading or names):
            raise self._unfit(names)
        return names, [self._same(name, cell) for name, cell in zip(names, prefix, strict=False)]

    def _unfit(self, names: tuple[str, ...]) -> InvalidUnit:
        return InvalidUnit(
            f"{self._spec.name} is paged by {names}; the values given do not fit", table=self._spec.name
        )

    def _leading(self, index: str | None) -> tuple[str, ...]:
        if index is None:
            return ()
        if index not in self._spec.indexes:
            raise InvalidUnit(f"table {self._spec.name} has no index {index!r}", table=self._spec.name)
        return self._spec.indexes[index]

    def _beyond(self, names: tuple[str, ...], after: Key, *, descending: bool) -> tuple[str, list[Cell]]:
        """Rows after a row. An empty cell comes first but compares with nothing, so it needs words of its own."""
        if not names:
            return "false", []
        if None not in after and all(self._never_null(name) for name in names):
            marks = ", ".join([self._marks[name] for name in names])
            return f"({listed(names)}) {'<' if descending else '>'} ({marks})", list(after)
        choices: list[str] = []
        values: list[Cell] = []
        for place, name in enumerate(names):
            further = self._further(name, after[place], descending=descending)
            if further is None:
                continue
            same = [self._same(before, cell) for before, cell in zip(names, after[:place], strict=False)]
            choices.append(" AND ".join([*same, further]))
            values += [cell for cell in after[: place + 1] if cell is not None]
        return f"({' OR '.join(f'({choice})' for choice in choices) or 'false'})", values

    def _never_null(self, name: str) -> bool:
        return self._types[name].required or name in self._spec.key

    def _same(self, name: str, cell: Cell) -> str:
        """The condition that a column holds ``cell``; only a cell that is there becomes a parameter."""
        return f"{quote(name)} IS NULL" if cell is None else f"{quote(name)} = {self._marks[name]}"

    def _further(self, name: str, cell: Cell, *, descending: bool) -> str | None:
        """The condition that a column stands beyond ``cell``; None if nothing does."""
        if cell is None:
            return None if descending else f"{quote(name)} IS NOT NULL"
        if descending:
            return f"({quote(name)} < {self._marks[name]} OR {quote(name)} IS NULL)"
        return f"{quote(name)} > {self._marks[name]}"
