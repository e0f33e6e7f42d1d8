"""The PostgreSQL adapter: one schema is one ledger, for many machines; needs the extra ``postgres`` (DESIGN 4)."""

from __future__ import annotations

from counterfoil.adapters.postgres.keystore import PostgresKeyStore
from counterfoil.adapters.postgres.open import open_postgres
from counterfoil.adapters.postgres.place import PostgresPlace, parse_place
from counterfoil.adapters.postgres.store import PostgresStore

__all__ = ["PostgresKeyStore", "PostgresPlace", "PostgresStore", "open_postgres", "parse_place"]
