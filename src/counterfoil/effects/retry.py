"""Retry policies: which confirmed failures of a tool are tried again, how often, and after which pause (DESIGN 7)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import Struct

from counterfoil.errors import NotDone, ToolInvalid

ATTEMPTS_MAX: Final = 50
"""Most attempts a policy may ask for; whoever needs more does not wait for a provider, but for a person."""

DELAY_S_MAX: Final = 7 * 86_400
"""Longest pause between two attempts, also where the provider asks for a longer one."""

RETRY_AFTER: Final = "retry_after_s"
"""Field of the error in which a tool hands on how many seconds its provider wants to be left alone."""

CHANCE_BITS: Final = 32
"""Random bits that one delay takes."""


class Retry(Struct, frozen=True):
    """When a tool that was confirmed not to have acted is tried again, by itself and under the same key.

    ``attempts`` counts the first one. The pause before the second is ``first_delay_s`` seconds and grows by ``factor``
    up to ``delay_max_s``; chance takes up to the part ``jitter`` of it away, so that many callers do not come back
    together. ``within_s`` seconds after the first intention nothing more is tried (None: no such end). ``on`` names
    the errors it is for: :class:`counterfoil.NotDone` and its subclasses; for a tool that touches nothing, any. A
    pause of more than ``wait_s`` seconds is not waited for in place: the run is parked until it is over.

    A field ``retry_after_s`` of the error makes the pause at least that long. An outcome that is unknown is no
    failure: only the doubt rule says what becomes of it. Raises :class:`counterfoil.errors.ToolInvalid`.

    >>> from counterfoil.effects import Retry
    >>> Retry(attempts=3, first_delay_s=2, jitter=0).delays_s
    (2.0, 4.0)
    """

    attempts: int = 5
    first_delay_s: float = 1.0
    factor: float = 2.0
    delay_max_s: float = 60.0
    jitter: float = 0.5
    within_s: float | None = None
    on: type[Exception] | tuple[type[Exception], ...] = NotDone
    wait_s: float = 30.0

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem is not None:
            raise ToolInvalid(f"a retry policy cannot be like this: {problem}")

    @property
    def delays_s(self) -> tuple[float, ...]:
        """The pauses before the second, third, … attempt in seconds, before chance takes its part."""
        return tuple(self._delay_s(number) for number in range(1, self.attempts))

    def _delay_s(self, attempt: int) -> float:
        """The pause after this attempt; the exponent is bounded, as no float holds every power."""
        return min(self.first_delay_s * self.factor ** min(attempt - 1, 64), self.delay_max_s)

    def delay_ms(self, attempt: int, chance: float) -> int:
        """The pause after this attempt in milliseconds; ``chance`` is from 0 (all of it) to below 1."""
        return round(self._delay_s(attempt) * (1 - self.jitter * chance) * 1000)


class Decision(Struct, frozen=True):
    """What is decided about one failure: whether it is tried again, of how many attempts, and after which pause."""

    retry: bool
    attempts_max: int
    delay_ms: int = 0


def policies_of(given: Any, tool: str, *, any_error: bool) -> tuple[Retry, ...]:
    """The policies of a tool as declared: one, several (the first that names the error counts), or none.

    ``any_error``: the tool touches nothing, so whatever it raises is a failure. Raises ToolInvalid.
    """
    if given is None:
        return ()
    listed: Iterable[Any] = (given,) if isinstance(given, Retry) else _listed(given, tool)
    policies = tuple(listed)
    for policy in policies:
        if not isinstance(policy, Retry):
            raise ToolInvalid(f"tool {tool}: retry is a Retry(…) or several of them", tool=tool)
        wrong = [kind for kind in _kinds(policy) if not any_error and not issubclass(kind, NotDone)]
        if wrong:
            raise ToolInvalid(
                f"tool {tool} cannot be declared: after {wrong[0].__name__} its outcome is unknown, and no policy may"
                " try it again",
                hint="raise NotDone, or a subclass, where it is certain that nothing was done;"
                " what is unknown is ended by the doubt rule",
                tool=tool,
            )
    return policies


def decide(
    policies: Sequence[Retry],
    error: BaseException | None,
    attempt: int,
    began_ms: int,
    now_ms: int,
    chance: float,
) -> Decision:
    """Whether a confirmed failure is tried again. ``attempt`` is the one that failed, ``began_ms`` the first intention."""
    policy = next((each for each in policies if isinstance(error, each.on)), None)
    if policy is None:
        return Decision(retry=False, attempts_max=attempt)
    if attempt >= policy.attempts:
        return Decision(retry=False, attempts_max=policy.attempts)
    delay_ms = max(policy.delay_ms(attempt, chance), _asked_for_ms(error))
    if policy.within_s is not None and now_ms + delay_ms > began_ms + round(policy.within_s * 1000):
        return Decision(retry=False, attempts_max=policy.attempts)
    return Decision(retry=True, attempts_max=policy.attempts, delay_ms=delay_ms)


def waits_in_place(policies: Sequence[Retry], delay_ms: int) -> bool:
    """Whether a pause is short enough to be waited for by the call itself; the longest patience of the policies counts."""
    return delay_ms <= round(max((each.wait_s for each in policies), default=0) * 1000)


def _asked_for_ms(error: BaseException | None) -> int:
    asked = getattr(error, RETRY_AFTER, None)
    if isinstance(asked, bool) or not isinstance(asked, int | float) or not 0 < asked < float("inf"):
        return 0
    return round(min(asked, DELAY_S_MAX) * 1000)


def _listed(given: Any, tool: str) -> Iterable[Any]:
    if isinstance(given, list | tuple):
        return given
    raise ToolInvalid(f"tool {tool}: retry is a Retry(…) or several of them", tool=tool)


def _kinds(policy: Retry) -> tuple[type[Exception], ...]:
    return policy.on if isinstance(policy.on, tuple) else (policy.on,)


def _problem(policy: Retry) -> str | None:
    """Taken as anything: not everybody who writes a policy runs a type checker."""
    given: Any = policy
    kinds = given.on if isinstance(given.on, tuple) else (given.on,)
    if type(given.attempts) is not int or not 1 <= given.attempts <= ATTEMPTS_MAX:
        return f"attempts is a whole number from 1 to {ATTEMPTS_MAX}"
    for name, least, most in (
        ("first_delay_s", 0, DELAY_S_MAX),
        ("factor", 1, 1_000),
        ("delay_max_s", 0, DELAY_S_MAX),
        ("jitter", 0, 1),
        ("wait_s", 0, 86_400),
    ):
        value = getattr(given, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            return f"{name} is a number from {least} to {most}"
    if given.within_s is not None and (
        isinstance(given.within_s, bool)
        or not isinstance(given.within_s, int | float)
        or not given.within_s > 0
    ):
        return "within_s is a number of seconds above 0, or None"
    if not kinds or not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
        return "on is a class of errors, or a tuple of classes"
    return None
