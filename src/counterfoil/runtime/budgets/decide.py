"""Whether one more call fits into a budget: pure rules over limits and what was spent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import assert_never

from msgspec import Struct, field

from counterfoil.runtime.budgets.limits import Limit


class Spent(Struct, frozen=True):
    """What was used: every response counted once, money by currency (``""``: none was named), time in ms."""

    tokens: int = 0
    calls: int = 0
    wall_ms: int = 0
    money: Mapping[str, Decimal] = field(default_factory=dict)

    def __add__(self, other: Spent) -> Spent:
        """Both together; time is each run's own and does not add up."""
        money = dict(self.money)
        for currency, amount in other.money.items():
            money[currency] = money.get(currency, Decimal(0)) + amount
        return Spent(self.tokens + other.tokens, self.calls + other.calls, self.wall_ms, money)


class Over(Struct, frozen=True):
    """A limit that is used up; ``spent`` None: money was spent in ``foreign`` currencies, which have no sum with it."""

    limit: Limit
    spent: Decimal | None
    foreign: tuple[str, ...] = ()


def used(limit: Limit, spent: Spent) -> Decimal | None:
    """What was used of the kind that this limit is of; None where different currencies have no sum."""
    match limit.kind:
        case "tokens":
            return Decimal(spent.tokens)
        case "calls":
            return Decimal(spent.calls)
        case "wall":
            return Decimal(spent.wall_ms) / 1000
        case "money":
            return None if foreign(limit, spent) else spent.money.get(limit.currency or "", Decimal(0))
        case _:
            assert_never(limit.kind)


def foreign(limit: Limit, spent: Spent) -> tuple[str, ...]:
    """The currencies other than the limit's in which something was spent; nothing spent is in no currency."""
    return tuple(
        sorted(currency for currency, amount in spent.money.items() if amount and currency != limit.currency)
    )


def over(limits: Iterable[Limit], spent: Spent) -> Over | None:
    """The first limit that leaves no room for one more call, or None.

    A call is made while less than the limit is used, since nobody knows before what it will use: what the last call
    within a budget takes may lie beyond it.
    """
    for limit in limits:
        amount = used(limit, spent)
        if amount is None:
            return Over(limit, None, foreign(limit, spent))
        if amount >= limit.limit:
            return Over(limit, amount)
    return None
