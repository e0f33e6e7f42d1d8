"""A ledger on a PostgreSQL server: its store, its key store, and key-encryption keys that lie elsewhere (DESIGN 4)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from counterfoil.abc import Clock, Ids, KeyProvider, KeyStore
from counterfoil.client.clock import SystemClock
from counterfoil.client.lost import holds_keys
from counterfoil.client.place import KEK_DIRECTORY_NAME, Parts
from counterfoil.errors import InputError, KeyStoreMissing, LedgerLost, LedgerNotFound, NotPermitted
from counterfoil.store.contract import Store
from counterfoil.store.rows import TableSpec

if TYPE_CHECKING:
    from counterfoil.adapters.postgres import PostgresPlace

HOME: Final = ".counterfoil"
"""In the home directory: where key-encryption keys lie when neither the address nor the environment says."""


def open_on_postgres(
    text: str,
    tables: Sequence[TableSpec],
    create: bool,
    read_only: bool,
    clock: Clock,
    ids: Ids,
    provider: KeyProvider | None,
) -> Parts:
    """See ``client.place.open_parts``. A login that may not read keys opens headers only, as if there were none."""
    try:
        from counterfoil.adapters.postgres import open_postgres, parse_place
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "psycopg":
            raise
        raise InputError(
            "ledgers on PostgreSQL need the package psycopg", hint="pip install 'counterfoil[postgres]'"
        ) from error
    where = parse_place(text)
    # The database's clock dates what many machines record; a clock moved by hand is somebody's wish.
    dated = None if isinstance(clock, SystemClock) else clock
    wanted = ids.new("ldg") if create else None
    store = _store(where, tables, wanted, dated, read_only=read_only)
    created = store.ledger_id == wanted
    try:
        key_store = _key_store(where, read_only=read_only)
        if key_store is None and not read_only:
            store.close()
            store = open_postgres(where, tables=tables, read_only=True, clock=dated)
        provider = provider or _provider(where.kek, store.ledger_id, ids)
    except BaseException:
        store.close()
        raise
    return Parts(
        where.shown,
        store,
        key_store or _absent(where),
        provider,
        created=created,
        read_only=read_only or key_store is None,
        keys_missing=key_store is None,
    )


def _store(
    where: PostgresPlace,
    tables: Sequence[TableSpec],
    wanted: str | None,
    clock: Clock | None,
    *,
    read_only: bool,
) -> Store:
    """The ledger, made under the id ``wanted`` if one is given. Raises ``LedgerLost`` where only its keys are left."""
    from counterfoil.adapters.postgres import open_postgres

    try:
        return open_postgres(where, tables=tables, read_only=read_only, clock=clock)
    except LedgerNotFound:
        kept = _holds_keys(where)
        if wanted is None and not kept:
            raise
    try:
        # Keys are made after the ledger: where there are some, somebody has just made it, or it was lost.
        return open_postgres(
            where,
            tables=tables,
            create=not kept,
            read_only=read_only,
            ledger_id=wanted,
            keys=True,
            clock=clock,
        )
    except LedgerNotFound as error:
        raise LedgerLost(
            f"there is no ledger in {where.shown} any more, but the keys in schema {where.keys_schema} are there",
            hint="restore the backup of the ledger's schema, or move the schema of its keys away to begin anew",
            place=where.shown,
        ) from error


def _holds_keys(where: PostgresPlace) -> bool:
    key_store = _key_store(where, read_only=True)
    if key_store is None:
        return False
    try:
        return holds_keys(key_store)
    finally:
        key_store.close()


def _key_store(where: PostgresPlace, *, read_only: bool) -> KeyStore | None:
    from counterfoil.adapters.postgres import PostgresKeyStore

    try:
        return PostgresKeyStore(where, read_only=read_only)
    except (KeyStoreMissing, NotPermitted):
        return None


def _absent(where: PostgresPlace) -> KeyStore:
    from counterfoil.keys.absent import AbsentKeyStore

    return AbsentKeyStore(Path(where.keys_schema))


def _provider(directory: str | None, ledger_id: str, ids: Ids) -> KeyProvider:
    """Key-encryption keys in the directory that the address names, the environment, else this user's own files.

    None of them lies beside the data, so copies of the database hold no key (FORMAT 12).
    """
    from counterfoil.keys.environment import VARIABLE, EnvironmentKeyProvider
    from counterfoil.keys.file_provider import DIRECTORY_MODE, FileKeyProvider

    if directory is None and os.environ.get(VARIABLE):
        return EnvironmentKeyProvider()
    named = Path(directory).expanduser() if directory else Path.home() / HOME / ledger_id / KEK_DIRECTORY_NAME
    named.parent.mkdir(parents=True, exist_ok=True, mode=DIRECTORY_MODE)
    return FileKeyProvider(named, ids, arrangement="covered")
