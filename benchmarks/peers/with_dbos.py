"""DBOS: the steps of one workflow, each of which books a refund and has its result recorded.

``with_dbos.py DIRECTORY`` uses SQLite, ``with_dbos.py postgresql://…`` PostgreSQL, both as the library sets them up;
``--wal`` puts the file into WAL mode, which the library does not do by itself.
"""

from __future__ import annotations

import itertools
import sqlite3
import sys
from pathlib import Path

import sqlalchemy
from dbos import DBOS
from turns import postgres_settings, script, serve, sqlite_settings

_numbers = itertools.count(1)


@DBOS.step()
def refund(order: str, line: int, amount: str, key: str) -> dict[str, object]:
    """Answers at once: what is measured is what the library adds."""
    return {"id": f"re_{order}", "line": line, "amount": amount, "key": key}


@DBOS.workflow()
def refunds(items: int) -> int:
    """So many steps, one after the other."""
    for _ in range(items):
        number = next(_numbers)
        refund(f"O-{number}", 1, "40.00", f"refund:O-{number}:1")
    return items


@DBOS.workflow()
def one_refund() -> None:
    """A workflow of one step."""
    number = next(_numbers)
    refund(f"O-{number}", 1, "40.00", f"refund:O-{number}:1")


@DBOS.step()
def ask(_messages: list[dict[str, object]], answer: dict[str, object]) -> dict[str, object]:
    """A model that has its answer ready."""
    return answer


@DBOS.workflow()
def turn(messages: list[dict[str, object]], answer: dict[str, object]) -> dict[str, object]:
    """One turn: what a workflow is given is recorded, and so is what its step returns."""
    return ask(messages, answer)


def growth(items: int) -> None:
    """A conversation: the request of each turn is what its workflow is given, so that it is on record."""
    for one in script(items):
        turn(one["messages"], one["answer"])


def workflows(items: int) -> None:
    """So many workflows of one step each: what a step costs that is called from outside."""
    for _ in range(items):
        one_refund()


def durable(engine: sqlalchemy.Engine) -> dict[str, object]:
    """Asked on one of the library's own connections."""

    def value(sql: str) -> object:
        with engine.connect() as connection:
            return connection.execute(sqlalchemy.text(sql)).scalar()

    return postgres_settings(value) if engine.dialect.name == "postgresql" else sqlite_settings(value)


def into_wal(path: Path) -> None:
    """The mode is a property of the file and stays."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()


if __name__ == "__main__":
    place = sys.argv[1]
    path = Path(place) / "dbos.db"
    if "--wal" in sys.argv[2:]:
        into_wal(path)
    url = place.replace("postgresql://", "postgresql+psycopg://") if "://" in place else f"sqlite:///{path}"
    dbos = DBOS(config={"name": "refunds", "system_database_url": url, "log_level": "ERROR"})
    DBOS.launch()
    engine = dbos._sys_db.engine  # noqa: SLF001 - there is no other way to ask on its own connections
    serve("dbos", durable(engine), {"steps": refunds, "workflows": workflows, "growth": growth})
    DBOS.destroy()
