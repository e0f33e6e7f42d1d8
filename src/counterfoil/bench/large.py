"""A conversation of 250 MB in bounded memory, and 200 MB streamed in and out.

Each way to look at it is a process of its own, since only that tells its peak.
"""

from __future__ import annotations

import base64
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import counterfoil
from counterfoil.bench.figures import Budget, Figure, peak_kib
from counterfoil.bench.resume import compiled, leave, record_steps, run_child
from counterfoil.bench.rounds import Scale

EVENTS: Final = 40_000
CONTENT_BYTES: Final = 250_000_000
ARTIFACT_BYTES: Final = 200_000_000
MEMORY_MB_MAX: Final = 300
PIECE_BYTES: Final = 1 << 20

_CHILD: Final = "from counterfoil.bench.large import child; child()"


def large_conversation(scale: Scale, directory: Path) -> list[Figure]:
    """Fill it, then look at it in every way; ``--quick`` makes it smaller by the same share."""
    place, steps = str(directory / "ledger"), scale.items(EVENTS // 2)
    size = round(CONTENT_BYTES * scale.share)
    environment = compiled(directory)
    run_child(_CHILD, environment, "fill", place, str(steps), str(size // steps))
    stored = sum(path.stat().st_size for path in Path(place).glob("ledger.db*")) / 1e6
    figures = [Figure("large.file", f"the file of {2 * steps:,} events", stored, "MB")]
    for what, words in WAYS.items():
        told = run_child(_CHILD, environment, what, place, str(steps), str(size // steps))
        figures += [
            Figure(
                f"large.{what}.memory",
                f"{words}, peak memory",
                told["peak_mb"],
                "MB",
                Budget(at_most=MEMORY_MB_MAX),
            ),
            Figure(f"large.{what}.time", f"{words}", told["seconds"], "s"),
        ]
    return figures


def large_artifact(scale: Scale, directory: Path) -> list[Figure]:
    """200 MB kept as the result of a step and read back, piece by piece."""
    place, size = str(directory / "ledger"), round(ARTIFACT_BYTES * scale.share)
    environment = compiled(directory)
    told = run_child(_CHILD, environment, "artifact", place, str(size), "0")
    limit = Budget(at_most=MEMORY_MB_MAX)
    words = f"{size / 1e6:,.0f} MB streamed in and out"
    return [
        Figure("artifact.memory", f"{words}, peak memory", told["peak_mb"], "MB", limit),
        Figure("artifact.rate", words, 2 * size / 1e6 / told["seconds"], "MB/s"),
    ]


# ---- in processes of their own ---------------------------------------------------------------------------------------


def text_of(number: int, size: int) -> str:
    """Text of this many bytes when it is stored, different for each number: packing gains nothing of it that counts."""
    return base64.b85encode(random.Random(number).randbytes(size)).decode()  # noqa: S311 - not for keys


def child() -> None:
    """Do what the command line says, and tell the peak in MB and how long it took."""
    what, place, first, second = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    began = time.perf_counter()
    _DOES[what](place, first, second)
    leave({"peak_mb": peak_kib() / 1024, "seconds": time.perf_counter() - began})


def _fill(place: str, steps: int, size: int) -> None:
    record_steps(place, steps, text_of, size)


def _open(place: str, _steps: int, _size: int) -> None:
    with counterfoil.open(place, read_only=True) as ledger:
        (info,) = ledger.conversations()
        assert info.name == "bench"


def _list(place: str, steps: int, _size: int) -> None:
    with counterfoil.open(place, read_only=True) as ledger:
        ledger.runs("bench")
        seen = sum(bool(event.content) for event in ledger.events("bench"))
        assert seen >= 2 * steps


def _tail(place: str, _steps: int, _size: int) -> None:
    with counterfoil.open(place, read_only=True) as ledger:
        last = 0
        for event in ledger.tail("bench", after=0, follow=False):
            assert event.sequence == last + 1
            last = event.sequence


def _resume(place: str, steps: int, size: int) -> None:
    ledger = counterfoil.open(place)
    run = ledger.run("bench-agent", conversation="bench", message="go", dedupe="bench")
    run.__enter__()
    for number in range(steps):
        handed_out = run.step("step", text_of, number, size)
        assert len(handed_out) >= size


def _verify(place: str, _steps: int, _size: int) -> None:
    from counterfoil.client.features import FEATURES
    from counterfoil.evidence.report import EXIT_INTACT
    from counterfoil.evidence.verify import verify

    with counterfoil.open(place, read_only=True) as ledger:
        assert verify(ledger.store, ledger.keyring, FEATURES).exit_code == EXIT_INTACT


def _artifact(place: str, size: int, _: int) -> None:
    def pieces() -> Iterator[bytes]:
        source = random.Random(size)  # noqa: S311 - not for keys
        for start in range(0, size, PIECE_BYTES):
            yield source.randbytes(min(PIECE_BYTES, size - start))

    with counterfoil.open(place) as ledger, ledger.run("bench-agent", conversation="bench") as run:
        kept = run.artifact(pieces(), kind="result", name="result.bin")
        assert sum(map(len, kept.pieces())) == size


WAYS: Final = {
    "open": "opening and listing conversations",
    "list": "reading every event with its content",
    "tail": "tailing from the first event",
    "resume": "resuming its run",
    "verify": "verifying all of it",
}

_DOES: Final[dict[str, Callable[[str, int, int], Any]]] = {
    "fill": _fill,
    "open": _open,
    "list": _list,
    "tail": _tail,
    "resume": _resume,
    "verify": _verify,
    "artifact": _artifact,
}
