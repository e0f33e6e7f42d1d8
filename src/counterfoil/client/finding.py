"""What one check of a ledger's health came to, as data."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

State = Literal["ok", "warn", "bad", "unknown"]
Unit = Literal["", "ms", "bytes", "count"]
Subject = Literal["store", "keys", "work"]

ORDER: Final[tuple[State, ...]] = ("ok", "unknown", "warn", "bad")
"""States, the worst last."""


class Finding(Struct, frozen=True):
    """One thing that was looked at.

    ``value`` is in ``unit``, None where there is none; ``at_least`` says that it is a lower bound, because counting
    stopped. ``means`` says what it means, ``do`` what to do about it (empty: nothing). ``about`` is what it concerns:
    the store, the keys, or work that waits for somebody.
    """

    name: str
    about: Subject
    state: State
    value: int | str | None
    unit: Unit
    means: str
    do: str = ""
    at_least: bool = False
