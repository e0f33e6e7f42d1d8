"""Where a ledger lies on a server: a ``postgresql://`` address, and the schema that holds the ledger."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from msgspec import Struct

from counterfoil.errors import ConfigInvalid

SCHEMES: Final = ("postgresql", "postgres")
DEFAULT_SCHEMA: Final = "counterfoil"
WAIT_S: Final = 30.0
"""How long a call goes on trying before it says what it knows."""
ANSWER_S: Final = 10.0
"""How long the server may take for one answer before the connection is given up."""
CONNECTIONS: Final = 8
"""Connections that one handle reads with, beside the one it writes with."""

KEYS_SUFFIX: Final = "_keys"
"""After the ledger's schema in the name of its key store's: another schema, other grants, another backup (FORMAT 12)."""

SCHEMA_MAX: Final = 40
"""Characters of a schema's name: roles and constraints are named after it within PostgreSQL's 63."""

_IS_SCHEMA: Final = re.compile(rf"[a-z][a-z0-9_]{{0,{SCHEMA_MAX - 1}}}").fullmatch
_NUMBERS: Final = {"wait_s": WAIT_S, "answer_s": ANSWER_S, "connections": float(CONNECTIONS)}
_OURS: Final = ("schema", "kek", "replicas", *_NUMBERS)


class PostgresPlace(Struct, frozen=True):
    """An address taken apart. ``conninfo`` is what libpq is given; ``shown`` is safe to print: it has no password.

    ``kek`` names a directory of key-encryption keys on this machine, or is None. ``wait_s``, ``answer_s`` (seconds)
    and ``connections`` bound what a handle asks of the server. ``replicas_async``: replicas may follow behind.
    """

    conninfo: str
    schema: str
    shown: str
    kek: str | None = None
    wait_s: float = WAIT_S
    answer_s: float = ANSWER_S
    connections: int = CONNECTIONS
    replicas_async: bool = False

    @property
    def keys_schema(self) -> str:
        """The schema of the key store."""
        return self.schema + KEYS_SUFFIX


def parse_place(text: str) -> PostgresPlace:
    """Take ``postgresql://USER@HOST:PORT/DATABASE?schema=NAME&kek=DIR`` apart.

    Also ours: ``wait_s``, ``answer_s``, ``connections``, ``replicas=async``. Other parameters are libpq's own. Raises ConfigInvalid for
    another scheme, a schema's name that is no lower-case label, or a bound that is no number above 0.
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
        _number(ours, "wait_s"),
        _number(ours, "answer_s"),
        max(1, int(_number(ours, "connections"))),
        _replicas_async(ours.get("replicas")),
    )


def _replicas_async(given: str | None) -> bool:
    if given not in (None, "async", "sync"):
        raise ConfigInvalid("replicas in the address of a ledger is sync or async", argument="replicas")
    return given == "async"


def _number(given: dict[str, str], name: str) -> float:
    text = given.get(name)
    if text is None:
        return _NUMBERS[name]
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", text) or not float(text):
        raise ConfigInvalid(f"{name} in the address of a ledger is a number above 0", argument=name)
    return float(text)


def _query(parameters: list[tuple[str, str]]) -> str:
    # libpq decodes %XX and takes a plus sign as a plus sign.
    return urlencode(parameters, quote_via=quote)


def _shown(scheme: str, netloc: str, path: str, schema: str) -> str:
    user, at, host = netloc.rpartition("@")
    name = unquote(user.partition(":")[0]) if at else ""
    return f"{scheme}://{quote(name)}{at}{host}{path}?schema={schema}"
