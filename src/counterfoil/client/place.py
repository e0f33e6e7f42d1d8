"""Where a ledger lies: finding or making its store, its key store and its key-encryption keys (DESIGN 4, FORMAT 12)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from counterfoil.abc import ArtifactStore, Clock, Ids, KeyProvider, KeyStore
from counterfoil.artifacts.given_paths import given_path
from counterfoil.client.lost import holds_keys, is_blank, refuse_emptied, refuse_lost
from counterfoil.errors import InputError, KeyStoreMissing, LedgerLost, LedgerNotFound
from counterfoil.store.contract import Store
from counterfoil.store.rows import TableSpec

if TYPE_CHECKING:
    from counterfoil.client.migrating import Upgrading

MEMORY: Final = ":memory:"
"""A place that is forgotten with its handle; for tests and for trying things."""

POSTGRES_SCHEMES: Final = ("postgresql", "postgres")
"""What an address of a ledger on PostgreSQL begins with."""

KEY_STORE_NAME: Final = "keys.db"
KEK_DIRECTORY_NAME: Final = "kek"
ARTIFACTS_NAME: Final = "artifacts"


class Parts(Struct, frozen=True):
    """What a ledger is made of, opened. ``keys_missing`` says that there is no key store to open content with.

    ``artifacts`` None: nobody has said where artifacts lie.
    """

    place: str
    store: Store
    key_store: KeyStore
    provider: KeyProvider
    created: bool = False
    read_only: bool = False
    keys_missing: bool = False
    artifacts: ArtifactStore | None = None


def open_parts(
    place: str | Path,
    *,
    tables: Sequence[TableSpec],
    create: bool,
    read_only: bool,
    clock: Clock,
    ids: Ids,
    provider: KeyProvider | None = None,
    upgrading: Callable[[], Upgrading] | None = None,
) -> Parts:
    """Open what lies at ``place``; with ``create`` make it if nothing does.

    ``upgrading`` takes over a runtime store of schema 1 that lies there; without it such a file is refused. Raises
    ``LedgerNotFound``, ``LedgerLost``, the StoreErrors of the adapter, or ``InputError`` for a place of a kind that this
    version does not know.
    """
    if str(place) == MEMORY:
        return _memory(tables, clock, ids, provider)
    text = str(place)
    scheme, there, _ = text.partition("://")
    if there and scheme in POSTGRES_SCHEMES:
        from counterfoil.client.postgres import open_on_postgres

        return open_on_postgres(text, tables, create and not read_only, read_only, clock, ids, provider)
    if there:
        raise InputError(
            f"{scheme}:// places are not in this version of Counterfoil",
            hint="open a directory on a local disk, or postgresql://USER@HOST/DATABASE",
        )
    directory = given_path(place, "place")
    if upgrading is not None and not read_only:
        _take_over(directory, tables, clock, ids, provider, upgrading)
    return _directory(directory, tables, create and not read_only, read_only, clock, ids, provider)


def _take_over(
    directory: Path,
    tables: Sequence[TableSpec],
    clock: Clock,
    ids: Ids,
    provider: KeyProvider | None,
    upgrading: Callable[[], Upgrading],
) -> None:
    """Make a ledger of a runtime store of schema 1; nothing where there is none. May be killed and run again."""
    from counterfoil.adapters.sqlite import DATABASE_NAME, open_sqlite
    from counterfoil.adapters.sqlite.keystore import SqliteKeyStore
    from counterfoil.adapters.sqlite.migrate import says_runtime_store
    from counterfoil.keys.file_provider import FileKeyProvider

    database = directory / DATABASE_NAME
    if is_blank(database) or not says_runtime_store(database):
        return
    key_store = SqliteKeyStore(directory / KEY_STORE_NAME, create=True)
    try:
        due = upgrading()
        keys = provider or FileKeyProvider(directory / KEK_DIRECTORY_NAME, ids)
        artifacts = due.artifacts or files_in(directory / ARTIFACTS_NAME, read_only=False)
        takeover = due.takeover(key_store, keys, artifacts, clock, ids)
        open_sqlite(directory, tables=tables, clock=clock, takeover=takeover).close()
    finally:
        key_store.close()


def open_without_keys(place: str | Path, *, tables: Sequence[TableSpec], clock: Clock, ids: Ids) -> Parts:
    """The ledger alone in a directory, for reading, whatever became of its key store."""
    from counterfoil.adapters.sqlite import open_sqlite
    from counterfoil.keys.file_provider import FileKeyProvider

    directory = given_path(place, "place")
    return Parts(
        str(directory),
        open_sqlite(directory, tables=tables, read_only=True, clock=clock),
        _absent(directory / KEY_STORE_NAME),
        FileKeyProvider(directory / KEK_DIRECTORY_NAME, ids),
        read_only=True,
        keys_missing=True,
        artifacts=files_in(directory / ARTIFACTS_NAME, read_only=True),
    )


def files_in(directory: Path, *, read_only: bool) -> ArtifactStore:
    """Artifacts as files in a directory, which is made with the first of them."""
    from counterfoil.adapters.filesystem.artifacts import FileArtifacts

    return FileArtifacts(directory, read_only=read_only)


def place_of(given: str | Path | ArtifactStore, *, read_only: bool) -> ArtifactStore:
    """The store that ``counterfoil.open(…, artifacts=…)`` names: a directory, or one of the application's own."""
    if isinstance(given, str | Path):
        return files_in(given_path(given, "artifacts"), read_only=read_only)
    return given


