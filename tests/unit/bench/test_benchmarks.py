"""Every benchmark runs, measures what it says, and leaves nothing behind. No figure is asserted: machines differ."""

from __future__ import annotations

import json
import math
import sqlite3
import tempfile
from hashlib import sha256
from pathlib import Path

import pytest

from counterfoil import bench
from counterfoil.bench import run as bench_run
from counterfoil.bench.figures import Budget, Figure
from counterfoil.bench.means import Means
from counterfoil.bench.raw import RawChain, raw_items
from counterfoil.bench.registry import BENCHMARKS, Benchmark
from counterfoil.bench.rounds import Scale
from counterfoil.bench.sample import Sample
from counterfoil.core.event import event_hash, read_header, splice
from counterfoil.core.records import open_record
from counterfoil.errors import InputError

LEAST = Scale(0.004)
FACTS = {"processes.errors", "processes.lost", "processes.forks", "canonical.mismatches"}
"""Figures that are facts and not times: they hold on any machine."""


ALONE = [one for one in BENCHMARKS if one.needs is None]


@pytest.mark.parametrize("benchmark", ALONE, ids=lambda one: one.name)
def test_the_benchmark(benchmark: Benchmark, tmp_path: Path):
    figures = benchmark.measure(LEAST, tmp_path)
    assert figures
    assert all(math.isfinite(figure.value) and figure.value >= 0 for figure in figures)
    assert {figure.name.split(".")[0] for figure in figures} <= {benchmark.name, "append"}
    assert [figure.name for figure in figures if figure.name in FACTS and not figure.met] == []


def test_no_two_benchmarks_have_one_name():
    names = [benchmark.name for benchmark in BENCHMARKS]
    assert len(set(names)) == len(names)


# ---- what is measured ----------------------------------------------------------------------------------------------


def test_the_sample_is_an_event_that_can_be_read_and_opened():
    sample = Sample()
    event = sample.prepared(sample.draft())
    header = read_header(splice(event, 1, "2026-09-01T14:31:08.518Z", "0" * 64))
    ids = (event.event_id, 0)
    commitment = header.content[0].commitment
    content = open_record(sample.material, "content", ids, event.records[0], commitment, mode="sealed")
    assert json.loads(content)["result"]["id"] == "re_1"


def test_the_loop_by_hand_makes_one_unbroken_chain(tmp_path: Path):
    raw, sample = RawChain(tmp_path), Sample()
    raw.append(raw_items(sample, 3))
    raw.append(raw_items(sample, 1))
    raw.close()
    db = sqlite3.connect(tmp_path / "raw.db")
    rows = db.execute("SELECT seq, header, hash FROM event ORDER BY seq").fetchall()
    head = db.execute("SELECT seq, hash FROM head").fetchone()
    db.close()
    tip = bytes(32)
    for number, (seq, header, digest) in enumerate(rows, 1):
        assert (seq, sha256(header).digest()) == (number, digest)
        assert json.loads(header)["previous_event_hash"] == tip.hex()
        tip = digest
    assert head == (4, tip)


def test_the_next_event_is_about_the_same_effect_every_second_time():
    sample = Sample()
    effects = [draft.data["effect_id"] for draft, _ in sample.described(4)]
    assert (len(set(effects)), effects[0], effects[2]) == (2, effects[1], effects[3])


def test_the_chain_of_the_writer_is_the_one_of_the_format():
    sample = Sample()
    header = splice(sample.prepared(sample.draft()), 1, "2026-09-01T14:31:08.518Z", "0" * 64)
    assert event_hash(header) == sha256(b"\x00" + header).digest()


# ---- a run ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Two benchmarks in place of all: one keeps its budget, one misses it."""
    found = {
        "good": [Figure("good.one", "fine", 1.0, "×", Budget(at_least=0.5))],
        "bad": [Figure("bad.one", "slow", 0.1, "×", Budget(at_least=0.5))],
    }

    class Ready(Benchmark):
        def measure(self, scale: Scale, directory: Path, means: Means | None = None) -> list[Figure]:
            assert list(directory.iterdir()) == []
            (directory / "left").write_bytes(b"x")
            return found[self.name]

    monkeypatch.setattr(bench_run, "BENCHMARKS", tuple(Ready(name, "a title", "") for name in found))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_missed_budget_is_exit_code_1(two: Path, capsys: pytest.CaptureFixture[str]):
    assert bench.main(as_json=True) == 1
    assert json.loads(capsys.readouterr().out)["missed"] == ["bad.one"]
    assert list(two.iterdir()) == []


def test_only_what_is_named_is_run_and_judged(two: Path, capsys: pytest.CaptureFixture[str]):
    assert bench.main("good", as_json=True) == bench.main(("good",), as_json=True) == 0
    assert [figure["name"] for figure in json.loads(capsys.readouterr().out.splitlines()[0])["figures"]] == [
        "good.one"
    ]


def test_people_read_the_verdict_in_words(two: Path, capsys: pytest.CaptureFixture[str]):
    bench.main(quick=True)
    told = capsys.readouterr().out
    assert "MISSED" in told
    assert "2 budgets, missed: bad.one" in told
    assert "rough" in told


def test_an_unknown_name_is_refused_with_those_there_are(two: Path):
    with pytest.raises(InputError, match=r"no benchmark 'worse' \(there are good, bad\)"):
        bench.main("worse")
