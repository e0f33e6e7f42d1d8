"""Verification at its three levels against loops that read and hash the same rows, and the memory it takes."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Final

from counterfoil.adapters.sqlite import DATABASE_NAME
from counterfoil.adapters.sqlite.packing import plain_header
from counterfoil.bench.figures import Budget, Figure, peak_kib
from counterfoil.bench.ledgers import fill
from counterfoil.bench.rounds import PROCESSOR, Contender, Scale, Taken, side_by_side
from counterfoil.client.features import FEATURES
from counterfoil.client.ledger import Ledger
from counterfoil.evidence.report import EXIT_INTACT, Level
from counterfoil.evidence.verify import verify

EVENTS: Final = 20_000
LEVELS: Final[dict[Level, tuple[str, float]]] = {
    "chain": ("chain, shape and columns", 0.28),
    "digests": ("with record digests", 0.22),
    "content": ("with content opened", 0.15),
}
MEMORY_MB_MAX: Final = 80
READ_HEADERS: Final = "SELECT header, hash FROM event ORDER BY stream, seq"
READ_RECORDS: Final = (
    "SELECT header, hash, record FROM event LEFT JOIN event_content"
    " ON slot >= position * 16 AND slot < position * 16 + 16 ORDER BY stream, seq"
)

_CHILD: Final = "from counterfoil.bench.verify import child; child()"


def verify_levels(scale: Scale, directory: Path) -> list[Figure]:
    """One ledger, verified again and again beside the loops; then once in a process of its own for its memory."""
    place = directory / "ledger"
    ledger, _ = fill(place, scale.items(EVENTS))
    database = place / DATABASE_NAME
    contenders = {
        "headers": Contender(lambda _: _hash_rows(database, READ_HEADERS)),
        "records": Contender(lambda _: _hash_rows(database, READ_RECORDS)),
    } | {level: Contender(partial(_verify_once, ledger, level)) for level in LEVELS}
    taken = side_by_side(contenders, rounds=scale.rounds(9), items=scale.items(EVENTS), clock=PROCESSOR)
    with_rows = side_by_side(
        {"rows": Contender(lambda _: _check(ledger, "content", rows=True))},
        rounds=1,
        items=scale.items(EVENTS),
    )
    ledger.close()
    return [
        *(_figure(level, taken) for level in LEVELS),
        *(
            Figure(f"verify.{level}.rate", LEVELS[level][0], taken.rate(level), "events/s")
            for level in LEVELS
        ),
        Figure("verify.rows.rate", "with derived rows made again", with_rows.rate("rows"), "events/s"),
        Figure(
            "verify.memory",
            "peak memory of its process",
            _peak_mb(place),
            "MB",
            Budget(at_most=MEMORY_MB_MAX),
        ),
    ]


def _figure(level: Level, taken: Taken) -> Figure:
    words, limit = LEVELS[level]
    against = "headers" if level == "chain" else "records"
    return Figure(
        f"verify.{level}",
        f"{words}, of the loop's speed",
        taken.speed(level, against),
        "×",
        Budget(at_least=limit),
    )


def _hash_rows(database: Path, sql: str) -> None:
    """Read the rows and hash every header and record in them."""
    db = sqlite3.connect(database)
    sha256 = hashlib.sha256
    wrong = 0
    for stored, digest, *records in db.execute(sql):
        header = plain_header(stored)
        wrong += sha256(b"\x00" + header).digest() != digest
        for record in records:
            if record is not None:
                sha256(record).digest()
    db.close()
    if wrong:
        raise AssertionError(f"{wrong} events have another hash than they should")


def _verify_once(ledger: Ledger, level: Level, _count: int) -> None:
    _check(ledger, level)


def _check(ledger: Ledger, level: Level, *, rows: bool = False) -> None:
    report = verify(ledger.store, ledger.keyring, FEATURES, level=level, rows=rows)
    if report.exit_code != EXIT_INTACT:
        raise AssertionError(f"the ledger that was just written is not intact: {report.kinds}")


def _peak_mb(place: Path) -> float:
    command = [sys.executable, "-c", _CHILD, str(place)]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    peak: float = json.loads(told)
    return peak


def child() -> None:
    """In a process of its own: verify the ledger named on the command line, rows too, and print the peak in MB."""
    import counterfoil

    with counterfoil.open(sys.argv[1], read_only=True) as ledger:
        _check(ledger, "content", rows=True)
    print(peak_kib() / 1024)