def _memory(tables: Sequence[TableSpec], clock: Clock, ids: Ids, provider: KeyProvider | None) -> Parts:
    from counterfoil.adapters.memory import MemoryArtifacts, MemoryKeyStore, MemoryStore
    from counterfoil.client.passing import PassingKeyProvider

    store = MemoryStore(ids.new("ldg"), tables, clock)
    keys = provider or PassingKeyProvider(ids)
    return Parts(MEMORY, store, MemoryKeyStore(), keys, created=True, artifacts=MemoryArtifacts())


def _directory(
    directory: Path,
    tables: Sequence[TableSpec],
    create: bool,
    read_only: bool,
    clock: Clock,
    ids: Ids,
    provider: KeyProvider | None,
) -> Parts:
    from counterfoil.adapters.filesystem.place import check_place, make_directory
    from counterfoil.adapters.sqlite import DATABASE_NAME
    from counterfoil.keys.file_provider import FileKeyProvider

    refuse_lost(directory / DATABASE_NAME, directory / KEY_STORE_NAME, directory / KEK_DIRECTORY_NAME, ids)
    fresh = create and is_blank(directory / DATABASE_NAME)
    if fresh:
        make_directory(directory)
        check_place(directory, write=True)
    # The key store comes first: a ledger is never seen without one, except when somebody took it away.
    key_store = _key_store(directory / KEY_STORE_NAME, create=fresh)
    keys_missing = key_store is None
    reading = read_only or keys_missing
    wanted = ids.new("ldg") if create and not holds_keys(key_store) else None
    try:
        store = _store(directory, key_store, tables, reading, wanted, clock)
    except BaseException:
        if key_store is not None:
            key_store.close()
        raise
    if keys_missing and not is_blank(directory / KEY_STORE_NAME):
        # Another process has made both since this one looked for keys.
        store.close()
        return _directory(directory, tables, create, read_only, clock, ids, provider)
    return Parts(
        str(directory),
        store,
        key_store or _absent(directory / KEY_STORE_NAME),
        provider or FileKeyProvider(directory / KEK_DIRECTORY_NAME, ids),
        created=store.ledger_id == wanted,
        read_only=reading,
        keys_missing=keys_missing,
        artifacts=files_in(directory / ARTIFACTS_NAME, read_only=reading),
    )


def _store(
    directory: Path,
    key_store: KeyStore | None,
    tables: Sequence[TableSpec],
    reading: bool,
    wanted: str | None,
    clock: Clock,
) -> Store:
    """The database, made under the id ``wanted`` if one is given. Raises ``LedgerLost`` where only keys are left."""
    from counterfoil.adapters.sqlite import open_sqlite

    try:
        store = open_sqlite(
            directory,
            tables=tables,
            create=wanted is not None,
            read_only=reading,
            ledger_id=wanted,
            clock=clock,
        )
    except LedgerNotFound as error:
        if holds_keys(key_store):
            raise LedgerLost(
                f"there is no ledger in {directory} any more, but its keys are there", path=str(directory)
            ) from error
        raise
    try:
        refuse_emptied(store, key_store, str(directory), reading=reading)
    except BaseException:
        store.close()
        raise
    return store


def _key_store(path: Path, *, create: bool) -> KeyStore | None:
    from counterfoil.adapters.sqlite.keystore import SqliteKeyStore

    try:
        return SqliteKeyStore(path, create=create)
    except KeyStoreMissing:
        return None


def _absent(path: Path) -> KeyStore:
    from counterfoil.keys.absent import AbsentKeyStore

    return AbsentKeyStore(path)
