"""The rules about effects, pure: what to do about doubt, about an answer that comes late, about a settlement."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from counterfoil.effects.doubt import OUTCOMES, DoubtKind
from counterfoil.effects.state import IN_DOUBT

ATTEMPTS_MAX: Final = 50
"""Attempts of one effect in all; after them a human is asked.

A worker that pauses between passes as it does comes to them after three hours and a half: a provider that is away for an
hour leaves people no heap of reviews. Providers forget keys after a day, so it is not longer.
"""

ATTEMPTS_A_PASS: Final = 3
"""Attempts inside one call or one recovery; after them the doubt is left to a later recovery."""

ATTEMPTS_AT_FIRST: Final = 2 * ATTEMPTS_A_PASS
"""After so many, a recovery tries once: what has not come through for so long does not within a second."""

LOOKUPS_MAX: Final = 100
"""Lookups of one effect in all that brought no answer; after them a human is asked. A worker comes to them in a night."""

LOOKUPS_A_PASS: Final = 3
"""Lookups inside one call or one recovery that brought no answer."""

LOOKUPS_AT_FIRST: Final = 3 * LOOKUPS_A_PASS
"""After so many, a recovery asks once: what has not been reached for so long is not reached within a second."""

ABSENT_EARLY: Final = 2
"""Times the provider must say "absent" before the deadline: the request of a broken call may still be on its way."""

ABSENT_PAUSE_MS: Final = 1_000
"""Pause between the two."""

DELAYS_MS: Final = (200, 1_000, 5_000)
"""Pause before the second, third, … lookup or attempt of a pass."""

ReviewCause = Literal[
    "by_review", "absent", "cannot_tell", "contradicted", "schema_changed", "key_missing", "policy"
]


class Case(Struct, frozen=True):
    """An effect in doubt, as far as the rules care.

    ``deadline_ms``: until then the last attempt may still reach the provider. ``ended``: its call came back, so no
    call of ours is under way. ``answer`` is the provider's answer since the last attempt, given at ``answered_ms``;
    ``reached`` says whether the provider was asked at all, or the question did not get through. ``…_here`` count
    inside this call or this recovery.
    """

    doubt: DoubtKind
    deadline_ms: int
    attempt: int = 1
    lookups: int = 0
    ended: bool = False
    answer: Literal["absent", "cannot_tell"] | None = None
    answered_ms: int = 0
    reached: bool = True
    attempts_here: int = 0
    lookups_here: int = 0
    absent_here: int = 0


class WaitUntil(Struct, frozen=True):
    """Look again at this time of the store's clock."""

    time_ms: int


class LookUp(Struct, frozen=True):
    """Ask the provider, after a pause."""

    delay_ms: int


class SendAgain(Struct, frozen=True):
    """A new attempt with the same key, after a pause."""

    delay_ms: int


class AskHuman(Struct, frozen=True):
    """No way out is left to the machine."""

    cause: ReviewCause


class Leave(Struct, frozen=True):
    """Enough tried for now; the effect stays in doubt and a later recovery goes on."""


Step = WaitUntil | LookUp | SendAgain | AskHuman | Leave


def next_step(case: Case, now_ms: int) -> Step:
    """What the doubt rule says to do next (DESIGN 7).

    An attempt that may be under way in another worker is left alone until its deadline. ``Absent`` sends again only
    under ``lookup_then_key``; under ``lookup`` alone it goes to a human, and before the deadline it is asked twice.
    """
    if case.doubt == "review":
        return AskHuman("by_review")
    if not case.ended and now_ms < case.deadline_ms:
        return WaitUntil(case.deadline_ms)
    if case.doubt in ("key", "repeat"):
        return _send_again(case)
    match case.answer:
        case None:
            return LookUp(0)
        case "absent" if case.doubt == "lookup_then_key":
            return _send_again(case)
        case "absent" if case.answered_ms >= case.deadline_ms or case.absent_here >= ABSENT_EARLY:
            return AskHuman("absent")
        case "absent":
            return LookUp(ABSENT_PAUSE_MS)
        case "cannot_tell":
            return _ask_again(case)


def _send_again(case: Case) -> Step:
    if case.attempt >= ATTEMPTS_MAX:
        return AskHuman("cannot_tell")
    if case.attempts_here >= (ATTEMPTS_A_PASS if case.attempt < ATTEMPTS_AT_FIRST else 1):
        return Leave()
    return SendAgain(_delay(case.attempts_here))


def _ask_again(case: Case) -> Step:
    """A provider that answers "I cannot tell" leaves it to a human; one that was not reached may answer later."""
    patient = case.reached or case.lookups < LOOKUPS_AT_FIRST
    if case.lookups_here < (LOOKUPS_A_PASS if patient else 1):
        return LookUp(_delay(case.lookups_here))
    return AskHuman("cannot_tell") if case.reached or case.lookups >= LOOKUPS_MAX else Leave()


def _delay(tries: int) -> int:
    return DELAYS_MS[min(tries, len(DELAYS_MS)) - 1] if tries else 0


# ---- an answer that comes after its effect was given up --------------------------------------------------------


Late = Literal["ignore", "keep", "reopen", "contradict"]


def judge_late(state: str, recorded: str | None, attempt: int, found: str, found_attempt: int) -> Late:
    """What a late observation means (DESIGN 2.6): kept; contradicting what is recorded; or nothing.

    ``recorded`` is the outcome the effect has now. An older attempt that was not done says nothing about the effect
    while a newer one may have done it. Agreement does not end a contradiction: its review is asked for again.
    """
    if found == "unknown" or (found == "failed" and found_attempt < attempt):
        return "ignore"
    if state in IN_DOUBT or state == "in_review":
        return "keep"
    if recorded != found:
        return "contradict"
    return "reopen" if state == "contradicted" else "keep"


def recorded_word(state: str, outcome: str | None) -> str:
    """How ``effect.contradicted`` names what was recorded: an outcome, or ``settled`` by a human."""
    if state != "contradicted":
        return state
    return outcome if outcome in OUTCOMES else "settled"


# ---- settlement --------------------------------------------------------------------------------------------------


Settling = Literal["settle", "same", "refuse"]


def judge_settlement(review_state: str, settled_as: str | None, outcome: str) -> Settling:
    """Whether a settlement is new, the same as before (nothing to do), or at odds with what was settled."""
    if review_state == "open":
        return "settle"
    return "same" if settled_as == outcome else "refuse"
