"""Authorizer: who wants to see what, and why, goes in; whether they may comes out (DESIGN 9)."""

from __future__ import annotations

from typing import Final, Literal, Protocol

from msgspec import Struct

AccessAction = Literal["read", "search", "export", "disclose", "erase", "glass"]

ACTIONS: Final[tuple[AccessAction, ...]] = ("read", "search", "export", "disclose", "erase", "glass")
"""What may be asked for (FORMAT 7, ``access.decided``). ``glass`` is to break the glass: to read for a while what one's
roles do not give."""

ActorType = Literal["human", "user", "agent", "worker", "service", "system"]


class Actor(Struct, frozen=True):
    """Who asks: a person by the name that your application knows them by, or a program by its label."""

    name: str
    type: ActorType = "human"


class AccessRequest(Struct, frozen=True):
    """What somebody wants to do, and what for.

    ``stream_id`` None is every conversation of the tenant. ``klass`` is the highest class that will be shown (None: where
    the action has none). ``permission`` and ``principal`` are those of the operation that made an artifact, if it
    recorded any: ``principal`` is the data key of the person for whom it acted, and ``acts_for`` that of the person
    for whom the asking run acts.
    """

    action: AccessAction
    actor: Actor
    purpose: str
    tenant: str = "default"
    stream_id: str | None = None
    event_id: str | None = None
    klass: str | None = None
    permission: str | None = None
    principal: str | None = None
    acts_for: str | None = None


class AccessDecision(Struct, frozen=True):
    """Whether it is allowed. ``rule`` is the label of the rule that decided; it stands in a header, so it names nobody."""

    allowed: bool
    rule: str


class Authorizer(Protocol):
    """Decides requests. Called from any thread, perhaps from several at once; it keeps nothing of what it is given.

    What it raises, and an answer that is no decision, count as a refusal: nothing is shown. The decision is recorded
    before anything is shown, so an authorizer records nothing itself.
    """

    def decide(self, request: AccessRequest) -> AccessDecision:
        """The decision on one request."""
        ...
