"""Running a turn again through the same tool decorator and journal, and comparing what it did (seed 000)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from counterfoil.errors import ToolNotFound
from counterfoil.journal.event import TurnEvent
from counterfoil.journal.memory import MemoryJournal
from counterfoil.journal.settings import JournalSettings
from counterfoil.journal.tenant import current_tenant
from counterfoil.journal.turns import TurnJournals
from counterfoil.replay.model import Answer, Replayed, ReplayModel

Tools = Mapping[str, Callable[..., Any]]
Agent = Callable[[ReplayModel, Tools, Any], Any]
"""``agent(model, tools, message)`` asks the model, calls the tools, and returns the answer."""

_TOOL: Final = re.compile(r"(?:^| )tool=(\S+)").search


def plain_agent(model: ReplayModel, tools: Tools, message: Any) -> Any:
    """The plainest agent there is: ask, call what is wanted, tell the result, until there is an answer."""
    told = message
    while True:
        decision = model(told)
        if isinstance(decision, Answer):
            return decision.text
        tool = tools.get(decision.name)
        if tool is None:
            raise ToolNotFound(
                f"the replay has no tool {decision.name}", hint="give it one, or a stub of one"
            )
        told = tool(**decision.arguments)


def replay_turn(
    model: ReplayModel,
    tools: Tools,
    message: Any = None,
    *,
    agent: Agent = plain_agent,
    agent_id: str = "replay",
) -> Replayed:
    """Run a turn against the stub, with a journal in memory. Raises what the agent raises.

    ``tools`` are called: give stubs for those that reach outside.
    """
    journal = MemoryJournal()
    journals = TurnJournals(journal, JournalSettings(enabled=True), mode="synchronous")
    with journals.begin(agent_id, message=message) as turn:
        answer = turn.answer(
            agent(model, {name: turn.tool(fn, name=name) for name, fn in tools.items()}, message)
        )
    journals.flush()
    return Replayed(journal.events(current_tenant(), turn.turn_id), answer)


class Behaviour(Struct, frozen=True):
    """Whether two turns did the same. ``at`` counts tool calls from 0; None where the answers differ, or nothing does."""

    difference: str = ""
    at: int | None = None

    @property
    def same(self) -> bool:
        """Whether no difference was found."""
        return not self.difference

    def __bool__(self) -> bool:
        return self.same


def same_behaviour(recorded: Sequence[TurnEvent], replayed: Sequence[TurnEvent]) -> Behaviour:
    """Compare the tool calls in order, each by name and digest of its arguments, and the digest of the final answer.

    Of a turn that failed over, the last attempt counts. Lengths, models and guards may differ.
    """
    before, after = _calls(recorded), _calls(replayed)
    for at, (one, other) in enumerate(zip(before, after, strict=False)):
        if one[0] != other[0]:
            return Behaviour(f"call {at} is of {other[0]}, recorded was {one[0]}", at)
        if one[1] != other[1]:
            return Behaviour(f"call {at} of {one[0]} has other arguments than recorded", at)
    if len(before) != len(after):
        return Behaviour(
            f"{len(after)} calls of tools where {len(before)} are recorded", min(len(before), len(after))
        )
    if _answer(recorded) != _answer(replayed):
        return Behaviour("the final answer differs from the recorded one")
    return Behaviour()


def _last_attempt(events: Sequence[TurnEvent]) -> Sequence[TurnEvent]:
    begins = [place for place, event in enumerate(events) if event.type == "INTAKE"]
    return events[begins[-1] :] if begins else events


def _calls(events: Sequence[TurnEvent]) -> list[tuple[str, str | None]]:
    calls = [event for event in _last_attempt(events) if event.type == "TOOL_CALL"]
    return [(found[1] if (found := _TOOL(call.summary)) else "", call.payload_hash) for call in calls]


def _answer(events: Sequence[TurnEvent]) -> str | None:
    commits = [event for event in _last_attempt(events) if event.type == "COMMIT"]
    return commits[-1].payload_hash if commits else None
