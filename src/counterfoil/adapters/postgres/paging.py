"""How pages of row tables are asked for in PostgreSQL's words."""

from __future__ import annotations

from typing import Final

from counterfoil.adapters.shared.paging import Dialect

LIMIT_MAX: Final = (1 << 31) - 1
CASTS: Final = {"text": "text", "integer": "bigint", "blob": "bytea"}
"""Parameters are cast, so that an empty or ambiguous one never changes the plan or the meaning."""

DIALECT: Final = Dialect(
    mark=lambda column: f"%s::{CASTS[column.type]}",
    rising=" ASC NULLS FIRST",
    falling=" DESC NULLS LAST",
    limit="%s",
    limit_max=LIMIT_MAX,
)
