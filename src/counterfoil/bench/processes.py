"""Eight processes that append to one stream at once: nothing may fail, be lost or fork, and nobody waits long."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from counterfoil.adapters.sqlite import open_sqlite
from counterfoil.bench.append import Ours, check
from counterfoil.bench.figures import Budget, Figure
from counterfoil.bench.rounds import Scale
from counterfoil.bench.sample import Sample
from counterfoil.client.features import TABLES
from counterfoil.core.event import event_hash
from counterfoil.core.genesis import parse_genesis
from counterfoil.core.header import read_header
from counterfoil.store.contract import Store
from counterfoil.store.unit import Receipt, Unit

PROCESSES: Final = 8
EVENTS_EACH: Final = 250
PAGE_EVENTS: Final = 500

_CHILD: Final = "from counterfoil.bench.processes import child; child()"


def eight_processes(scale: Scale, directory: Path) -> list[Figure]:
    """All begin on one word, so that they meet from the first event on."""
    ours = Ours(directory / "ledger")
    stream_id = ours.sample.stream_id
    count = scale.items(EVENTS_EACH)
    began = time.perf_counter()
    told = _run_children([str(directory / "ledger"), stream_id, str(count)])
    seconds = time.perf_counter() - began
    acknowledged = {event_id for one in told for event_id in one["acknowledged"]}
    present, forks = _walk(ours.store, stream_id, ours.sample.genesis.hash)
    ours.close()
    errors = sum(one["errors"] for one in told)
    worst = max(one["worst_s"] for one in told)
    return [
        Figure("processes.errors", "errors", errors, "", Budget(at_most=0)),
        Figure(
            "processes.lost",
            "acknowledged and not there",
            len(acknowledged - present),
            "",
            Budget(at_most=0),
        ),
        Figure("processes.forks", "gaps and forks", forks, "", Budget(at_most=0)),
        Figure("processes.worst", "the longest append", worst * 1000, "ms", Budget(at_most=500)),
        Figure("processes.rate", "all together, start included", PROCESSES * count / seconds, "events/s"),
    ]


def _run_children(arguments: list[str]) -> list[dict[str, Any]]:
    command = [sys.executable, "-c", _CHILD, *arguments]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(PROCESSES)
    ]
    try:
        for one in children:
            assert one.stdout is not None
            one.stdout.readline()
        for one in children:
            assert one.stdin is not None
            one.stdin.close()
        return [json.loads(one.stdout.read()) for one in children if one.stdout is not None]
    finally:
        for one in children:
            one.kill()
            one.wait()
            for pipe in (one.stdin, one.stdout):
                assert pipe is not None
                pipe.close()


def _walk(store: Store, stream_id: str, tip: bytes) -> tuple[set[str], int]:
    """Every event of the stream, and how often the chain is not one chain of 1, 2, 3, …"""
    present: set[str] = set()
    forks = after = 0
    while page := store.read(stream_id, after, PAGE_EVENTS, content=False):
        for event in page:
            header = read_header(event.header)
            forks += event.sequence != after + 1 or header.previous_event_hash != tip.hex()
            after, tip = event.sequence, event_hash(event.header)
            present.add(event.event_id)
    return present, forks


def child() -> None:
    """In a process of its own: append as many events as the command line says, and tell how that went."""
    place, stream_id, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    store = open_sqlite(place, tables=TABLES)
    stored = store.stream(stream_id)
    assert stored is not None
    sample = Sample(genesis=parse_genesis(stored.genesis))
    ready = sample.described(count)
    print("ready", flush=True)
    sys.stdin.read()
    told: dict[str, Any] = {"acknowledged": [], "errors": 0, "worst_s": 0.0}
    for described in ready:
        _append_one(store, sample.unit(described), told)
    store.close()
    print(json.dumps(told))


def _append_one(store: Store, unit: Unit, told: dict[str, Any]) -> None:
    began = time.perf_counter()
    try:
        outcomes = store.append([unit]).result()
        check(outcomes)
        assert isinstance(outcomes[0], Receipt)
        told["acknowledged"].append(outcomes[0].positions[0].event_id)
    except Exception as error:  # noqa: BLE001 - whatever it is, it counts as an error and is told
        told["errors"] += 1
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    told["worst_s"] = max(told["worst_s"], time.perf_counter() - began)
