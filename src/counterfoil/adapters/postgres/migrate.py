"""Making and checking the schema: one transaction under a lock of its own; newer, unknown and half-made are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from counterfoil.adapters.postgres.connect import BoundedConnection, fetch, run, run_all
from counterfoil.adapters.postgres.feed import OFFSET_NAME
from counterfoil.adapters.postgres.place import PostgresPlace
from counterfoil.adapters.postgres.schema import SCHEMA, TABLES, creation, quoted
from counterfoil.errors import ConfigInvalid, LedgerNotFound, SchemaTooNew, SchemaUnknown

SERVER_MIN: Final = 150_000
LOCK_NAME: Final = "counterfoil/schema/"

TABLES_OF: Final = (
    "SELECT c.relname FROM pg_class c WHERE c.relkind IN ('r', 'p')"
    " AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s)"
)
"""The tables of a schema. No index of PostgreSQL leads from a schema to its tables, one leads from names to them."""

NAMED: Final = f"{TABLES_OF} AND c.relname = ANY(%s::name[])"
"""Those of them that have these names."""


def check_server(connection: BoundedConnection, place: PostgresPlace) -> None:
    """Refuse a server that cannot keep what the contract promises."""
    ((version, encoding, fsync),) = fetch(
        connection,
        "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),"
        " current_setting('fsync')",
    )
    if version < SERVER_MIN:
        raise ConfigInvalid(
            f"{place.shown} is PostgreSQL {version // 10000}; version {SERVER_MIN // 10000} or newer is needed",
            hint="use a newer server",
        )
    if encoding != "UTF8":
        raise ConfigInvalid(
            f"the database of {place.shown} is encoded in {encoding}; UTF8 is needed",
            hint="CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
        )
    if fsync != "on":
        raise ConfigInvalid(
            f"the server of {place.shown} runs with fsync = {fsync}, so an acknowledged commit may be lost",
            hint="set fsync = on and restart the server",
        )


@contextmanager
def alone(connection: BoundedConnection, place: PostgresPlace) -> Iterator[None]:
    """One transaction that nobody else who makes or changes this schema shares; a lock of the transaction alone."""
    run(connection, "BEGIN")
    try:
        run(connection, "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (LOCK_NAME + place.schema,))
        yield
        run(connection, "COMMIT")
    except BaseException:
        if not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            run(connection, "ROLLBACK")
        raise


def make(
    connection: BoundedConnection, place: PostgresPlace, ledger_id: str, finish: Callable[[], None]
) -> None:
    """Make an empty ledger, unless there is one; ``finish`` runs in the same transaction."""
    if present(connection, place.schema, ("meta",)):
        return
    with alone(connection, place):
        if present(connection, place.schema, ("meta",)):
            return
        _refuse_foreign(connection, place)
        run_all(connection, creation(place.schema))
        for name, value in (("schema", str(SCHEMA)), ("ledger_id", ledger_id), (OFFSET_NAME, "0")):
            run(connection, f"INSERT INTO {quoted(place.schema)}.meta VALUES (%s, %s)", (name, value))
        finish()


def check_schema(connection: BoundedConnection, place: PostgresPlace) -> str:
    """The ledger's id, if this build can work with the schema.

    Raises ``LedgerNotFound``, ``SchemaTooNew`` or ``SchemaUnknown``.
    """
    there = present(connection, place.schema, TABLES)
    if not there and not all_present(connection, place.schema):
        raise LedgerNotFound(
            f"there is no ledger in {place.shown}",
            hint="make one with `counterfoil init`, or name its schema: ?schema=NAME",
            place=place.shown,
        )
    if "meta" not in there:
        raise SchemaUnknown(
            f"{place.shown} holds tables of something else", hint="name another schema", place=place.shown
        )
    meta = dict(fetch(connection, f"SELECT name, value FROM {quoted(place.schema)}.meta"))
    number = meta.get("schema", "")
    if not number.isdigit() or not meta.get("ledger_id"):
        raise SchemaUnknown(
            f"{place.shown} does not say which ledger it is",
            hint="restore the last backup",
            place=place.shown,
        )
    if int(number) > SCHEMA:
        raise SchemaTooNew(
            f"{place.shown} has schema {number}; this version of Counterfoil knows schema {SCHEMA}",
            place=place.shown,
            schema=int(number),
            known=SCHEMA,
        )
    missing = sorted(set(TABLES) - there)
    if int(number) < SCHEMA or missing:
        raise SchemaUnknown(
            f"{place.shown} says schema {number}" + (f" but lacks {', '.join(missing)}" if missing else ""),
            hint="restore the last backup",
            place=place.shown,
            missing=missing,
        )
    return str(meta["ledger_id"])


def take_over(connection: BoundedConnection, place: PostgresPlace) -> None:
    """Let the feed go on in a ledger that was restored from a dump of another server, whose transactions counted higher.

    Without this its events would stay before the horizon for as long as the other server had lived, and new ones would
    be written where every cursor has passed. Takes the ledger's owner, once.
    """
    if not _is_restored(connection, place):
        return
    with alone(connection, place):
        if not _is_restored(connection, place):
            return
        s = quoted(place.schema)
        ((offset,),) = fetch(
            connection,
            f"SELECT max(xact) + 1 - pg_current_xact_id()::text::bigint FROM {s}.event",
        )
        run(
            connection,
            f"ALTER TABLE {s}.event ALTER COLUMN xact SET DEFAULT"
            f" (pg_current_xact_id()::text::bigint + {int(offset)})",
        )
        run(connection, f"UPDATE {s}.meta SET value = %s WHERE name = %s", (str(int(offset)), OFFSET_NAME))


def _is_restored(connection: BoundedConnection, place: PostgresPlace) -> bool:
    s = quoted(place.schema)
    ((ahead,),) = fetch(
        connection,
        f"SELECT coalesce((SELECT max(xact) FROM {s}.event) >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
        f" + (SELECT value::bigint FROM {s}.meta WHERE name = '{OFFSET_NAME}'), false)",
    )
    return bool(ahead)


def present(connection: BoundedConnection, schema: str, names: Iterable[str]) -> set[str]:
    """Which of these tables a schema has; each is looked up, whatever else the database holds."""
    return {name for (name,) in fetch(connection, NAMED, (schema, sorted(names)))}


def all_present(connection: BoundedConnection, schema: str) -> set[str]:
    """The names of all tables in a schema, found by going through those of the whole database."""
    return {name for (name,) in fetch(connection, TABLES_OF, (schema,))}


def _refuse_foreign(connection: BoundedConnection, place: PostgresPlace) -> None:
    if all_present(connection, place.schema):
        raise SchemaUnknown(
            f"{place.shown} holds tables of something else, and is left as it is",
            hint="name another schema: ?schema=NAME",
            place=place.shown,
        )
