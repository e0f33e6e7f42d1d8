"""Opening a ledger on a server: the server is looked at, the schema made or checked, row tables brought up to date."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from counterfoil.abc.time import Clock
from counterfoil.adapters.postgres.clock import DatabaseClock
from counterfoil.adapters.postgres.connect import BoundedConnection, Patience
from counterfoil.adapters.postgres.engine import Engine
from counterfoil.adapters.postgres.keystore import make_key_store
from counterfoil.adapters.postgres.migrate import alone, check_schema, check_server, make, take_over
from counterfoil.adapters.postgres.place import PostgresPlace, parse_place
from counterfoil.adapters.postgres.plan import Job
from counterfoil.adapters.postgres.readers import Readers
from counterfoil.adapters.postgres.replicas import check_replicas
from counterfoil.adapters.postgres.store import PostgresStore
from counterfoil.adapters.postgres.tables import RowTables
from counterfoil.store.rows import TableSpec
from counterfoil.store.unit import Outcome
from counterfoil.store.writer import GroupWriter

_log = logging.getLogger(__name__)


def open_postgres(
    place: str | PostgresPlace,
    *,
    tables: Sequence[TableSpec] = (),
    create: bool = False,
    read_only: bool = False,
    ledger_id: str | None = None,
    keys: bool = False,
    clock: Clock | None = None,
) -> PostgresStore:
    """Open the ledger at ``place``; with ``create`` and ``ledger_id`` make it when it is not there.

    ``keys`` makes its key store in the same transaction, so that no ledger is ever seen without one.
    Raises ``LedgerNotFound``, ``ConfigInvalid``, ``NotPermitted``,
    ``SchemaTooNew``, ``SchemaUnknown`` or ``StoreIO``; nothing is left half made.
    """
    place = parse_place(place) if isinstance(place, str) else place
    patience = Patience(place.wait_s, place.answer_s)
    declared = RowTables(tables, place.schema)
    dated = DatabaseClock(None if clock is None else clock.now_ms)
    readers = Readers(place, patience, writable=not read_only, connections_max=place.connections)
    notices: tuple[str, ...] = ()
    try:
        with readers.translated() as connection:
            connection.give_up_at = patience.long()
            check_server(connection, place)
            if create and ledger_id is not None and not read_only:
                make(connection, place, ledger_id, lambda: _finish(connection, place, declared, keys=keys))
            stored = check_schema(connection, place)
            if not read_only and declared.missing(connection):
                with alone(connection, place):
                    declared.create(connection)
            if not read_only:
                notices = check_replicas(connection, place)
                take_over(connection, place)
            declared.load(connection)
            dated.measure(connection)
    except BaseException:
        readers.close()
        raise
    for notice in notices:
        _log.warning("%s", notice)
    engine = None if read_only else Engine(place, declared, dated, patience)
    writer: GroupWriter[Job] = GroupWriter(engine or _NoEngine(), wait_s=patience.wait_s)
    return PostgresStore(
        place,
        ledger_id=stored,
        tables=declared,
        readers=readers,
        clock=dated,
        writer=writer,
        engine=engine,
        notices=notices,
    )


def _finish(connection: BoundedConnection, place: PostgresPlace, tables: RowTables, *, keys: bool) -> None:
    tables.create(connection)
    if keys:
        make_key_store(connection, place)


class _NoEngine:
    """What a reading handle's writer would commit with; nothing ever reaches it."""

    def commit(self, batch: Sequence[Job]) -> list[Outcome]:
        raise AssertionError(f"a handle opened for reading was given {len(batch)} jobs")
