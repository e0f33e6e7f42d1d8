"""Policy: what an agent wants to do goes in, whether it may comes out (DESIGN 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol

from msgspec import Struct, field

RulingOutcome = Literal["allow", "constrain", "ask", "deny"]
ApprovalScope = Literal["once", "run"]

TOUCHES: Final = frozenset({"money", "data", "access", "messages", "external"})
"""What a tool may touch (DESIGN 7)."""


class Proposal(Struct, frozen=True):
    """A call that an agent wants to make: its own copy of the arguments, and whose call it is.

    ``now_ms`` is the store's clock. Nothing has been recorded or sent when a policy sees it.
    """

    tool: str
    tool_version: str
    touches: tuple[str, ...]
    arguments: Mapping[str, Any]
    agent: str
    tenant: str
    stream_id: str
    run_id: str
    effect_id: str
    now_ms: int


class Asking(Struct, frozen=True):
    """How people are asked: by whom it may be answered, how many have to agree, and for how long it holds.

    ``scope`` ``once`` is for this effect alone, ``run`` for every call of the run with the same arguments. Without
    ``assignees`` anybody but the requester may answer. ``due_s`` says when an answer is wanted and ``expires_s`` when
    request and grant lapse, in seconds from the request on the store's clock.
    """

    question: str = ""
    scope: ApprovalScope = "once"
    assignees: tuple[str, ...] = ()
    needed: int = 1
    due_s: float | None = None
    expires_s: float | None = None


class Ruling(Struct, frozen=True):
    """What a policy says about one proposal.

    ``rules`` are the labels of the rules that decided. ``reasons`` and ``evidence`` become content. ``arguments`` are
    the whole new arguments of a ``constrain``; ``asking`` belongs to an ``ask``.
    """

    outcome: RulingOutcome
    rules: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    evidence: Any = None
    arguments: Mapping[str, Any] | None = None
    asking: Asking = field(default_factory=Asking)


class Policy(Protocol):
    """Judges proposals. Called from any thread, perhaps from several at once; it keeps nothing of what it is given.

    The same revision must rule the same way about the same proposal: a ruling is used again until the revision
    changes. An exception is no ruling: the call is not made, and nothing is recorded.
    """

    @property
    def name(self) -> str:
        """A label, the same in every revision."""
        ...

    @property
    def revision(self) -> str:
        """A label that changes whenever a ruling could."""
        ...

    def snapshot(self) -> Any:
        """The policy in a recordable form, for whoever asks later what applied; one small enough for an event."""
        ...

    def evaluate(self, proposal: Proposal) -> Ruling:
        """The ruling on one proposal."""
        ...
