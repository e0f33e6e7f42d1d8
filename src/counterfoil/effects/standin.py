"""In whose hands the calls of a run are where they are not to be made: a rehearsal answers them itself (DESIGN 6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from counterfoil.core.event import Draft
from counterfoil.flow.context import RunScope
from counterfoil.flow.requests import Flow

if TYPE_CHECKING:
    from counterfoil.abc.policy import Ruling
    from counterfoil.effects.handle import Handle
    from counterfoil.effects.tool import Tool

Answering = Callable[["RunScope", "Tool[..., Any]", Mapping[str, Any], "Handle"], Flow[Any]]


class StandIn:
    """Answers the calls of a run in place of its tools (``scope.part(StandIn)``); None: they are made.

    Where it stands nothing is intended, no key is taken, nobody is asked, and no tool is called, also when the ledger
    is down.
    """

    def __init__(self, scope: RunScope) -> None:
        del scope
        self.answer: Answering | None = None


class Judged(Struct, frozen=True):
    """A policy's ruling on a call that is not going to be made, with what is recorded of it.

    ``recorded`` are the arguments as the policy allows them; ``enforced`` False: the policy is only tried out.
    """

    effect_id: str
    policy: str
    revision: str
    ruling: Ruling
    recorded: Mapping[str, Any]
    enforced: bool
    drafts: tuple[Draft, ...]
