"""Row tables beside the events: their declaration, the changes an append makes, the guards it checks.

Rows are derived: each is a pure function of the events (DESIGN 2.7), written in the event's own transaction. The rows
of a table of ``truth`` are the exception: what an application keeps beside its events, written only with an append.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct, field

from counterfoil.core.forms import time_ms
from counterfoil.errors import InvalidUnit

ColumnType = Literal["text", "integer", "blob"]
Cell = str | int | bytes | None
Key = tuple[Cell, ...]
Row = dict[str, Cell]

STATE_COLUMN = "state"
"""The column that :class:`RowIs` compares; a table without it cannot be guarded by state."""

VERSION_COLUMN = "row_version"
"""Kept by the adapter on every table: 1 when the row appears, one more with each change."""


class Column(Struct, frozen=True):
    """One typed column. Text is never content: header values, index values and addresses only (FORMAT 11)."""

    name: str
    type: ColumnType = "text"
    required: bool = True


class TableSpec(Struct, frozen=True):
    """A feature's table: name, columns, key and indexes by name.

    ``version`` rises when columns change; an older process that meets a newer version reads and refuses to write.
    ``stream_column`` names the column that erasure and purge select by. Rows that ``outlives`` names a stream for, by a
    column too, follow from its events and stay when it is purged. The rows of a ``watched`` table are guarded by
    many units and changed by few: a guard on one holds up nobody but who changes the table.
    The rows of a ``truth`` table follow from nothing, so no rebuild touches them; its key begins with the stream column,
    and a unit changes only rows of streams that it appends events to.
    Names are lower-case labels ``[a-z][a-z0-9_]*``; adapters may put them into SQL unquoted.
    """

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    indexes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    version: int = 1
    stream_column: str | None = "stream_id"
    watched: bool = False
    truth: bool = False
    outlives: str | None = None

    @property
    def owner_column(self) -> str:
        """The column that names the stream whose events a row follows from; empty without one."""
        return self.stream_column or self.outlives or ""

    def place_in(self, index: str, row: Row) -> Key:
        """What a selection by this index goes on after when ``row`` was its last: the index's columns, then the key's."""
        return tuple(row[name] for name in (*self.indexes[index], *self.key))


class SequenceOf(Struct, frozen=True):
    """Stands for the sequence that the writer gives to an event of the same unit."""

    event_id: str


class RecordedAtOf(Struct, frozen=True):
    """Stands for the store's clock (milliseconds) when the writer records an event of the same unit."""

    event_id: str


CellSource = Cell | SequenceOf | RecordedAtOf


class Put(Struct, frozen=True):
    """Insert the row or replace all its columns."""

    table: str
    values: Mapping[str, CellSource]


class Patch(Struct, frozen=True):
    """Change some columns of the row with this key; no row, no change.

    ``only_in`` (empty: any) names the values of the ``state`` column under which the change is made; in any other
    state the row stays as it is. A fact that arrives late can so be kept without overwriting what was decided since.
    """

    table: str
    key: Key
    values: Mapping[str, CellSource]
    only_in: frozenset[str] = frozenset()


class Remove(Struct, frozen=True):
    """Delete the row with this key, if it is there."""

    table: str
    key: Key


RowChange = Put | Patch | Remove


class Absent(Struct, frozen=True):
    """Guard: no row has this key."""

    table: str
    key: Key


class RowIs(Struct, frozen=True):
    """Guard: the row exists, its ``state`` is one of ``states`` (empty: any) and its version is ``version`` (None: any)."""

    table: str
    key: Key
    states: frozenset[str] = frozenset()
    version: int | None = None


Guard = Absent | RowIs


def check_beside(spec: TableSpec, change: RowChange, appended: Collection[str]) -> None:
    """Refuse with InvalidUnit to change a row of truth without an event of its own stream beside it.

    ``appended`` are the streams that the unit appends events to; none where there is no append.
    """
    if not spec.truth:
        return
    column = spec.key[0]
    stream_id = change.values.get(column) if isinstance(change, Put) else change.key[0]
    if stream_id not in appended:
        raise InvalidUnit(
            f"rows of {spec.name} are written only beside an event of the stream they belong to",
            hint="put the change into the unit that records the event",
            table=spec.name,
        )


Index = Callable[[str, str], str]
"""``index(purpose, text)`` of FORMAT 3: the tenant-keyed lookup value of a text from outside."""


class Fact(Struct, frozen=True):
    """An event as a ``rows`` function sees it, the same when it is appended and when rows are rebuilt.

    ``content`` is part 0 opened (references to other parts resolved), or None where it is erased, withheld or
    missing. ``sequence`` and ``recorded_at_ms`` are placeholders while the event is being appended. ``hint`` is then
    what the event's maker has worked out already (None on a rebuild): it saves work and changes no row.
    """

    tenant: str
    stream_id: str
    event_id: str
    event_type: str
    data: Mapping[str, Any]
    content: Mapping[str, Any] | None
    sequence: int | SequenceOf
    recorded_at_ms: int | RecordedAtOf
    occurred_at: str
    actor: Mapping[str, str]
    run_id: str | None = None
    step_id: str | None = None
    attempt: int | None = None
    causation_event_id: str | None = None
    hint: object = None
    artifact_refs: Sequence[Mapping[str, str]] = ()

    @property
    def occurred_at_ms(self) -> int:
        """The producer's time in milliseconds since the epoch."""
        return time_ms(self.occurred_at)


RowsOf = Callable[[Fact, Index], Iterable[RowChange]]

StandsIn = Callable[[Fact, Index], Mapping[str, str]]

ROW_INDEX: Final = "row_index"
"""The member of content that holds what :attr:`Feature.stands_in` gave."""


class Feature(Struct, frozen=True):
    """What a feature package gives the ledger: its tables, and the rows that follow from an event (pure).

    ``stands_in`` gives, for an event whose content moves to artifacts, what its rows need of it, as content that stays
    in the event: rows are made again without any artifact.
    """

    name: str
    tables: tuple[TableSpec, ...]
    event_types: frozenset[str]
    rows: RowsOf
    stands_in: StandsIn | None = None
