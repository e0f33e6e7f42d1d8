"""Row tables as they are declared: what a declaration must be, how a ledger keeps it, and which version it holds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, Protocol, TypeVar

from counterfoil.errors import ConfigInvalid, InvalidUnit, SchemaTooNew, SchemaUnknown
from counterfoil.store.rows import VERSION_COLUMN, Column, TableSpec
from counterfoil.store.standing import Standing, refusal

PREFIX: Final = "row_"
"""Before the name of every row table, so that a feature may call its table ``event`` or ``head``."""

RESERVED: Final = frozenset({"table"})
"""Names that would meet a table of the schema once prefixed."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*").fullmatch


class Made(Protocol):
    """A table with its statements, made from a declaration."""

    spec: TableSpec


T = TypeVar("T", bound=Made)
Held = Mapping[str, tuple[int, str, bool]]
"""Version, description and whether its rows must be made again, of each table that is in the database."""


def check_spec(spec: TableSpec, name_max: int) -> None:
    """Refuse with ConfigInvalid a declaration that no table can be made from. ``name_max`` counts characters."""
    names = [column.name for column in spec.columns]
    used = {*spec.key, *(name for columns in spec.indexes.values() for name in columns)}
    used |= {spec.stream_column} if spec.stream_column is not None else set()
    every = [spec.name, *names, *spec.indexes]
    problem = None
    if not all(_NAME(name) and len(name) <= name_max for name in every) or spec.name in RESERVED:
        problem = f"names are lower-case labels of at most {name_max} characters"
    elif VERSION_COLUMN in names:
        problem = f"{VERSION_COLUMN} is the store's own column"
    elif len(set(names)) != len(names) or not used <= set(names):
        problem = "a column is declared twice, or a key, index or stream column is not declared"
    elif not spec.key:
        problem = "a table needs a key"
    elif spec.truth and spec.key[0] != spec.stream_column:
        problem = "the key of a table of truth begins with the stream column"
    if problem:
        raise ConfigInvalid(f"the declaration of table {spec.name!r} is wrong: {problem}", table=spec.name)


def described(spec: TableSpec) -> str:
    """A declaration as the ledger keeps it, to be compared with what a program declares later."""
    told: dict[str, object] = {
        "columns": [[column.name, column.type, column.required] for column in spec.columns],
        "key": list(spec.key),
        "indexes": {name: list(columns) for name, columns in sorted(spec.indexes.items())},
        "stream_column": spec.stream_column,
    }
    if spec.truth:
        told["truth"] = True
    return json.dumps(told, sort_keys=True)


def from_description(name: str, version: int, text: str) -> TableSpec:
    """The declaration that :func:`described` gave."""
    told = json.loads(text)
    return TableSpec(
        name=name,
        columns=tuple(Column(*column) for column in told["columns"]),
        key=tuple(told["key"]),
        indexes={index: tuple(columns) for index, columns in told["indexes"].items()},
        version=version,
        stream_column=told["stream_column"],
        truth=told.get("truth", False),
    )


def refuse_dropped(spec: TableSpec, *, known: bool) -> None:
    """Raise SchemaUnknown for a table of truth that the database knows of and does not have: an empty one would lie."""
    if known:
        raise SchemaUnknown(
            f"the table of {spec.name} was dropped, and its rows follow from nothing",
            hint="restore the last backup; with read_only everything else can be read",
            table=spec.name,
        )


def carried_over(older: TableSpec, newer: TableSpec) -> list[str]:
    """The columns whose cells a table takes over from an older version of itself; none if its key is another."""
    before = {column.name: column for column in older.columns}
    shared = [c.name for c in newer.columns if c.name in before and before[c.name].type == c.type]
    return shared if set(newer.key) <= set(shared) else []


class DeclaredTables(Generic[T]):
    """The declared tables of one handle, held against what the database has.

    ``newer`` names declared tables that a newer process has made over: this one reads them as they now are and
    refuses to write anything. ``stale`` names tables whose rows must be rebuilt from the events. ``standing`` is what
    the database last said; ``despite`` one in which this handle writes all the same.
    """

    def __init__(self, specs: Sequence[TableSpec], make: Callable[[TableSpec], T]) -> None:
        self._make_table = make
        self.declared: dict[str, T] = {spec.name: make(spec) for spec in specs}
        if len(self.declared) != len(specs):
            raise ConfigInvalid("a row table is declared twice")
        self.by_name: dict[str, T] = dict(self.declared)
        self.newer: dict[str, int] = {}
        self.stale: frozenset[str] = frozenset()
        self.standing: Standing = "open"
        self.despite: Standing | None = None

    def table(self, name: str) -> T:
        """The table as the database holds it. Raises InvalidUnit if no feature declared it.

        Raises SchemaUnknown if it is not there: somebody dropped it, or this handle reads a ledger that has yet to
        be opened for writing by a program that knows the table.
        """
        try:
            return self.by_name[name]
        except KeyError:
            if name in self.declared and self.declared[name].spec.truth:
                raise SchemaUnknown(
                    f"the ledger has no table of {name}",
                    hint="a ledger made before there were such rows gets it when it is opened for writing; if it was "
                    "dropped, restore the last backup: its rows follow from nothing",
                    table=name,
                ) from None
            if name in self.declared:
                raise SchemaUnknown(
                    f"the ledger lacks the table of {name}, which is derived",
                    hint="run `counterfoil rebuild`: it makes the table and its rows again from the events",
                    table=name,
                ) from None
            raise InvalidUnit(f"no table {name!r} is declared in this store", table=name) from None

    def check_writable(self) -> None:
        """Raise SchemaTooNew when a newer process has made one of our tables over, or what the ledger's standing says."""
        refused = None if self.standing == self.despite else refusal(self.standing, "the ledger")
        if refused is not None:
            raise refused
        for name, version in self.newer.items():
            raise SchemaTooNew(
                f"table {name} has version {version}, made by a newer version of this program; "
                f"this one knows version {self.declared[name].spec.version}, so it reads and does not write",
                table=name,
                version=version,
                known=self.declared[name].spec.version,
            )

    def note(self, held: Held) -> None:
        """Take note of what the database holds. Raises ConfigInvalid for other columns under the same version."""
        self.newer, stale = {}, set()
        for name, mine in self.declared.items():
            version, text, is_stale = held.get(name, (0, "", False))
            self.by_name[name] = mine
            if name not in held:
                del self.by_name[name]
            if is_stale:
                stale.add(name)
            if version > mine.spec.version:
                self.newer[name] = version
                self.by_name[name] = self._make_table(from_description(name, version, text))
            elif version == mine.spec.version and text != described(mine.spec):
                raise ConfigInvalid(
                    f"table {name} is declared with other columns than the ledger has under version {version}",
                    hint="raise the declaration's version when its columns change",
                    table=name,
                )
        self.stale = frozenset(stale)

    def lacking(self, held: Held) -> list[tuple[T, TableSpec | None]]:
        """Declared tables that are not there yet or are older, each with the older declaration if there is one."""
        found: list[tuple[T, TableSpec | None]] = []
        for name, mine in self.declared.items():
            version, text, _ = held.get(name, (0, "", False))
            if version < mine.spec.version:
                found.append((mine, from_description(name, version, text) if version else None))
        return found
