"""A benchmark run: a directory on a real disk, every benchmark in turn, and what came of it."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from counterfoil.adapters.filesystem.mounts import mount_of, read_mounts
from counterfoil.bench.figures import Figure, load, machine
from counterfoil.bench.means import Means, find_peers
from counterfoil.bench.registry import BENCHMARKS, Benchmark
from counterfoil.bench.report import Result, show
from counterfoil.bench.rounds import Scale
from counterfoil.bench.server import NO_SERVER, server
from counterfoil.errors import InputError

IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
"""File systems without a disk: an fsync there costs nothing, and no ratio would mean anything."""


QUICK_SHARE: Final = 0.25
"""Of the usual rounds and of their items each: 20 seconds or so."""


def run(
    only: tuple[str, ...],
    *,
    as_json: bool,
    quick: bool,
    postgres: str | None = None,
    peers: bool = False,
    save: Path | None = None,
) -> int:
    """See :func:`counterfoil.bench.main`."""
    benchmarks = _chosen(only)
    began = time.monotonic()
    directory = Path(tempfile.mkdtemp(prefix="counterfoil-bench-", dir=_disk()))
    try:
        facts = machine(directory)
        with _means(benchmarks, directory, postgres, peers=peers, named=bool(only)) as means:
            figures = _measure(benchmarks, Scale(QUICK_SHARE if quick else 1.0), directory, means)
            durable = _durable(means)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    facts["load_after"] = load()
    result = Result(figures, facts, quick, time.monotonic() - began, means.missing, durable)
    if save is not None:
        save.write_text(json.dumps(result.to_json(), indent=1) + "\n", "utf-8")
    if as_json:
        print(json.dumps(result.to_json(), ensure_ascii=True))
    else:
        show(result, benchmarks)
    return 1 if result.missed else 0


@contextmanager
def _means(
    benchmarks: Sequence[Benchmark], directory: Path, postgres: str | None, *, peers: bool, named: bool
) -> Iterator[Means]:
    """What these benchmarks need, as far as it is to be had. Peers are asked for, or named with ``--only``."""
    means = Means()
    needs = {benchmark.needs for benchmark in benchmarks}
    compared = peers and any(benchmark.compares == "peers" for benchmark in benchmarks)
    if compared or ("peers" in needs and (peers or named)):
        found = find_peers()
        if isinstance(found, str):
            means.missing.append(found)
        else:
            means.peers = found
    with ExitStack() as stack:
        if "server" in needs or ("peers" in needs and means.peers is not None):
            means.server = stack.enter_context(server(postgres, directory / "server"))
            if means.server is None:
                means.missing.append(NO_SERVER)
        yield means


def _durable(means: Means) -> list[dict[str, Any]]:
    if means.server is None:
        return list(means.peers.told) if means.peers is not None else []
    ours = {"peer": "the server", "engine": "postgresql", **means.server.settings}
    return [ours, *(means.peers.told if means.peers is not None else ())]


def _chosen(only: tuple[str, ...]) -> tuple[Benchmark, ...]:
    known = [benchmark.name for benchmark in BENCHMARKS]
    for name in only:
        if name not in known:
            raise InputError(f"there is no benchmark {name!r}", hint=f"there are {', '.join(known)}")
    benchmarks = tuple(one for one in BENCHMARKS if one.name in only or not (only or one.named))
    if any(benchmark.name == "canonical" for benchmark in benchmarks) and find_spec("rfc8785") is None:
        raise InputError(
            "rfc8785 is needed to compare with and is not installed",
            hint="pip install 'counterfoil[bench]', or choose another benchmark with --only",
        )
    return benchmarks


def _measure(
    benchmarks: tuple[Benchmark, ...], scale: Scale, directory: Path, means: Means
) -> dict[str, list[Figure]]:
    """The figures of each by name; each in a directory that is gone before the next one begins."""
    figures: dict[str, list[Figure]] = {}
    todo = [benchmark for benchmark in benchmarks if benchmark.needs is None or means.has(benchmark.needs)]
    for number, benchmark in enumerate(todo, 1):
        sys.stderr.write(f"{number}/{len(todo)} {benchmark.name}: {benchmark.title}\n")
        place = directory / benchmark.name
        place.mkdir()
        os.sync()  # what the one before has left to be written would slow down this one
        figures[benchmark.name] = benchmark.measure(scale, place, means)
        if means.server is not None:
            means.server.clear()
        shutil.rmtree(place, ignore_errors=True)
    return figures


def _disk() -> Path:
    """The directory for temporary files, or this one when that one is in memory."""
    usual = Path(tempfile.gettempdir())
    found = mount_of(usual.resolve(), read_mounts())
    return Path.cwd() if found is not None and found.type in IN_MEMORY else usual
