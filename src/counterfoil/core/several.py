"""Arguments that take several names: one text given alone would be taken as its letters, and fit nothing."""

from __future__ import annotations

from typing import Any

from counterfoil.errors import InvalidForm


def several(given: Any, argument: str) -> tuple[str, ...]:
    """The names as given. Raises InvalidForm for a text in their place, or for what is no text among them.

    Taken as anything: not everybody who calls this runs a type checker.
    """
    if isinstance(given, str | bytes):
        raise InvalidForm(
            f"{argument} takes several names, not one text",
            hint=f"put it into a list: {argument}=[…]",
            argument=argument,
        )
    try:
        names: tuple[Any, ...] = tuple(given)
    except TypeError:
        names = (None,)
    if not all(isinstance(name, str) for name in names):
        raise InvalidForm(f"{argument} takes names: a list or a set of texts", argument=argument)
    return names
