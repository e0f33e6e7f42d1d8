"""PostgresKeyStore: wrapped data keys in a schema beside the ledger's, with grants of its own (FORMAT 12)."""

from __future__ import annotations

import os
import secrets
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import psycopg

from counterfoil.abc.keys import KeyRow, SubjectRow
from counterfoil.adapters.postgres.connect import (
    BEGIN,
    BoundedConnection,
    Params,
    Patience,
    fetch,
    run,
    run_all,
)
from counterfoil.adapters.postgres.keyschema import SCHEMA, TABLES, creation
from counterfoil.adapters.postgres.migrate import all_present, alone, present
from counterfoil.adapters.postgres.place import PostgresPlace, parse_place
from counterfoil.adapters.postgres.readers import Readers
from counterfoil.adapters.postgres.schema import quoted
from counterfoil.adapters.postgres.transaction import LOCK_SHARE
from counterfoil.errors import (
    AppendTimeout,
    EpochMoved,
    InternalError,
    KeyStoreMissing,
    SchemaTooNew,
    SchemaUnknown,
)

CONNECTIONS_MAX: Final = 4

ADD_KEY: Final = (
    'INSERT INTO {k}.data_key (key_id, stream_id, kek_id, wrapped, "check") VALUES (%s, %s, %s, %s, %s)'
)
ADD_LINK: Final = "INSERT INTO {k}.subject (key_id, kek_id, lookup, box) VALUES (%s, %s, %s, %s)"

LINKING: Final = "SELECT pg_advisory_xact_lock(hashtextextended('counterfoil subject ' || %s, 0))"
"""Held to the end of a transaction that links a subject, by one at a time for each lookup."""

T = TypeVar("T")

_KEY: Final = 'SELECT key_id, stream_id, kek_id, wrapped, "check" FROM {k}.data_key'
_LINK: Final = "SELECT key_id, kek_id, lookup, box FROM {k}.subject"

UNDER_WAY: Final = "pg_advisory_xact_lock_shared(hashtextextended('counterfoil keys ' || %s, 0))"
_OVER: Final = "pg_advisory_xact_lock(hashtextextended('counterfoil keys ' || %s, 0))"
"""Held by every transaction that writes keys, together; taken alone by whoever must know that none is under way."""


