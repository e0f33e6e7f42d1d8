"""DBOS: a workflow with many completed steps whose process is gone, resumed by the next one.

``resumed_dbos.py DIRECTORY STEPS begin`` starts the workflow under its id; without ``begin`` the library's own recovery
takes it up at launch. Either way the process is gone as after a SIGKILL when so many steps are done: all but the new
ones are handed out from their records. SQLite, with the library's own defaults.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from importlib.metadata import version
from pathlib import Path

import sqlalchemy
from dbos import DBOS, SetWorkflowID
from turns import sqlite_settings

TEXT_BYTES = 200
"""As in counterfoil.bench.resumed, whose step this is."""

WORKFLOW_ID = "bench"
WAIT_S = 600

_last = int(sys.argv[2])
_live: list[int] = []
_done = threading.Event()


@DBOS.step()
def step(number: int) -> dict[str, object]:
    """What each step comes to."""
    _live.append(number)
    return {"number": number, "text": "x" * TEXT_BYTES}


@DBOS.workflow()
def steps() -> None:
    """One step after the other, until the process is told to be gone. The workflow has no end of its own."""
    number = 0
    while True:
        if step(number)["number"] != number:
            raise AssertionError(f"step {number} was handed out wrongly")
        number += 1
        if number == _last:
            _done.set()
            threading.Event().wait()


def durable() -> dict[str, object]:
    """Asked on one of the library's own connections."""
    engine = _instance._sys_db.engine  # noqa: SLF001 - there is no other way to ask on its own connections

    def value(sql: str) -> object:
        with engine.connect() as connection:
            return connection.execute(sqlalchemy.text(sql)).scalar()

    return sqlite_settings(value)


if __name__ == "__main__":
    url = f"sqlite:///{Path(sys.argv[1]) / 'dbos.db'}"
    _instance = DBOS(config={"name": "resumed", "system_database_url": url, "log_level": "ERROR"})
    DBOS.launch()
    if "begin" in sys.argv[3:]:
        with SetWorkflowID(WORKFLOW_ID):
            DBOS.start_workflow(steps)
    if not _done.wait(WAIT_S):
        raise SystemExit(f"the workflow did not come to step {_last} in {WAIT_S} s")
    told = {"processor": time.process_time(), "live": len(_live), "peer": f"dbos {version('dbos')}"}
    # What is asked for the report is asked once, at the beginning, and is no part of a resumption.
    told["durable"] = durable() if "begin" in sys.argv[3:] else {}
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    os._exit(0)
