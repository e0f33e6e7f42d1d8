"""PostgreSQL is measured by a real server; what pgbench prints is read, and its failure is told."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from counterfoil.bench.means import Means
from counterfoil.bench.pgraw import PgRawChain
from counterfoil.bench.postgres import OnServer, against_pgbench, by_hand, insertion, pgbench, rate_told
from counterfoil.bench.raw import raw_items
from counterfoil.bench.rounds import Scale, timed
from counterfoil.bench.sample import Sample
from counterfoil.bench.server import Server, binaries, server
from counterfoil.errors import InputError

LEAST = Scale(0.004)


@pytest.fixture
def means(cluster, tmp_path: Path):
    with server(cluster.url(), tmp_path / "server") as found:
        yield Means(server=found)


@pytest.mark.postgres
def test_loops_by_hand_are_compared_with(means: Means, tmp_path: Path):
    figures = by_hand(LEAST, tmp_path, means)
    assert {"postgres.lone", "postgres.effect", "postgres.many"} <= {figure.name for figure in figures}
    assert all(math.isfinite(figure.value) and figure.value > 0 for figure in figures)


@pytest.mark.postgres
def test_pgbench_inserts_into_the_table_that_the_ledger_has_its_events_in(means: Means, tmp_path: Path):
    means.server.binaries = next(path for path in binaries() if (path / "pgbench").exists())
    figures = against_pgbench(LEAST, tmp_path, means)
    assert figures[0].name == "pgbench.batch"
    assert figures[0].value > 0


@pytest.mark.postgres
def test_every_way_of_appending_leaves_as_many_events_as_it_was_told_to(means: Means):
    ours = OnServer(means.database("count", schema="bench"))
    for contender in (ours.lone(), ours.lone(rows=True), ours.writers(), ours.batches(rows=True)):
        timed(contender, 16)
    heads = [ours.store.head(sample.stream_id).sequence for sample in ours.samples]
    ours.close()
    assert heads == [50, *[2] * 7]


@pytest.mark.postgres
def test_the_loop_by_hand_chains_its_events_on_a_server_too(means: Means):
    raw, sample = PgRawChain(means.database("raw")), Sample()
    raw.append(raw_items(sample, 3))
    raw.append(raw_items(sample, 1), rows=False)
    seqs = raw.db.execute("SELECT array_agg(seq ORDER BY seq) FROM event").fetchone()
    head = raw.db.execute("SELECT h.seq, h.hash = e.hash FROM head h JOIN event e USING (seq)").fetchone()
    raw.close()
    assert (seqs, head) == (([1, 2, 3, 4],), (4, True))


def test_the_rate_of_pgbench_is_the_one_without_connecting():
    assert rate_told("latency average = 4 ms\ntps = 1234.5 (without initial connection time)\n", "") == 1234.5


@pytest.mark.parametrize("output", ["", "tps = 0.0 (…)"], ids=["nothing", "none"])
def test_a_pgbench_that_failed_is_told_with_its_words(output: str):
    with pytest.raises(InputError, match="pgbench failed: too many clients"):
        rate_told(output, "too many clients")


def test_without_pgbench_its_benchmark_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="pgbench is not installed"):
        pgbench(Server("postgresql://u@h/d", tmp_path), "postgresql://u@h/d", tmp_path, 1)


def test_a_row_of_pgbench_is_as_long_as_an_event():
    header = Sample().prepared(Sample().draft())
    ours = len(header.head) + len(header.middle) + len(header.tail) + 64 + 24
    assert insertion().count("68") >= 0.9 * ours