class PostgresKeyStore:
    """A ``KeyStore`` in a schema. ``create`` makes it when it is not there; otherwise that is ``KeyStoreMissing``.

    A destroyed row stays in dead tuples until vacuum, in the log and in backups, wrapped under a key-encryption key
    that erasure destroys next (FORMAT 12). After a fork the child opens connections of its own.
    """

    def __init__(
        self,
        place: str | PostgresPlace,
        *,
        create: bool = False,
        read_only: bool = False,
    ) -> None:
        self._place = parse_place(place) if isinstance(place, str) else place
        self._patience = Patience(self._place.wait_s, self._place.answer_s)
        self._writable = not read_only
        self._pool = self._new_pool()
        _open.add(self)
        try:
            self._store_id = self._begin(create=create and not read_only)
        except BaseException:
            self.close()
            raise

    @property
    def store_id(self) -> str:
        """See ``KeyStore.store_id``."""
        return self._store_id

    def epochs(self) -> Mapping[str, str]:
        """See ``KeyStore.epochs``: of the tenants that this login sees."""
        return dict(self._rows("SELECT tenant, kek_id FROM {k}.epoch"))

    def get(self, key_id: str) -> KeyRow | None:
        """See ``KeyStore.get``."""
        return _first(self._keys(f"{_KEY} WHERE key_id = %s", (key_id,)))

    def of_stream(self, stream_id: str) -> list[KeyRow]:
        """See ``KeyStore.of_stream``."""
        return self._keys(f"{_KEY} WHERE stream_id = %s ORDER BY key_id", (stream_id,))

    def find_subject(self, lookup: bytes, stream_id: str) -> KeyRow | None:
        """See ``KeyStore.find_subject``."""
        return _first(
            self._keys(
                'SELECT d.key_id, d.stream_id, d.kek_id, d.wrapped, d."check" FROM {k}.subject AS s'
                " JOIN {k}.data_key AS d ON d.key_id = s.key_id"
                " WHERE s.lookup = %s AND d.stream_id = %s ORDER BY s.position LIMIT 1",
                (lookup, stream_id),
            )
        )

    def subjects_of(self, key_id: str) -> list[SubjectRow]:
        """See ``KeyStore.subjects_of``."""
        rows = self._rows(f"{_LINK} WHERE key_id = %s ORDER BY position", (key_id,))
        return [SubjectRow(*row) for row in rows]

    def scan(self, after: str = "", limit: int = 1000) -> list[KeyRow]:
        """See ``KeyStore.scan``."""
        return self._keys(f"{_KEY} WHERE key_id > %s ORDER BY key_id LIMIT %s", (after, limit))

    def scan_subjects(self, after: int = 0, limit: int = 1000) -> list[tuple[int, SubjectRow]]:
        """See ``KeyStore.scan_subjects``."""
        rows = self._rows(
            "SELECT position, key_id, kek_id, lookup, box FROM {k}.subject WHERE position > %s"
            " ORDER BY position LIMIT %s",
            (after, limit),
        )
        return [(position, SubjectRow(*link)) for position, *link in rows]

    def put(self, keys: Sequence[KeyRow], subjects: Sequence[SubjectRow] = ()) -> None:
        """See ``KeyStore.put``. Of two who put the first link of one subject, the order of positions decides."""

        def work(connection: BoundedConnection) -> None:
            self._check_current(connection, {key.kek_id for key in keys} | {link.kek_id for link in subjects})
            with connection.pipeline():
                for key in keys:
                    run(
                        connection,
                        self._sql(ADD_KEY),
                        (key.key_id, key.stream_id, key.kek_id, key.wrapped, key.check),
                    )
                # One after the other for one subject: whose link has the smaller position was then also committed first,
                # and whoever comes second sees it. Otherwise each of two would find itself the first.
                for lookup in sorted({link.lookup for link in subjects}):
                    run(connection, LINKING, (f"{self._place.keys_schema} {lookup.hex()}",))
                for link in subjects:
                    run(connection, self._sql(ADD_LINK), (link.key_id, link.kek_id, link.lookup, link.box))

        def landed() -> bool:
            return all(self.get(key.key_id) == key for key in keys) and all(
                link in self.subjects_of(link.key_id) for link in subjects
            )

        try:
            self._write(work, landed)
        except psycopg.IntegrityError as error:
            raise InternalError(
                f"keys {[key.key_id for key in keys]} exist already, or a subject is linked to no key"
            ) from error

    def replace(
        self, tenant: str, epoch: str, keys: Iterable[KeyRow], subjects: Iterable[SubjectRow]
    ) -> None:
        """See ``KeyStore.replace``."""
        renewed = list(keys)
        links: dict[str, list[SubjectRow]] = {}
        for link in subjects:
            links.setdefault(link.key_id, []).append(link)

        def work(connection: BoundedConnection) -> None:
            # Whoever puts keys holds the epoch's row, so none can be put under the former one meanwhile.
            sql = "SELECT kek_id FROM {k}.epoch WHERE tenant = %s FOR UPDATE"
            found = fetch(connection, self._sql(sql), (tenant,))
            former = found[0][0] if found else ""
            if epoch <= former:
                raise EpochMoved(
                    f"the epoch of {tenant} is {former} by now, and never goes back to {epoch}", kek_id=former
                )
            sql = "UPDATE {k}.epoch SET kek_id = %s WHERE tenant = %s"
            if not found:
                sql = "INSERT INTO {k}.epoch (kek_id, tenant) VALUES (%s, %s) ON CONFLICT (tenant) DO NOTHING"
            if not run(connection, self._sql(sql), (epoch, tenant)).rowcount:
                raise EpochMoved(f"tenant {tenant} was given its first epoch by somebody else", kek_id=epoch)
            for key in renewed:
                self._rewrap(connection, key, links.get(key.key_id, []))
            sql = "SELECT 1 FROM {k}.data_key WHERE kek_id = %s LIMIT 1"
            if former and fetch(connection, self._sql(sql), (former,)):
                raise EpochMoved(f"keys were added under {former} while it was replaced", kek_id=former)

        try:
            self._write(work, lambda: self.epochs().get(tenant) == epoch)
        except psycopg.errors.UniqueViolation as error:
            raise EpochMoved(f"{epoch} serves another tenant already", kek_id=epoch) from error

    def delete(self, key_ids: Iterable[str]) -> int:
        """See ``KeyStore.delete``."""
        doomed = list(dict.fromkeys(key_ids))

        def work(connection: BoundedConnection) -> int:
            run(connection, self._sql("DELETE FROM {k}.subject WHERE key_id = ANY(%s::text[])"), (doomed,))
            sql = "DELETE FROM {k}.data_key WHERE key_id = ANY(%s::text[])"
            return run(connection, self._sql(sql), (doomed,)).rowcount

        return self._write(work, lambda: not any(self.get(key_id) for key_id in doomed)) if doomed else 0

    def close(self) -> None:
        """See ``KeyStore.close``."""
        self._pool.close()

    # ---- inside --------------------------------------------------------------------------------------------------

    def _new_pool(self) -> Readers:
        return Readers(
            self._place,
            self._patience,
            writable=self._writable,
            connections_max=CONNECTIONS_MAX,
            what="key store",
        )

    def _sql(self, statement: str) -> str:
        return statement.format(k=quoted(self._place.keys_schema))

    def _rows(self, statement: str, params: Params = ()) -> list[tuple[Any, ...]]:
        sql = self._sql(statement)
        return self._pool.ask(lambda connection: fetch(connection, sql, params))

    def _keys(self, statement: str, params: Params) -> list[KeyRow]:
        return [KeyRow(*row) for row in self._rows(statement, params)]

    def _write(self, work: Callable[[BoundedConnection], T], landed: Callable[[], bool]) -> T:
        """Run ``work`` in one transaction; where its commit's answer was lost, ``landed`` tells what became of it."""
        answers: list[T] = []
        lock_ms = str(int(self._patience.answer_s * 1000 * LOCK_SHARE))

        def once(connection: BoundedConnection) -> T:
            answers.clear()
            try:
                with connection.pipeline():
                    run(connection, BEGIN)
                    run(connection, "SELECT set_config('lock_timeout', %s, true)", (lock_ms,))
                    run(connection, f"SELECT {UNDER_WAY}", (self._place.keys_schema,))
                answer = work(connection)
            except BaseException:
                if not connection.closed:
                    run(connection, "ROLLBACK")
                raise
            answers.append(answer)
            try:
                run(connection, "COMMIT")
            except psycopg.Error:
                if not connection.closed:
                    answers.clear()  # the server says itself that nothing was kept
                raise
            return answer

        try:
            return self._pool.change(once, lambda: bool(answers))
        except AppendTimeout:
            if answers and self._none_under_way() and landed():
                return answers[0]
            raise

    def _none_under_way(self) -> bool:
        """Wait until every transaction that was being committed is over; one of them may be the one in doubt."""
        self._rows(f"SELECT 1 FROM {_OVER}", (self._place.keys_schema,))
        return True

    def _begin(self, *, create: bool) -> str:
        """Make the tables if told to, check that they are ours, and return the store's id."""
        with self._pool.translated() as connection:
            connection.give_up_at = self._patience.long()
            if create and not present(connection, self._place.keys_schema, ("meta",)):
                with alone(connection, self._place):
                    make_key_store(connection, self._place)
            return self._check(connection)

    def _check(self, connection: BoundedConnection) -> str:
        there, shown = present(connection, self._place.keys_schema, TABLES), self._place.shown
        if not there and not all_present(connection, self._place.keys_schema):
            raise KeyStoreMissing(
                f"the key store of {shown} is not there: no schema {self._place.keys_schema}",
                hint=f"restore the schema {self._place.keys_schema} from its own backup",
                place=shown,
            )
        if set(TABLES) - there:
            raise SchemaUnknown(
                f"the key store of {shown} is half made or something else", hint="restore its last backup"
            )
        meta = dict(fetch(connection, self._sql("SELECT name, value FROM {k}.meta")))
        schema, store_id = meta.get("schema", ""), meta.get("store_id", "")
        if not schema.isdigit() or not store_id:
            raise SchemaUnknown(f"the key store of {shown} has lost its id", hint="restore its last backup")
        if int(schema) > SCHEMA:
            raise SchemaTooNew(f"the key store of {shown} has schema {schema}; this version knows {SCHEMA}")
        return str(store_id)

    def _check_current(self, connection: BoundedConnection, kek_ids: set[str]) -> None:
        wanted = sorted(kek_ids - {""})
        if not wanted:
            return
        sql = "SELECT kek_id FROM {k}.epoch WHERE kek_id = ANY(%s::text[]) ORDER BY kek_id FOR SHARE"
        stale = set(wanted) - {kek_id for (kek_id,) in fetch(connection, self._sql(sql), (wanted,))}
        if stale:
            kek_id = min(stale)
            raise EpochMoved(f"{kek_id} is not the current key-encryption key of any tenant", kek_id=kek_id)

    def _rewrap(self, connection: BoundedConnection, key: KeyRow, links: list[SubjectRow]) -> None:
        """Re-wrap one key and its links where it still is; a key destroyed meanwhile is not brought back."""
        sql = "UPDATE {k}.data_key SET kek_id = %s, wrapped = %s WHERE key_id = %s"
        if run(connection, self._sql(sql), (key.kek_id, key.wrapped, key.key_id)).rowcount == 0:
            return
        sql = "SELECT position FROM {k}.subject WHERE key_id = %s ORDER BY position"
        places = [position for (position,) in fetch(connection, self._sql(sql), (key.key_id,))]
        if len(places) != len(links):
            raise EpochMoved(
                f"a subject was linked to {key.key_id} while it was re-wrapped", key_id=key.key_id
            )
        for place, link in zip(places, links, strict=True):
            sql = "UPDATE {k}.subject SET kek_id = %s, lookup = %s, box = %s WHERE position = %s"
            run(connection, self._sql(sql), (link.kek_id, link.lookup, link.box, place))

    def _after_fork(self) -> None:
        _of_the_parent.append(self._pool.abandon())
        self._pool = self._new_pool()


def make_key_store(connection: BoundedConnection, place: PostgresPlace) -> None:
    """Make an empty key store, unless there is one; inside the caller's transaction, after the ledger's schema."""
    if present(connection, place.keys_schema, ("meta",)):
        return
    if all_present(connection, place.keys_schema):
        raise SchemaUnknown(
            f"the schema {place.keys_schema} holds tables of something else",
            hint="name another schema: ?schema=NAME",
        )
    run_all(connection, creation(place))
    for name, value in (("schema", str(SCHEMA)), ("store_id", secrets.token_hex(16))):
        run(connection, f"INSERT INTO {quoted(place.keys_schema)}.meta VALUES (%s, %s)", (name, value))


_open: weakref.WeakSet[PostgresKeyStore] = weakref.WeakSet()
_of_the_parent: list[object] = []
"""Connections that came into this process by fork. Closing one here would end the parent's session."""


def _after_fork_in_child() -> None:
    for store in list(_open):
        store._after_fork()  # noqa: SLF001 - the same module


os.register_at_fork(after_in_child=_after_fork_in_child)


def _first(rows: list[KeyRow]) -> KeyRow | None:
    return rows[0] if rows else None
