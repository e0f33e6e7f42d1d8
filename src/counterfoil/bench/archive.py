"""A conversation of 250 MB that travels: exported, imported with its keys, backed up, copied and searched, in bounded memory.

Each of them is a process of its own, since only that tells its peak.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import counterfoil
from counterfoil.bench.figures import Budget, Figure, peak_kib
from counterfoil.bench.large import CONTENT_BYTES, EVENTS, MEMORY_MB_MAX, text_of
from counterfoil.bench.resume import compiled, leave, record_steps, run_child
from counterfoil.bench.rounds import Scale
from counterfoil.bench.search import LETTERS
from counterfoil.client.archiving import KeysBy
from counterfoil.client.backup import backup_ledger
from counterfoil.client.copying import copy_ledger

WORDS: Final = "correct horse battery"
_CHILD: Final = "from counterfoil.bench.archive import child; child()"


def travelling(scale: Scale, directory: Path) -> list[Figure]:
    """Fill it, then let it travel in every way; ``--quick`` makes it smaller by the same share."""
    place, steps = str(directory / "ledger"), scale.items(EVENTS // 2)
    size = round(CONTENT_BYTES * scale.share) // steps
    environment = compiled(directory)
    run_child(_CHILD, environment, "fill", place, str(steps), str(size))
    stored = sum(path.stat().st_size for path in Path(place).glob("ledger.db*")) / 1e6
    # What is searched is made of words: random text has each sequence of letters once, and its index no end.
    run_child(_CHILD, environment, "tell", f"{place}-of-words", str(steps), str(size))
    figures = []
    for what, (words, _) in _WAYS.items():
        told = run_child(_CHILD, environment, what, place, str(steps), str(size))
        limit = Budget(at_most=MEMORY_MB_MAX)
        figures += [
            Figure(f"archive.{what}.memory", f"{words}, peak memory", told["peak_mb"], "MB", limit),
            Figure(f"archive.{what}.rate", words, stored / told["seconds"], "MB/s"),
        ]
    return figures


def child() -> None:
    """Do what the command line says, and tell the peak in MB and how long it took."""
    what, place, steps, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    began = time.perf_counter()
    if what == "fill":
        record_steps(place, steps, text_of, size)
    elif what == "tell":
        record_steps(place, steps, words_of, size)
    else:
        _WAYS[what][1](Path(place))
    leave({"peak_mb": peak_kib() / 1024, "seconds": time.perf_counter() - began})


def words_of(number: int, size: int) -> str:
    """Text of this many bytes, of paragraphs that come again as in a long talk; each has its number."""
    made = random.Random(number)  # noqa: S311 - not for keys
    paragraphs = _paragraphs()
    chosen = [f"order O-{number}: "]
    while sum(map(len, chosen)) < size:
        chosen.append(made.choice(paragraphs))
    return "".join(chosen)[:size]


@cache
def _paragraphs() -> list[str]:
    made = random.Random(2)  # noqa: S311 - not for keys
    words = ["".join(made.choices(LETTERS, k=made.randint(2, 9))) for _ in range(20_000)]
    return [" ".join(made.choices(words, k=150)) + ".\n" for _ in range(2_000)]


def _export(place: Path) -> None:
    with counterfoil.open(place) as ledger:
        by = KeysBy(passphrase=WORDS)
        done = ledger.export_archive(["bench"], place.with_name("bench.zip"), keys=by)
        assert not done.faults


def _import(place: Path) -> None:
    with counterfoil.open(place.with_name("imported")) as ledger:
        taken = ledger.import_archive(place.with_name("bench.zip"), passphrase=lambda: WORDS)
        assert taken.keys


def _backup(place: Path) -> None:
    backup_ledger(place, place.with_name("bench.backup"))


def _copy(place: Path) -> None:
    copy_ledger(place, place.with_name("copied"))


def _index(place: Path) -> None:
    with counterfoil.open(f"{place}-of-words") as ledger:
        assert ledger.index_search().caught_up


_WAYS: Final[dict[str, tuple[str, Callable[[Path], None]]]] = {
    "export": ("exported into a ZIP with its keys", _export),
    "import": ("imported with its keys into another ledger", _import),
    "backup": ("backed up and verified", _backup),
    "index": ("taken into the search index, told in words", _index),
    "copy": ("copied to another directory, verified, the source retired", _copy),
}
