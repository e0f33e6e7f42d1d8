"""Doubt rules: how a tool's provider can be asked what became of a call, declared once with the tool (DESIGN 7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, get_args

from msgspec import Struct
from msgspec.structs import force_setattr

from counterfoil.errors import ToolInvalid
from counterfoil.errors.base import text_of

DoubtKind = Literal["lookup", "lookup_then_key", "key", "repeat", "review"]
"""The rule as ``effect.intended`` records it, so that the limitation is explicit (FORMAT 7)."""

Outcome = Literal["succeeded", "rejected", "failed"]
"""What is known for certain about an effect; ``failed`` is confirmed not done."""

OUTCOMES: Final[tuple[str, ...]] = get_args(Outcome)


class Found(Struct, frozen=True):
    """A lookup's answer: the provider knows this effect, and how it ended.

    ``result`` is what the tool would have returned; it is recorded and handed to the code that resumes.

    >>> counterfoil.Found("succeeded", {"id": "re_1"}).outcome
    'succeeded'
    """

    outcome: Outcome
    result: Any = None

    def __post_init__(self) -> None:
        plain = next((outcome for outcome in OUTCOMES if outcome == self.outcome), None)
        if plain is None:
            raise ToolInvalid(
                f"Found takes the outcome {', '.join(OUTCOMES)}, not {text_of(self.outcome)[:40]!r}",
                hint="a provider that is still working on it is CannotTell",
            )
        force_setattr(self, "outcome", plain)


class Absent(Struct, frozen=True):
    """A lookup's answer: the provider has no such effect. Licenses a retry only under ``then=by_key()``.

    >>> def find_refund(idempotency_key):
    ...     return counterfoil.Absent()
    """


class CannotTell(Struct, frozen=True):
    """A lookup's answer: the provider does not know, or not yet. ``reason`` is recorded as content.

    >>> counterfoil.CannotTell("the payment is being processed").reason
    'the payment is being processed'
    """

    reason: str = ""


Answer = Found | Absent | CannotTell
Lookup = Callable[..., Any]
"""``fn(idempotency_key=…, **arguments)`` giving an :data:`Answer`, or a coroutine of one if the tool is async."""


class DoubtRule(Struct, frozen=True):
    """What may be done about an effect whose outcome is unknown. Made by the four ``by_…`` functions."""

    kind: DoubtKind
    lookup: Lookup | None = None


def by_key() -> DoubtRule:
    """The provider deduplicates: the same call is sent again with the same idempotency key.

    >>> counterfoil.by_key().kind
    'key'
    """
    return DoubtRule("key")


def by_lookup(fn: Lookup, then: DoubtRule | None = None) -> DoubtRule:
    """The provider can be asked. ``fn(idempotency_key=…, **arguments)`` answers Found, Absent or CannotTell.

    ``Absent`` sends the call again only with ``then=by_key()``; otherwise a human settles it. A function that does
    not take every argument gets those it names. Raises :class:`counterfoil.errors.ToolInvalid`.

    >>> book = {}
    >>> def find_refund(idempotency_key):
    ...     found = book.get(idempotency_key)
    ...     return counterfoil.Found("succeeded", found) if found else counterfoil.Absent()
    >>> counterfoil.by_lookup(find_refund, then=counterfoil.by_key()).kind
    'lookup_then_key'
    """
    if not callable(fn):
        raise ToolInvalid("by_lookup takes the function that asks the provider")
    if then is None:
        return DoubtRule("lookup", fn)
    if then.kind != "key":
        raise ToolInvalid("by_lookup takes then=by_key() or nothing: no other rule makes a retry safe")
    return DoubtRule("lookup_then_key", fn)


def by_repeating() -> DoubtRule:
    """The tool touches nothing, so it may run again; each occurrence is a step of its own.

    >>> counterfoil.by_repeating().kind
    'repeat'
    """
    return DoubtRule("repeat")


def by_review() -> DoubtRule:
    """Nobody can be asked: doubt waits, visibly, for a human who settles it.

    >>> counterfoil.by_review().kind
    'review'
    """
    return DoubtRule("review")


def answer_of(given: Any) -> Answer:
    """What a lookup returned as an answer; the classes themselves count, and anything else cannot tell."""
    if isinstance(given, Found | Absent | CannotTell):
        return given
    if given is Absent:
        return Absent()
    if given is CannotTell:
        return CannotTell()
    return CannotTell(f"the lookup returned {type(given).__name__}, which is no answer")
