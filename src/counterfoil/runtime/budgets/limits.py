"""What a run may use: the limits as an application declares them, checked once before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, Literal, get_args

from msgspec import Struct

from counterfoil.core.forms import is_decimal, is_label
from counterfoil.errors import InvalidForm

BudgetKind = Literal["tokens", "money", "calls", "wall"]
KINDS: Final[tuple[BudgetKind, ...]] = get_args(BudgetKind)
"""In the order in which they are checked."""

CURRENCY_CHARACTERS_MAX: Final = 16

WALL_S_MAX: Final = 10**12
"""Longer than any run; its milliseconds are still exact in every reader's numbers."""


class Budget(Struct, frozen=True):
    """What one run may use; what is left out is not limited.

    ``tokens`` are those a provider counts in and out, ``calls`` the requests sent to providers, failed ones too,
    ``wall_s`` the seconds in which a worker was at the run. ``money`` is exact (a Decimal, an integer, or text such as
    ``"2.50"``, never a float) and needs its ``currency``.

    >>> from counterfoil.runtime.budgets.limits import Budget
    >>> Budget(money="2.50", currency="EUR", calls=20).calls
    20
    """

    tokens: int | None = None
    money: Decimal | int | str | None = None
    currency: str | None = None
    calls: int | None = None
    wall_s: float | int | Decimal | None = None


class Limit(Struct, frozen=True):
    """One limit in its exact form; ``wall`` is in seconds, ``currency`` is there for money alone."""

    kind: BudgetKind
    limit: Decimal
    currency: str | None = None

    @property
    def text(self) -> str:
        """The limit as decimal text (FORMAT 1)."""
        return decimal_text(self.limit)


def decimal_text(number: Decimal) -> str:
    """A number as decimal text: no exponent, no zeros that say nothing."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def limits_of(given: Budget | Mapping[str, Any] | None) -> tuple[Limit, ...]:
    """The limits that were declared, in the order of :data:`KINDS`. Raises ``InvalidForm`` naming the argument."""
    if given is None:
        return ()
    budget = given if isinstance(given, Budget) else _of_mapping(given)
    if (budget.money is None) is not (budget.currency is None):
        raise InvalidForm(
            "a budget of money is an amount with its currency",
            hint='write budget={"money": "2.50", "currency": "EUR"}',
            argument="budget.money",
        )
    if budget.currency is not None:
        _check_currency(budget.currency)
    found = [
        _counted("tokens", budget.tokens),
        None if budget.money is None else Limit("money", _exact(budget.money), budget.currency),
        _counted("calls", budget.calls),
        None if budget.wall_s is None else Limit("wall", _seconds(budget.wall_s)),
    ]
    return tuple(limit for limit in found if limit is not None)


def merged(first: Iterable[Limit], then: Iterable[Limit]) -> tuple[Limit, ...]:
    """Both, in the order of :data:`KINDS`; of a kind that both name the later one holds."""
    by_kind = {limit.kind: limit for limit in (*first, *then)}
    return tuple(by_kind[kind] for kind in KINDS if kind in by_kind)


def _of_mapping(given: object) -> Budget:
    names = set(Budget.__struct_fields__)
    if not isinstance(given, Mapping) or not names.issuperset(given):
        raise InvalidForm(
            f"a budget is a Budget or a mapping with some of {', '.join(sorted(names))}", argument="budget"
        )
    return Budget(**given)


def _check_currency(currency: object) -> None:
    if not isinstance(currency, str) or not is_label(currency) or len(currency) > CURRENCY_CHARACTERS_MAX:
        raise InvalidForm('currency is a label such as "EUR"', argument="budget.currency")


def _counted(kind: BudgetKind, value: object) -> Limit | None:
    if value is None:
        return None
    if type(value) is not int or value < 0:
        raise InvalidForm(f"a budget of {kind} is a whole number from 0", argument=f"budget.{kind}")
    return Limit(kind, _checked(Decimal(value), f"budget.{kind}"))


def _exact(money: object) -> Decimal:
    text = f"{money:f}" if isinstance(money, Decimal) else str(money) if type(money) in (str, int) else ""
    if not is_decimal(text) or text.startswith("-"):
        raise InvalidForm(
            'a budget of money is decimal text such as "2.50", or a Decimal, from 0',
            hint="a float is not exact",
            argument="budget.money",
        )
    return Decimal(text)


def _seconds(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise InvalidForm("a budget of wall time is a number of seconds", argument="budget.wall_s")
    seconds = Decimal(str(value)) if isinstance(value, float) else Decimal(value)
    if not seconds.is_finite() or not 0 <= seconds <= WALL_S_MAX:
        raise InvalidForm(
            f"a budget of wall time is a number of seconds from 0 to {WALL_S_MAX}", argument="budget.wall_s"
        )
    return _checked(seconds.quantize(Decimal("0.001")), "budget.wall_s")


def _checked(number: Decimal, argument: str) -> Decimal:
    if not is_decimal(decimal_text(number)):
        raise InvalidForm("a budget has at most 40 characters as decimal text", argument=argument)
    return number
