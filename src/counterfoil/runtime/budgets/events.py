"""Typed constructors of the events about budgets (FORMAT 7): header fields alone, no content."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from counterfoil.runtime.budgets.limits import Limit, decimal_text
from counterfoil.runtime.events import Said


def budget_set(limit: Limit) -> Said:
    """A limit holds for the run from here on."""
    return Said("budget.set", _fields(limit))


def budget_exceeded(limit: Limit, spent: Decimal | None) -> Said:
    """The run stops because of this limit. Without ``spent`` what was spent has no sum in its currency."""
    said = {} if spent is None else {"spent": decimal_text(spent)}
    return Said("budget.exceeded", {**_fields(limit), **said})


def _fields(limit: Limit) -> Mapping[str, str]:
    currency = {} if limit.currency is None else {"currency": limit.currency}
    return {"budget": limit.kind, "limit": limit.text, **currency}
