"""Checks around a turn: screening what comes in, what goes out and what a model is asked, for sub-agents too (seed 000).

Hooks belong to the context and not to the journal: they run whether or not it is switched on, and a turn that begins
inside another one, on the same thread or task, has those of its parent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal

from msgspec import Struct

from counterfoil.errors import TurnRefused

Check = Callable[[Any], str | None]
"""Takes what is to be checked; returns why it is refused, or None."""

Side = Literal["inbound", "outbound", "model"]


class Hooks(Struct, frozen=True):
    """Named checks: of the message that comes in, of the answer that goes out, of each request to a model."""

    inbound: tuple[tuple[str, Check], ...] = ()
    outbound: tuple[tuple[str, Check], ...] = ()
    model: tuple[tuple[str, Check], ...] = ()

    def __add__(self, other: Hooks) -> Hooks:
        return Hooks(self.inbound + other.inbound, self.outbound + other.outbound, self.model + other.model)

    def of(self, side: Side) -> tuple[tuple[str, Check], ...]:
        """The checks of one side, in the order in which they were applied."""
        return {"inbound": self.inbound, "outbound": self.outbound, "model": self.model}[side]


_hooks: ContextVar[Hooks] = ContextVar("counterfoil_journal_hooks", default=Hooks())  # noqa: B039 - frozen


@contextmanager
def hooks_applied(hooks: Hooks) -> Iterator[None]:
    """Add these checks to those of the context, for this block and every turn that begins in it."""
    token = _hooks.set(_hooks.get() + hooks)
    try:
        yield
    finally:
        _hooks.reset(token)


def current_hooks() -> Hooks:
    """The checks that apply here."""
    return _hooks.get()


def run_hooks(side: Side, value: Any, note: Callable[[str, Side, bool], None]) -> None:
    """Run the checks of one side; ``note`` is told each one's name and whether it passed. Raises ``TurnRefused``."""
    for name, check in _hooks.get().of(side):
        refused = check(value)
        note(name, side, refused is None)
        if refused is not None:
            raise TurnRefused(f"{name} refused what is {side}: {refused}", hook=name, side=side)
