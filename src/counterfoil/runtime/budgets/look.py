"""What is left of a run's budgets, as anybody may ask, whether the run goes on, waits or has ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

from msgspec import Struct

from counterfoil.flow.event import Event
from counterfoil.flow.requests import Events, Flow, Read, Rows
from counterfoil.runtime.budgets.decide import Spent, used
from counterfoil.runtime.budgets.limits import BudgetKind, Limit, decimal_text
from counterfoil.runtime.budgets.rows import BUDGETS, EXCEEDED
from counterfoil.runtime.budgets.shared import Shared
from counterfoil.runtime.budgets.state import BEGINNINGS, ENDINGS, limit_of, worked_of
from counterfoil.runtime.resume import COUNTED_TYPES, tally_of
from counterfoil.store.rows import Row

_READ: Final = COUNTED_TYPES | BEGINNINGS | ENDINGS | {"provider.requested"}


class BudgetStanding(Struct, frozen=True):
    """One budget of a run: ``limit`` and ``spent`` as decimal text, ``wall`` in seconds, ``exceeded``: it stopped the run.

    ``spent`` None: money was spent in other currencies, which have no sum with the budget's.
    """

    budget: BudgetKind
    limit: str
    spent: str | None
    currency: str | None
    exceeded: bool


def budgets_of(stream_id: str, run_id: str, now_ms: int, *, held: bool) -> Flow[list[BudgetStanding]]:
    """The budgets of a run with what was spent; ``held``: a worker is at it now. Reads nothing more where there are none."""
    kinds: Sequence[BudgetKind] = get_args(BudgetKind)
    rows: list[Row] = yield Read(Rows(BUDGETS.name, None, (run_id,), len(kinds)))
    if not rows:
        return []
    record: list[Event] = yield Read(Events(stream_id, types=_READ, run_id=run_id))
    below = yield from Shared(stream_id, run_id).used_below(stream_id, run_id)
    spent = spent_in(record, now_ms if held else None) + below
    return [_standing(row, spent) for row in sorted(rows, key=lambda row: kinds.index(_limit(row).kind))]


def spent_in(record: Sequence[Event], now_ms: int | None = None) -> Spent:
    """What these events of one run say was used; with ``now_ms`` its worker is at it and time goes on."""
    tally, worked = tally_of(record), worked_of(record)
    return Spent(
        tokens=tally.input_tokens + tally.output_tokens,
        calls=sum(event.type == "provider.requested" for event in record),
        wall_ms=worked.recorded_ms if now_ms is None else worked.at(now_ms),
        money=dict(tally.money),
    )


def _limit(row: Row) -> Limit:
    return limit_of({"budget": row["budget"], "limit": row["limit_value"], "currency": row["currency"]})


def _standing(row: Row, spent: Spent) -> BudgetStanding:
    limit = _limit(row)
    amount = used(limit, spent)
    return BudgetStanding(
        budget=limit.kind,
        limit=limit.text,
        spent=None if amount is None else decimal_text(amount),
        currency=limit.currency,
        exceeded=row["state"] == EXCEEDED,
    )
