"""Asking the authorizer, and recording what it said before anybody acts on it (DESIGN 9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from counterfoil.abc.authorizer import ACTIONS, AccessDecision, AccessRequest, Authorizer
from counterfoil.access import events
from counterfoil.access.rows import GLASSES
from counterfoil.core.event_types import CLASSES
from counterfoil.core.forms import is_label, time_ms
from counterfoil.core.keyed import KeyMaterial
from counterfoil.errors import AccessRefused, InvalidForm
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Append, Entry, Events, Flow, NewId, Now, Read, RowOf, UnitDraft
from counterfoil.store.rows import Row
from counterfoil.store.unit import Receipt

PURPOSE_CHARACTERS_MAX: Final = 4_000
NAME_CHARACTERS_MAX: Final = 1_000

GLASS: Final = "glass"
"""The rule that allows because somebody broke the glass."""

AUTHORIZER_FAILED: Final = "authorizer-failed"
"""The rule that refuses where the authorizer raised, or answered with what is no decision."""

THROUGH_GLASS: Final = frozenset({"read", "search"})
"""What breaking the glass gives. It hands nothing out of the ledger and destroys nothing."""

GLASS_MS_MAX: Final = 24 * 3_600_000
"""Longest time for which the glass stays broken; then somebody decides again."""


class Recorded(Struct, frozen=True):
    """A decision and where it is recorded."""

    decision: AccessDecision
    event_id: str
    sequence: int
    at_ms: int


def check_request(request: AccessRequest) -> None:
    """Refuse a request that could not be recorded. Raises InvalidForm naming the argument, never what it held."""
    actor = request.actor
    if request.action not in ACTIONS:
        raise InvalidForm(f"an action is one of {', '.join(ACTIONS)}", argument="action")
    if request.klass is not None and request.klass not in CLASSES:
        raise InvalidForm(f"a class is one of {', '.join(CLASSES)}", argument="classification")
    _check_text(request.purpose, "purpose", "what for", PURPOSE_CHARACTERS_MAX)
    _check_text(actor.name, "actor", "who", NAME_CHARACTERS_MAX)
    if actor.type not in events.PEOPLE and not is_label(actor.name):
        raise InvalidForm("a program is named by a label: 1 to 128 of A-Za-z0-9_.:/+-", argument="actor")


def _check_text(given: Any, argument: str, words: str, characters_max: int) -> None:
    if not isinstance(given, str) or not given.strip():
        raise InvalidForm(f"{argument} says {words}, and may not be empty", argument=argument)
    if len(given) > characters_max:
        raise InvalidForm(f"{argument} has more than {characters_max} characters", argument=argument)


def judge(authorizer: Authorizer, request: AccessRequest) -> AccessDecision:
    """What the authorizer says; whatever else comes of asking it is a refusal."""
    try:
        found: Any = authorizer.decide(request)
    except Exception:  # noqa: BLE001 - the application's code, and it fails closed
        return _FAILED
    # Looked at as anything: not everybody who writes an authorizer runs a type checker.
    answer: Any = (getattr(found, "allowed", None), getattr(found, "rule", None))
    sound = isinstance(found, AccessDecision) and type(answer[0]) is bool
    return AccessDecision(*answer) if sound and is_label(answer[1]) else _FAILED


_FAILED: Final = AccessDecision(allowed=False, rule=AUTHORIZER_FAILED)


def decide(
    authorizer: Authorizer,
    request: AccessRequest,
    *,
    stream_id: str,
    key: KeyMaterial,
    detail: Mapping[str, Any],
) -> Flow[Recorded]:
    """Decide, and record the decision; durable when this returns, whichever it is.

    ``stream_id`` is the tenant's stream of access, ``key`` that of the actor in it, ``detail`` content beside the
    purpose. Raises the StoreError of an append that failed: nothing may be shown then.
    """
    check_request(request)
    decision = yield from ask(authorizer, request, key)
    return (yield from record(request, decision, stream_id=stream_id, key=key, detail=detail))


def ask(authorizer: Authorizer, request: AccessRequest, key: KeyMaterial) -> Flow[AccessDecision]:
    """What the authorizer says, or broken glass allows; nothing is recorded. ``key`` is the actor's."""
    decision = judge(authorizer, request)
    if decision.allowed or request.action not in THROUGH_GLASS or request.actor.type not in events.PEOPLE:
        return decision
    return (yield from _through_glass(request, decision, key))


def record(
    request: AccessRequest,
    decision: AccessDecision,
    *,
    stream_id: str,
    key: KeyMaterial,
    detail: Mapping[str, Any],
) -> Flow[Recorded]:
    """Record a decision; durable when this returns."""
    event_id: str = yield NewId("evt")
    now: int = yield Now()
    draft = events.decided(event_id, now, request, decision, key, detail)
    receipt: Receipt = yield Append(UnitDraft((Entry(stream_id, (draft,)),)))
    return Recorded(decision, event_id, receipt.positions[-1].sequence, now)


def _through_glass(request: AccessRequest, refused: AccessDecision, key: KeyMaterial) -> Flow[AccessDecision]:
    """Allowed after all, where this person has broken the glass and the time has not run out."""
    row: Row | None = yield Read(RowOf(GLASSES.name, (request.tenant, key.key_id)))
    if row is None:
        return refused
    # The row only says where to look: what counts is the event, which the chain protects.
    found: list[Event] = yield Read(Events(str(row["stream_id"]), int(row["sequence"] or 1) - 1, limit=1))
    now: int = yield Now()
    opened = found[0] if found else None
    if (
        opened is None
        or opened.type != events.GLASS_OPENED
        or opened.header.actor.get("id") != key.key_id
        or time_ms(str(opened.data["until"])) <= now
    ):
        return refused
    return AccessDecision(allowed=True, rule=GLASS)


def break_glass(
    authorizer: Authorizer, request: AccessRequest, until_ms: int, *, stream_id: str, key: KeyMaterial
) -> Flow[Recorded]:
    """Let somebody read, until then, what their roles do not give; the purpose is the reason (seed 004).

    Decision and opening are recorded in one append. A refusal is recorded and returned; the caller raises it.
    """
    check_request(request)
    decision = judge(authorizer, request)
    event_id: str = yield NewId("evt")
    now: int = yield Now()
    drafts = [events.decided(event_id, now, request, decision, key, {})]
    if decision.allowed:
        opening: str = yield NewId("evt")
        drafts.append(events.glass_opened(opening, now, request, decision.rule, until_ms, key))
    receipt: Receipt = yield Append(UnitDraft((Entry(stream_id, tuple(drafts)),)))
    return Recorded(decision, event_id, receipt.positions[0].sequence, now)


_HINTS: Final[Mapping[str, str]] = {
    AUTHORIZER_FAILED: "the authorizer raised, or its answer was no AccessDecision; nothing is shown until it answers",
    "no-role": "give the person a role under [access.people] in counterfoil.toml",
    "search-everywhere": "search one conversation, or open the ledger with an authorizer that allows it",
}


def refused(request: AccessRequest, recorded: Recorded) -> AccessRefused:
    """The error of a refused request. It names nobody: the record does."""
    rule = recorded.decision.rule
    return AccessRefused(
        f"to {request.action} this was refused by the rule {rule}",
        hint=_HINTS.get(rule, "ask for a role that may, or break the glass if your role may do that"),
        action=request.action,
        rule=rule,
        event_id=recorded.event_id,
    )
