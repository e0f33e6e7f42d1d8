"""A benchmark run: a directory on a real disk, every benchmark in turn, and what came of it."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from counterfoil.adapters.filesystem.mounts import mount_of, read_mounts
from counterfoil.bench.figures import Figure, machine
from counterfoil.bench.registry import BENCHMARKS, Benchmark
from counterfoil.bench.report import Result, show
from counterfoil.bench.rounds import Scale
from counterfoil.errors import InputError

IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
"""File systems without a disk: an fsync there costs nothing, and no ratio would mean anything."""


QUICK_SHARE: Final = 0.25
"""Of the usual rounds and of their items each: 20 seconds or so."""


def run(only: tuple[str, ...], *, as_json: bool, quick: bool) -> int:
    """See :func:`counterfoil.bench.main`."""
    benchmarks = _chosen(only)
    began = time.monotonic()
    directory = Path(tempfile.mkdtemp(prefix="counterfoil-bench-", dir=_disk()))
    try:
        facts = machine(directory)
        figures = _measure(benchmarks, Scale(QUICK_SHARE if quick else 1.0), directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    result = Result(figures, facts, quick, time.monotonic() - began)
    if as_json:
        print(json.dumps(result.to_json(), ensure_ascii=True))
    else:
        show(result, benchmarks)
    return 1 if result.missed else 0


def _chosen(only: tuple[str, ...]) -> tuple[Benchmark, ...]:
    known = [benchmark.name for benchmark in BENCHMARKS]
    for name in only:
        if name not in known:
            raise InputError(f"there is no benchmark {name!r}", hint=f"there are {', '.join(known)}")
    benchmarks = tuple(benchmark for benchmark in BENCHMARKS if not only or benchmark.name in only)
    if any(benchmark.name == "canonical" for benchmark in benchmarks) and find_spec("rfc8785") is None:
        raise InputError(
            "rfc8785 is needed to compare with and is not installed",
            hint="pip install 'counterfoil[bench]', or choose another benchmark with --only",
        )
    return benchmarks


def _measure(benchmarks: tuple[Benchmark, ...], scale: Scale, directory: Path) -> dict[str, list[Figure]]:
    """The figures of each by name; each in a directory that is gone before the next one begins."""
    figures: dict[str, list[Figure]] = {}
    for number, benchmark in enumerate(benchmarks, 1):
        sys.stderr.write(f"{number}/{len(benchmarks)} {benchmark.name}: {benchmark.title}\n")
        place = directory / benchmark.name
        place.mkdir()
        figures[benchmark.name] = benchmark.measure(scale, place)
        shutil.rmtree(place, ignore_errors=True)
    return figures


def _disk() -> Path:
    """The directory for temporary files, or this one when that one is in memory."""
    usual = Path(tempfile.gettempdir())
    found = mount_of(usual.resolve(), read_mounts())
    return Path.cwd() if found is not None and found.type in IN_MEMORY else usual
