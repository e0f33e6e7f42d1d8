"""One effect, from the call of a decorated tool to its recorded observation, and the plain INSERT that it is held to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import counterfoil

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
