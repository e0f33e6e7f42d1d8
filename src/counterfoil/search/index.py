"""Taking events into the index and out again: one transaction for the words, the places and the cursor.

A crash therefore loses nothing and puts nothing in twice, and of two processes that follow at once one finds the cursor
moved and leaves it at that.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct, field

from counterfoil.search.file import SearchFile
from counterfoil.search.schema import GAPS
from counterfoil.search.text import SEPARATOR

SCOPE_BASE: Final = 0xF0000
SCOPE_SIZE: Final = 60_000
"""A conversation is found by a trigram of its own: its number in three characters of a private plane."""

DELETED_PER_BATCH: Final = 500


class PartText(Struct, frozen=True):
    """The folded text of one part of an event; ``key_id`` None is the stream's own key."""

    part: int
    key_id: str | None
    text: str
    cut: bool = False


class Taken(Struct, frozen=True):
    """One event as the index takes it in: where it stands, its texts, and how many parts could not be read."""

    stream_id: str
    sequence: int
    event_id: str
    recorded_at_ms: int
    parts: tuple[PartText, ...] = ()
    unread: int = 0


class Followed(Struct, frozen=True):
    """How far a tenant's feed was followed."""

    cursor: bytes = b""
    stream_id: str = ""
    event_id: str = ""
    recorded_at_ms: int = 0
    events: int = 0
    caught_up: bool = False


MERGE_PAGES: Final = 100
"""Pages that one step of a merge writes, about."""


class Shortfall(Struct, frozen=True):
    """What an answer about one conversation, or about all of a tenant, cannot rest on."""

    cut: int = 0
    unread: int = 0
    holes: int = 0


class Batch(Struct):
    """Events gathered for one transaction, and the cursor before and after them."""

    before: bytes
    cursor: bytes
    caught_up: bool = False
    events: list[Taken] = field(default_factory=list)

    @property
    def characters(self) -> int:
        """Characters to be put in."""
        return sum(len(part.text) for event in self.events for part in event.parts)


def scope_of(number: int) -> str:
    """The trigram of one conversation."""
    high, low = divmod(number, SCOPE_SIZE)
    return chr(SCOPE_BASE) + chr(SCOPE_BASE + high % SCOPE_SIZE) + chr(SCOPE_BASE + low)


def body_of(number: int, text: str) -> str:
    """What is put in: the conversation's trigram, then the text, so padded that each pair begins a trigram."""
    return f"{scope_of(number)}{SEPARATOR}{text}{SEPARATOR}{SEPARATOR}"


