"""What lists are asked with, checked before a row is read: a limit of 0 is nothing, None is no limit."""

from __future__ import annotations

from collections.abc import Iterable

from counterfoil.core.limits import HEADER_INTEGER_MAX
from counterfoil.errors import InvalidForm


def check_limit(limit: object) -> None:
    """Raise ``InvalidForm`` unless a limit is None or a whole number from 0."""
    if limit is not None:
        check_count("limit", limit)


def check_count(argument: str, value: object) -> None:
    """Raise ``InvalidForm`` unless a value is a whole number from 0 that a store can count to."""
    if type(value) is not int or not 0 <= value <= HEADER_INTEGER_MAX:
        raise InvalidForm(
            f"{argument} is a whole number from 0, not {type(value).__name__}"
            if type(value) is not int
            else f"{argument} is a whole number from 0 to 2^53 − 1",
            argument=argument,
        )


def check_texts(argument: str, values: Iterable[object]) -> None:
    """Raise ``InvalidForm`` unless each value that a row is found by is None or whole text."""
    for value in values:
        if value is None:
            continue
        if not isinstance(value, str):
            raise InvalidForm(f"{argument} is text, not {type(value).__name__}", argument=argument)
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise InvalidForm(f"{argument} holds half of a character", argument=argument)
