"""Database roles: what each may do to a ledger, granted by the database itself and told to people (DESIGN 9).

They are group roles without a login. A login is made a member of one, and admitted to the tenants it works for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import psycopg
from msgspec import Struct

from counterfoil.adapters.postgres.connect import (
    BoundedConnection,
    Patience,
    close_quietly,
    connect,
    fetch,
    run,
)
from counterfoil.adapters.postgres.faults import translate
from counterfoil.adapters.postgres.migrate import all_present, alone, check_schema
from counterfoil.adapters.postgres.place import PostgresPlace, parse_place
from counterfoil.adapters.postgres.schema import quoted

READ: Final = "read every header, record and row of its tenants, and verify them"
APPEND: Final = "append events to streams that exist, with their rows"
BEGIN: Final = "begin new streams"
CLAIM: Final = "claim, renew and release leases"
KEYS_READ: Final = (
    "read wrapped data keys (opening them takes the key-encryption key, which is not in the database)"
)
KEYS_MAKE: Final = "make data keys, and take one back within a minute"
KEYS_CHANGE: Final = "re-wrap and destroy data keys"
REMOVE: Final = "remove records and whole streams through the audited functions"

ABILITIES: Final[dict[str, tuple[str, ...]]] = {
    "worker": (READ, BEGIN, APPEND, CLAIM, KEYS_READ, KEYS_MAKE),
    "recovery": (READ, APPEND, CLAIM, KEYS_READ),
    "operator": (READ, BEGIN, APPEND, KEYS_READ, KEYS_MAKE),
    "auditor": (READ,),
    "retention": (READ, BEGIN, APPEND, REMOVE, KEYS_READ, KEYS_MAKE),
    "security": (READ, BEGIN, APPEND, KEYS_READ, KEYS_MAKE, KEYS_CHANGE),
}
"""What each role may do; everything else the database refuses."""

# `{s}` is the ledger's schema, `{k}` the key store's, `{role}` who is granted.
_GRANTS: Final[Mapping[str, tuple[str, ...]]] = {
    READ: (
        "GRANT USAGE ON SCHEMA {s} TO {role}",
        "GRANT SELECT ON {s}.meta, {s}.stream, {s}.head, {s}.event, {s}.event_content, {s}.checkpoint,"
        " {s}.row_table, {s}.permit TO {role}",
    ),
    APPEND: (
        "GRANT INSERT ON {s}.event, {s}.event_content TO {role}",
        "GRANT UPDATE (seq, hash) ON {s}.head TO {role}",
        "GRANT INSERT, UPDATE ON {s}.checkpoint TO {role}",
    ),
    BEGIN: ("GRANT INSERT ON {s}.stream, {s}.head TO {role}",),
    CLAIM: ("GRANT UPDATE (token, lease_owner, lease_until) ON {s}.head TO {role}",),
    REMOVE: (
        "GRANT EXECUTE ON FUNCTION {s}.remove_content(text, bigint[], smallint[], text) TO {role}",
        "GRANT EXECUTE ON FUNCTION {s}.remove_stream(text, text) TO {role}",
    ),
    KEYS_READ: (
        "GRANT USAGE ON SCHEMA {k} TO {role}",
        "GRANT SELECT ON ALL TABLES IN SCHEMA {k} TO {role}",
    ),
    # A lock on an epoch's row takes the right to change something of it: a column that means nothing.
    KEYS_MAKE: (
        "GRANT INSERT ON {k}.epoch, {k}.data_key, {k}.subject TO {role}",
        "GRANT UPDATE (held) ON {k}.epoch TO {role}",
        "GRANT DELETE ON {k}.data_key, {k}.subject TO {role}",
    ),
    KEYS_CHANGE: ("GRANT UPDATE, DELETE ON {k}.epoch, {k}.data_key, {k}.subject TO {role}",),
}

_ROW_GRANTS: Final = {READ: "SELECT", APPEND: "INSERT, UPDATE, DELETE"}


class Role(Struct, frozen=True):
    """One role: its name in the database, and what it may do in words."""

    name: str
    may: tuple[str, ...]


def roles_of(schema: str) -> list[Role]:
    """The roles of a ledger, whether or not they have been made."""
    return [Role(f"{schema}_{name}", abilities) for name, abilities in ABILITIES.items()]


def make_roles_at(place: str | PostgresPlace) -> list[Role]:
    """:func:`make_roles` with a connection of its own; errors are ours."""
    place = parse_place(place) if isinstance(place, str) else place
    patience = Patience(place.wait_s, place.answer_s)
    try:
        connection = connect(place, give_up_at=patience.call(), writable=True, patience=patience)
        try:
            return make_roles(connection, place)
        finally:
            close_quietly(connection)
    except psycopg.Error as error:
        raise translate(error, place.shown, "make the roles of") from error


def make_roles(connection: BoundedConnection, place: PostgresPlace) -> list[Role]:
    """Make the roles where they are not there and grant what each may do; again changes nothing.

    Takes the owner of the ledger with the right to create roles. Raises psycopg errors as they are.
    """
    check_schema(connection, place)
    made = roles_of(place.schema)
    with alone(connection, place):
        for role in made:
            if not fetch(connection, "SELECT 1 FROM pg_roles WHERE rolname = %s", (role.name,)):
                run(connection, f'CREATE ROLE "{role.name}" NOLOGIN')
            for ability in role.may:
                for statement in _GRANTS[ability]:
                    run(connection, _named(statement, place, role.name))
        for table in sorted(all_present(connection, place.schema)):
            if table.startswith("row_") and table != "row_table":
                grant_rows(connection, place.schema, table)
    return made


def grant_rows(connection: BoundedConnection, schema: str, table: str) -> None:
    """Grant the rights on one row table to those roles that have been made."""
    there = {
        name
        for (name,) in fetch(
            connection,
            "SELECT rolname FROM pg_roles WHERE rolname = ANY(%s)",
            ([role.name for role in roles_of(schema)],),
        )
    }
    for role in roles_of(schema):
        for ability in role.may if role.name in there else ():
            rights = _ROW_GRANTS.get(ability)
            if rights is not None:
                run(connection, f'GRANT {rights} ON {quoted(schema)}."{table}" TO "{role.name}"')


def _named(statement: str, place: PostgresPlace, role: str) -> str:
    return statement.format(s=quoted(place.schema), k=quoted(place.keys_schema), role=f'"{role}"')
