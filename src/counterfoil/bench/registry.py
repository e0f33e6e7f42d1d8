"""Every benchmark by name, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Final, cast

from msgspec import Struct

from counterfoil.bench.figures import Figure
from counterfoil.bench.means import Means, Need
from counterfoil.bench.rounds import Scale

Measure = Callable[[Scale, Path], list[Figure]]
MeasureWith = Callable[[Scale, Path, Means], list[Figure]]


class Benchmark(Struct, frozen=True):
    """One benchmark: its name for ``--only``, what it compares, and ``module.function`` that takes its figures.

    ``needs`` names what it cannot do without beside a directory; ``named`` runs only where ``--only`` names it;
    ``compares`` names what it uses with ``--peers`` and is measured without, too.
    """

    name: str
    title: str
    where: str
    needs: Need | None = None
    named: bool = False
    compares: Need | None = None

    def measure(self, scale: Scale, directory: Path, means: Means | None = None) -> list[Figure]:
        """Take its figures in an empty directory of its own."""
        module, _, function = self.where.partition(".")
        measure = getattr(import_module(f"counterfoil.bench.{module}"), function)
        if self.needs is None and self.compares is None:
            return cast("Measure", measure)(scale, directory)
        return cast("MeasureWith", measure)(scale, directory, means or Means())


BENCHMARKS: Final = (
    Benchmark("prepare", "one event of 1 KB made ready to be written", "prepare.prepare_event"),
    Benchmark("canonical", "canonical encoding against rfc8785", "canonical.encode_canonical"),
    Benchmark("append", "one caller against a loop written by hand", "append.one_caller"),
    Benchmark("threads", "64 threads against groups written by hand", "append.threads"),
    Benchmark("tasks", "64 asyncio tasks against groups written by hand", "append.tasks"),
    Benchmark("many", "append_many against groups of equal size", "append.many"),
    Benchmark("effect", "an effect against plain INSERT and COMMIT", "pair.effect_pair"),
    Benchmark("verify", "verification against loops that read and hash", "verify.verify_levels"),
    Benchmark("fold", "folding events into state", "fold.fold_events"),
    Benchmark("search", "a page of search over a million events", "search.answers", named=True),
    Benchmark("processes", "8 processes on one stream", "processes.eight_processes"),
    Benchmark(
        "resume",
        "a run with 10,000 completed steps, from process start",
        "resume.resumed",
        compares="peers",
    ),
    Benchmark("large", "a conversation of 250 MB, in bounded memory", "large.large_conversation", named=True),
    Benchmark("archive", "250 MB exported, imported, backed up and copied", "archive.travelling", named=True),
    Benchmark("artifact", "200 MB streamed in and out", "large.large_artifact", named=True),
    Benchmark("pages", "lists and pages of a ledger of 1,000,000 events", "pages.pages", named=True),
    Benchmark("journal", "turns with the journal off, queued and synchronous", "journal.turn_journal"),
    Benchmark(
        "growth", "a long conversation whose every request is recorded", "growth.growth", compares="peers"
    ),
    Benchmark("postgres", "PostgreSQL against loops written by hand", "postgres.by_hand", "server"),
    Benchmark("pgbench", "batches against pgbench on the same table", "postgres.against_pgbench", "server"),
    Benchmark("eventsourcing", "events beside the library eventsourcing", "beside.eventsourcing", "peers"),
    Benchmark("dbos", "effects beside the steps of DBOS", "beside.dbos", "peers"),
    Benchmark("langgraph", "events and effects beside LangGraph's savers", "beside.langgraph", "peers"),
)
