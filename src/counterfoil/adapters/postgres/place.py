"""Where a ledger lies on a server: a ``postgresql://`` address, and the schema that holds the ledger."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from counterfoil.errors import ConfigInvalid

SCHEMES: Final = ("postgresql", "postgres")
DEFAULT_SCHEMA: Final = "counterfoil"
KEYS_SUFFIX: Final = "_keys"
"""After the ledger's schema in the name of its key store's: another schema, other grants, another backup (FORMAT 12)."""

SCHEMA_MAX: Final = 40
"""Characters of a schema's name: roles and constraints are named after it within PostgreSQL's 63."""

_IS_SCHEMA: Final = re.compile(rf"[a-z][a-z0-9_]{{0,{SCHEMA_MAX - 1}}}").fullmatch
_OURS: Final = ("schema", "kek")


@dataclass(frozen=True, slots=True)
class PostgresPlace:
    """An address taken apart. ``conninfo`` is what libpq is given; ``shown`` is safe to print: it has no password.

    ``kek`` names a directory of key-encryption keys on this machine, or is None.
    """

    conninfo: str
    schema: str
    shown: str
    kek: str | None = None

    @property
    def keys_schema(self) -> str:
        """The schema of the key store."""
        return self.schema + KEYS_SUFFIX


def parse_place(text: str) -> PostgresPlace:
    """Take ``postgresql://USER@HOST:PORT/DATABASE?schema=NAME&kek=DIR`` apart; other parameters are libpq's own.

    Raises ConfigInvalid for another scheme or a schema's name that is no lower-case label.
    """
    split = urlsplit(text)
    if split.scheme not in SCHEMES:
        raise ConfigInvalid(
            f"{split.scheme}:// is no PostgreSQL address", hint="it begins with postgresql://"
        )
    given = parse_qsl(split.query, keep_blank_values=True)
    ours = {name: value for name, value in given if name in _OURS}
    theirs = [(name, value) for name, value in given if name not in _OURS]
    schema = ours.get("schema", DEFAULT_SCHEMA)
    if not _IS_SCHEMA(schema) or schema.startswith("pg_"):
        raise ConfigInvalid(
            "the schema of a ledger is named by a lower-case letter and up to 39 letters, digits or _",
            hint=f"?schema={DEFAULT_SCHEMA} is used when none is named",
            argument="schema",
        )
    return PostgresPlace(
        urlunsplit((split.scheme, split.netloc, split.path, _query(theirs), "")),
        schema,
        _shown(split.scheme, split.netloc, split.path, schema),
        ours.get("kek") or None,
    )


def _query(parameters: list[tuple[str, str]]) -> str:
    # libpq decodes %XX and takes a plus sign as a plus sign.
    return urlencode(parameters, quote_via=quote)


def _shown(scheme: str, netloc: str, path: str, schema: str) -> str:
    user, at, host = netloc.rpartition("@")
    name = unquote(user.partition(":")[0]) if at else ""
    return f"{scheme}://{quote(name)}{at}{host}{path}?schema={schema}"
