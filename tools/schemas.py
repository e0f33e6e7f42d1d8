"""The tables that FORMAT's appendices show, written from the statements that make them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

from counterfoil.adapters.sqlite import schema
from counterfoil.adapters.sqlite.runtime_store import RUNTIME_INDEXES, RUNTIME_SCHEMA, RUNTIME_TABLES
from counterfoil.search import schema as search

START = "<!-- The schemas. Written by `./run docs` from the statements that make them. -->"
END = "<!-- End of the schemas. -->"

INTRO_1 = f"""\
What `ledger.db` was before there was a ledger: the normalized runtime store of ADR 0175, with `PRAGMA user_version =
{RUNTIME_SCHEMA}`. Times are milliseconds since the epoch; `metadata`, `last_operation`, `output`, `payload` and `body` are JSON.
[Migrating](migrating.md) says how it is taken over."""

INTRO_2 = f"""\
`ledger.db` of this version: `PRAGMA application_id = 0x{schema.APPLICATION_ID:08X}`, and `meta` holds `schema` =
{schema.SCHEMA} and `ledger_id`. Truth are `stream`, `event` and `event_content`; all others are derived, operational, or say
what the file is. Tables of rows (`row_…`) are made from the declarations of the features and are derived too. Triggers
refuse UPDATE, DELETE and replacing INSERT on the truth."""


def with_schemas(text: str) -> str:
    """The format page with its appendices as they should be now."""
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise ValueError(f"docs/FORMAT.md has lost the lines around its schemas:\n{START}\n{END}")
    return "\n".join([before + start, "", *_appendices(), END + after])


def _appendices() -> Iterator[str]:
    yield from _appendix("A. Schema 1 of SQLite", INTRO_1, RUNTIME_TABLES | RUNTIME_INDEXES)
    yield from _appendix("B. Schema 2 of SQLite", INTRO_2, schema.TABLES | schema.INDEXES | schema.TRIGGERS)
    yield from _appendix("C. The search index", SEARCH, search.TABLES | search.INDEXES)


SEARCH = f"""\
`search.db`: `PRAGMA application_id = 0x{search.APPLICATION_ID:08X}`, `PRAGMA user_version = {search.SCHEMA}`. Derived, and
never part of a backup; see [Search](search.md)."""


def _appendix(title: str, intro: str, statements: Mapping[str, str]) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield intro
    yield ""
    yield "```sql"
    for statement in statements.values():
        yield f"{_plain(statement)};"
    yield "```"
    yield ""


def _plain(statement: str) -> str:
    return textwrap.dedent(statement).strip()
