"""Errors of the storage; each says whether to try again."""

from __future__ import annotations

from counterfoil.errors.base import StoreError


class StoreClosed(StoreError):
    """The handle is closed."""

    code = "store_closed"


class StoreBusy(StoreError):
    """Another process holds the store longer than the deadline."""

    code = "store_busy"
    retryable = True
    default_hint = "try again; if it stays, see which process holds the ledger"


class StoreFull(StoreError):
    """No space is left on the device. Nothing of the append was recorded, or it was looked up and found absent."""

    code = "store_full"
    retryable = True
    default_hint = (
        "free space, then run the same code again; an append is handed over again with the same event ids"
    )


class StoreIO(StoreError):
    """The device or the network answered with an input/output error."""

    code = "store_io"
    retryable = True


class StoreReadOnly(StoreError):
    """The ledger or its directory cannot be written."""

    code = "store_read_only"


class StoreCorrupt(StoreError):
    """The database file is damaged below the level of records."""

    code = "store_corrupt"
    default_hint = "keep the files and restore the last backup"


class SchemaTooNew(StoreError):
    """The ledger was written by a newer Counterfoil."""

    code = "schema_too_new"
    default_hint = "use the version that wrote it, or a newer one"


class SchemaUnknown(StoreError):
    """The database is not a ledger, or its schema is half made."""

    code = "schema_unknown"


class NetworkFileSystem(StoreError):
    """The directory lies on a network file system, where locks and fsync cannot be trusted."""

    code = "network_file_system"
    default_hint = "use a local disk, or PostgreSQL for many machines"


class HandleForked(StoreError):
    """The handle was opened in a parent process."""

    code = "handle_forked"
    default_hint = "open the ledger again in the child"


class QueueFull(StoreError):
    """Writers are faster than the disk: the bounded queue stayed full until the deadline."""

    code = "queue_full"
    retryable = True
    default_hint = "slow the producer down or append in larger units"


class AppendTimeout(StoreError):
    """The append was not answered within the deadline; its outcome is unknown until looked up by id."""

    code = "append_timeout"
    retryable = True
    default_hint = "send the same events with the same ids again; they land once"


class SearchUnavailable(StoreError):
    """Search cannot work here: SQLite lacks FTS5, the ledger was opened with ``search="off"``, or no file may be made."""

    code = "search_unavailable"
    default_hint = 'use a Python whose SQLite has FTS5; `search="off"` opens the ledger without search'


class SearchUnusable(StoreError):
    """The search index is damaged, half made, of another schema or of another ledger; field ``reason`` says which.

    Nothing is lost: it is made again from the ledger.
    """

    code = "search_unusable"
    default_hint = (
        'make it again with `counterfoil search --rebuild`; `search="off"` opens the ledger without search'
    )