class Index:
    """Reading and writing the tables of one search file for one tenant."""

    def __init__(self, file: SearchFile, tenant: str) -> None:
        self.file: SearchFile = file
        self.tenant: str = tenant

    # ---- in ----

    def followed(self) -> Followed:
        """How far the feed was followed."""
        with self.file.using() as connection:
            row = connection.execute(
                "SELECT cursor, stream_id, event_id, recorded_at, events, caught_up FROM follow WHERE tenant = ?",
                (self.tenant,),
            ).fetchone()
        return Followed() if row is None else Followed(row[0], row[1], row[2], row[3], row[4], bool(row[5]))

    def sequence_of(self, stream_id: str) -> int:
        """The last sequence of a conversation that was taken in; 0 for none."""
        with self.file.using() as connection:
            row = connection.execute("SELECT seq FROM stream WHERE stream_id = ?", (stream_id,)).fetchone()
        return 0 if row is None else int(row[0])

    def is_erased(self, stream_id: str) -> bool:
        """Whether a conversation was taken out for good."""
        with self.file.using() as connection:
            return bool(_erased(connection, [stream_id]))

    def take(self, batch: Batch) -> bool:
        """Put a batch in, and move the cursor; False (and nothing done) where somebody else has moved it."""
        with self.file.writing() as connection:
            row = connection.execute(
                "SELECT cursor, stream_id, event_id, recorded_at, events FROM follow WHERE tenant = ?",
                (self.tenant,),
            ).fetchone()
            if (b"" if row is None else row[0]) != batch.before:
                return False
            before = Followed() if row is None else Followed(*row)
            for event in batch.events:
                self._take(connection, event)
            last = batch.events[-1] if batch.events else None
            connection.execute(
                "INSERT OR REPLACE INTO follow VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    self.tenant,
                    batch.cursor,
                    before.stream_id if last is None else last.stream_id,
                    before.event_id if last is None else last.event_id,
                    before.recorded_at_ms if last is None else last.recorded_at_ms,
                    before.events + len(batch.events),
                    int(batch.caught_up),
                ),
            )
        return True

    def _take(self, connection: sqlite3.Connection, event: Taken) -> None:
        row = connection.execute(
            "SELECT number, seq FROM stream WHERE stream_id = ?", (event.stream_id,)
        ).fetchone()
        number, reached = row if row is not None else (self._begin(connection, event.stream_id), 0)
        if event.sequence <= reached:
            return
        gone = _erased(
            connection, [event.stream_id, *(p.key_id for p in event.parts if p.key_id is not None)]
        )
        parts = [part for part in event.parts if event.stream_id not in gone and part.key_id not in gone]
        for part in parts:
            made = connection.execute(
                "INSERT INTO doc (stream, seq, part, key_id) VALUES (?, ?, ?, ?)",
                (number, event.sequence, part.part, part.key_id),
            )
            connection.execute(
                "INSERT INTO words (rowid, body) VALUES (?, ?)", (made.lastrowid, body_of(number, part.text))
            )
        connection.execute(
            "UPDATE stream SET seq = ?, cut = cut + ?, unread = unread + ?, holes = holes + ? WHERE number = ?",
            (
                event.sequence,
                sum(part.cut for part in parts),
                event.unread,
                event.sequence - reached - 1,
                number,
            ),
        )

    def _begin(self, connection: sqlite3.Connection, stream_id: str) -> int:
        made = connection.execute(
            "INSERT INTO stream (stream_id, tenant, seq) VALUES (?, ?, 0)", (stream_id, self.tenant)
        )
        assert made.lastrowid is not None, "an INSERT has a row id"
        return made.lastrowid

    def merge(self) -> Iterator[None]:
        """Make one of the pieces that many batches left of the list of words, a bounded step at a time.

        Others may read and write between two steps, and it may be stopped after any.
        """
        pages = -MERGE_PAGES  # the first step takes in all pieces, whatever their sizes
        while True:
            with self.file.writing() as connection:
                before = connection.total_changes
                connection.execute("INSERT INTO words (words, rank) VALUES ('merge', ?)", (pages,))
                if connection.total_changes - before < 2:
                    return
            yield
            pages = MERGE_PAGES

    # ---- what an answer rests on ----

    def shortfall(self, stream_id: str | None) -> Shortfall:
        """What is missing of one conversation; of all of the tenant (None) 1 where anything is, however many there are."""
        with self.file.using() as connection:
            if stream_id is None:
                some = ", ".join(
                    f"EXISTS (SELECT 1 FROM stream WHERE tenant = :tenant AND {gap} > 0)"  # noqa: S608 - three names
                    for gap in GAPS
                )
                row = connection.execute(f"SELECT {some}", {"tenant": self.tenant}).fetchone()
            else:
                row = connection.execute(
                    "SELECT total(cut), total(unread), total(holes) FROM stream WHERE stream_id = ?",
                    (stream_id,),
                ).fetchone()
        return Shortfall(*map(int, row))

    # ---- out ----

    def erase(self, streams: Iterable[str] = (), keys: Iterable[str] = ()) -> int:
        """Take out conversations, and parts under these keys wherever they stand; how many rows of words went.

        What another process had read before is not put in afterwards. May be repeated; when it returns, no file of the
        index holds a byte of what went. Raises ``StoreBusy`` where that could not be reached: repeat it then.
        """
        gone = 0
        named_streams, named_keys = sorted(set(streams)), sorted(set(keys))
        with self.file.writing() as connection:
            marks = [(one,) for one in (*named_streams, *named_keys)]
            connection.executemany("INSERT OR IGNORE INTO erased (id) VALUES (?)", marks)
        for stream_id in named_streams:
            gone += self._delete("stream = (SELECT number FROM stream WHERE stream_id = ?)", stream_id)
        for key_id in named_keys:
            gone += self._delete("key_id = ?", key_id)
        self.file.shrink()
        return gone

    def _delete(self, where: str, value: str) -> int:
        gone = 0
        while True:
            with self.file.writing() as connection:
                rows = connection.execute(
                    f"SELECT id FROM doc WHERE {where} LIMIT ?",  # noqa: S608 - one of two conditions above
                    (value, DELETED_PER_BATCH),
                ).fetchall()
                connection.executemany("DELETE FROM words WHERE rowid = ?", rows)
                connection.executemany("DELETE FROM doc WHERE id = ?", rows)
            gone += len(rows)
            if len(rows) < DELETED_PER_BATCH:
                return gone


def _erased(connection: sqlite3.Connection, ids: Sequence[str]) -> set[str | None]:
    marks = ", ".join("?" * len(ids))
    rows = connection.execute(f"SELECT id FROM erased WHERE id IN ({marks})", tuple(ids))  # noqa: S608 - marks alone
    return {row[0] for row in rows}
