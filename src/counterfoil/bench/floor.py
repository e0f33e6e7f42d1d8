"""The floor of an effect: the statements that it sends to SQLite, once more without our Python between them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from counterfoil.adapters.sqlite import engine
from counterfoil.adapters.sqlite.connect import connect, prepare_writer
from counterfoil.bench.effect import effects_in
from counterfoil.bench.rounds import Contender

BUSY_S: Final = 5.0

Statement = tuple[str, Any, bool]
"""The SQL, its parameters, and whether these are of many executions."""


class _Cursor(sqlite3.Cursor):
    """Writes down what it is given before it does it."""

    said: list[Statement]

    def execute(self, sql: str, parameters: Any = (), /) -> _Cursor:
        self.said.append((sql, tuple(parameters), False))
        super().execute(sql, parameters)
        return self

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> _Cursor:
        many = [tuple(one) for one in parameters]
        self.said.append((sql, many, True))
        super().executemany(sql, many)
        return self


class _Connection(sqlite3.Connection):
    """A writer's connection whose cursors write down. Its own shortcuts go through such a cursor too."""

    said: list[Statement]

    def cursor(self, factory: Any = None, /) -> Any:
        made = super().cursor(factory or _Cursor)
        made.said = self.said
        return made

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        made: sqlite3.Cursor = self.cursor().execute(sql, parameters)
        return made


@contextmanager
def written_down() -> Iterator[list[Statement]]:
    """Every statement of the connection that writes a ledger opened meanwhile, in the order of its execution.

    What a reader's connection is asked is not among them: it makes no commit.
    """
    said: list[Statement] = []

    def opened(path: Path, mode: str, busy_s: float) -> sqlite3.Connection:
        made = connect(path, mode, busy_s, factory=_Connection)
        assert isinstance(made, _Connection)
        made.said = said
        return made

    with patch.object(engine, "connect", opened):
        yield said


class Replay:
    """A copy of a ledger's file, and the statements of so many effects that came after the copy, each to be had once."""

    def __init__(self, directory: Path, effects: int) -> None:
        place = directory / "recorded"
        self.path = directory / "replayed.db"
        with written_down() as said, effects_in(place) as perform:
            perform(1)  # the first one makes what those after it find: a key, plans, a run
            _copy(place / "ledger.db", self.path)
            said.clear()
            self._effects: list[list[Statement]] = []
            for _ in range(effects):
                perform(1)
                self._effects.append(list(said))
                said.clear()
        self.db = connect(self.path, "rw", BUSY_S)
        prepare_writer(self.db)
        self._next = 0

    @property
    def statements(self) -> int:
        """Of one effect, BEGIN and COMMIT among them."""
        return len(self._effects[-1])

    def perform(self, count: int) -> None:
        """The statements of the next so many effects, with the same pragmas, transactions and fsyncs."""
        cursor = self.db.cursor()
        for statements in self._effects[self._next : self._next + count]:
            replay(cursor, statements)
        self._next += count

    def contender(self) -> Contender:
        """Its turns."""
        return Contender(self.perform)

    def close(self) -> None:
        """Release the copy."""
        self.db.close()


def replay(cursor: sqlite3.Cursor, statements: Sequence[Statement]) -> None:
    """Execute them as they were; rows that were asked for are read."""
    for sql, parameters, many in statements:
        if many:
            cursor.executemany(sql, parameters)
        else:
            cursor.execute(sql, parameters).fetchall()


def _copy(path: Path, target: Path) -> None:
    """The database as its last commit left it, page for page."""
    with closing(connect(path, "ro", BUSY_S)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
