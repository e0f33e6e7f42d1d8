"""The embedded default: a ledger in one directory, kept by SQLite."""

from __future__ import annotations

from counterfoil.adapters.sqlite.open import DATABASE_NAME, open_sqlite
from counterfoil.adapters.sqlite.store import SqliteStore

__all__ = ["DATABASE_NAME", "SqliteStore", "open_sqlite"]
