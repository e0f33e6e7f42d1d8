"""What every peer does the same: tell what it is and how durable, then take its turns as it is told to.

One JSON object a line. The peer begins with ``{"peer", "durable"}``; to ``{"work", "items"}`` it answers ``{"seconds"}``, for
all items of that turn; at the end of its input it is done. The clock is read here, so that no pipe is part of a turn.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from typing import Any, TextIO

PAYLOAD_BYTES = 1000
"""Of what one event says, encoded as JSON."""

Works = Mapping[str, Callable[[int], None]]


def payload(number: int) -> dict[str, object]:
    """What one event says: an observation with its result, as the ledger's own event has it."""
    said = {
        "effect_id": f"eff_{number:026}",
        "outcome": "succeeded",
        "source": "call",
        "latency_ms": 212,
        "actor": {"type": "agent", "id": "refund-agent"},
        "run_id": "run_01J9ZC3Y3V7W2R5T8QK4M6N0PG",
        "result": {
            "id": f"re_{number}",
            "order": "O-1042",
            "line": number % 7,
            "amount": "40.00",
            "status": "booked",
            "ok": True,
        },
        "note": "",
    }
    return said | {"note": "n" * (PAYLOAD_BYTES - len(json.dumps(said)))}


def script(turns: int) -> Iterator[dict[str, Any]]:
    """So many turns of the conversation in the file named after ``--script``, each with its whole history."""
    with open(sys.argv[sys.argv.index("--script") + 1], encoding="utf-8") as file:  # noqa: PTH123 - read line by line
        for _, line in zip(range(turns), file):  # noqa: B905 - the file may hold more
            yield json.loads(line)


def postgres_settings(one: Callable[[str], object]) -> dict[str, object]:
    """What decides on a server whether a commit is on the disk; ``one`` runs a statement and returns its one value."""
    names = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method")
    return {"engine": "postgresql"} | {name: one(f"SELECT current_setting('{name}')") for name in names}


def sqlite_settings(one: Callable[[str], object]) -> dict[str, object]:
    """The same of a database in a file."""
    names = ("synchronous", "journal_mode")
    return {"engine": "sqlite"} | {name: one(f"PRAGMA {name}") for name in names}


def serve(package: str, durable: Mapping[str, object], works: Works) -> None:
    """Take turns until the input ends. Whatever a library prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _say(answers, {"peer": f"{package} {version(package)}", "durable": dict(durable), "works": sorted(works)})
    for line in sys.stdin:
        told = json.loads(line)
        _say(answers, {"seconds": _timed(works[told["work"]], told["items"])})


def _timed(work: Callable[[int], None], items: int) -> float:
    gc.collect()
    gc.disable()
    try:
        began = time.perf_counter()
        work(items)
        return time.perf_counter() - began
    finally:
        gc.enable()


def _say(answers: TextIO, said: object) -> None:
    print(json.dumps(said), file=answers, flush=True)
