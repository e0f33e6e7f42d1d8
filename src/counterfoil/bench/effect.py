"""One effect, from the call of a decorated tool to its recorded observation, against one plain INSERT and COMMIT."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import counterfoil
from counterfoil.bench.figures import Budget, Figure
from counterfoil.bench.raw import RawChain
from counterfoil.bench.rounds import Contender, Scale, side_by_side

BODY_BYTES: Final = 1200
"""As many as one event has: header and content."""

_numbers = itertools.count(1)


@counterfoil.effect(
    "bench.refund",
    version="1",
    touches={"money"},
    key=lambda order, line, **_: f"refund:{order}:{line}",
    doubt=counterfoil.by_key(),
    provider_id=lambda receipt: receipt["id"],
)
def refund(order: str, line: int, amount: Decimal, *, idempotency_key: str = "") -> dict[str, Any]:
    """Answers at once: what is measured is what the ledger adds."""
    return {"id": f"re_{order}", "line": line, "amount": amount, "key": idempotency_key}


@contextmanager
def effects_in(place: str | Path) -> Iterator[Callable[[int], None]]:
    """So many effects of one run in a new ledger at ``place``, one after the other."""
    with counterfoil.open(place) as ledger, ledger.run("bench-agent", conversation="bench", message="refund"):

        def perform(count: int) -> None:
            for _ in range(count):
                refund(f"O-{next(_numbers)}", 1, Decimal("40.00"))

        yield perform


def plain_inserts(insert: Callable[[str, bytes], None]) -> Callable[[int], None]:
    """So many log lines that are durable, each of as many bytes as an event has."""
    body = bytes(BODY_BYTES)

    def plain(count: int) -> None:
        for _ in range(count):
            insert(f"eff-{next(_numbers):026}", body)

    return plain


def effect_pair(scale: Scale, directory: Path) -> list[Figure]:
    """Two durable appends and all that is between them."""
    raw = RawChain(directory / "raw")
    with effects_in(directory / "ledger") as ours:
        contenders = {"ours": Contender(ours), "plain": Contender(plain_inserts(raw.insert_plain))}
        taken = side_by_side(contenders, rounds=scale.rounds(15), items=scale.items(100))
    raw.close()
    times = taken.median("ours") / taken.median("plain")
    return [
        Figure("effect.pair", "an effect, in plain INSERT+COMMITs", times, "×", Budget(at_most=3.5)),
        Figure("effect.time", "an effect", taken.median("ours") * 1e6, "µs"),
        Figure("effect.plain", "a plain INSERT+COMMIT", taken.median("plain") * 1e6, "µs"),
    ]
