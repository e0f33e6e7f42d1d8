"""What a run asked for, in order: noted while its code runs again, and read from its record (DESIGN 6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from counterfoil.artifacts.events import STORED
from counterfoil.artifacts.keep import Kept
from counterfoil.core.catalogue import EVENT_TYPES
from counterfoil.effects.compensation import Compensating
from counterfoil.effects.past import DECIDING
from counterfoil.flow.context import RunScope, step_path
from counterfoil.flow.event import Event
from counterfoil.flow.lanes import in_main_lane
from counterfoil.flow.requests import Flow
from counterfoil.journal.fold import json_hash
from counterfoil.runtime.checking import CHECKED
from counterfoil.runtime.facts import Facts
from counterfoil.runtime.resume import NOTED_TYPES, Identity, Record

if TYPE_CHECKING:
    from counterfoil.effects.tool import Tool

_NOTED_KINDS: Final[Mapping[str, str]] = {
    "admission.absorbed": "absorb",
    "child.started": "child",
    "compaction.recorded": "compaction",
    "draft.checkpointed": "draft",
    "sandbox.probed": "sandbox",
    "schedule.created": "sleep",
    "schedule.fired": "awake",
    "state.cleared": "state",
    "state.set": "state",
}
"""What the code asks for with an event that is all there is to it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One thing that a run asked for: a ``tool`` with its arguments, a ``model`` with its request, ``code``, or a note.

    A note (``state``, ``compaction``, ``draft``, …) is known by its digest alone, the id of its event, and is only shown by
    name. So is a ``fact`` of the application, and an ``artifact``.
    """

    kind: str
    name: str
    digest: str
    shown: str = field(default="", compare=False)


class Noted:
    """What the code of a replay asks for; ``in_order`` is False where tasks or threads did so side by side."""

    def __init__(self, scope: RunScope) -> None:
        self.asked: list[Asked] = []
        self.in_order: bool = True
        record: Record = _NotingRecord(scope, self)
        calls: Compensating = _NotingCalls(scope, self)
        scope.seat(Record, record)
        facts: Facts = _NotingFacts(scope, self)
        kept: Kept = _NotingKept(scope, self)
        scope.seat(Facts, facts)
        scope.seat(Kept, kept)
        scope.seat(Compensating, calls)

    def note(self, asked: Asked) -> None:
        """The code asks; what it asks for inside a step belongs to the step."""
        if step_path():
            return
        self.in_order = self.in_order and in_main_lane()
        self.asked.append(asked)


class _NotingRecord(Record):
    """A run's record that says what is taken from it."""

    def __init__(self, scope: RunScope, noted: Noted) -> None:
        super().__init__(scope)
        self._noted = noted

    def take(self, identity: Identity) -> Event | None:
        self._noted.note(_of(identity))
        return super().take(identity)

    def live(self, identity: Identity) -> None:
        if identity.kind == "state":
            # A slot is looked for without being taken.
            self._noted.note(_of(identity))
        super().live(identity)


class _NotingFacts(Facts):
    """Every fact is looked for before it is recorded."""

    def __init__(self, scope: RunScope, noted: Noted) -> None:
        super().__init__(scope)
        self._noted = noted

    def recorded(self, scope: RunScope, event_type: str, event_id: str) -> Flow[bool]:
        self._noted.note(Asked("fact", event_type, event_id))
        return super().recorded(scope, event_type, event_id)


class _NotingKept(Kept):
    """Every artifact is looked for before its bytes are read."""

    def __init__(self, scope: RunScope, noted: Noted) -> None:
        super().__init__(scope)
        self._noted = noted

    def recorded(self, kind: str, event_id: str) -> Flow[Event | None]:
        self._noted.note(Asked("artifact", kind, event_id))
        return super().recorded(kind, event_id)


def _of(identity: Identity) -> Asked:
    if identity.kind in _NOTED_KINDS.values():
        return Asked(identity.kind, "", identity.memo, identity.name)
    return Asked(identity.kind, identity.name, identity.memo)


class _NotingCalls(Compensating):
    """Every call of a tool asks for its key first, whatever becomes of it."""

    def __init__(self, scope: RunScope, noted: Noted) -> None:
        super().__init__(scope)
        self._noted = noted

    def key_of(
        self, tool: Tool[..., Any], arguments: Mapping[str, Any], recorded: Mapping[str, Any]
    ) -> str | None:
        self._noted.note(Asked("tool", tool.name, json_hash(recorded) or ""))
        return super().key_of(tool, arguments, recorded)


class Recorded(Struct, frozen=True):
    """What a record says was asked for, in order; of these, ``perhaps`` was asked for by something that was under way.

    That is a step beside which the call stood, and for facts and artifacts also a tool or a model.
    """

    asked: list[Asked]
    perhaps: Counter[Asked]


def asked_of(record: Iterable[Event]) -> Recorded:
    """What a run's record says that it asked for; what stands inside a step of code belongs to the step."""
    events = list(record)
    ended = {event.header.step_id: event for event in events if event.type == "step.finished"}
    found = Recorded([], Counter())
    effects: set[str] = set()
    inside_until = beside_until = 0
    under_way = UnderWay()
    for event in events:
        under_way.goes_on(event)
        if event.sequence < inside_until:
            continue
        if event.type == "step.started":
            end = ended.pop(event.header.step_id, None)
            if end is None or end.data["outcome"] == "cancelled" or _content(end).get("path"):
                continue
            found.asked.append(_unit(event, end))
            if end.data["kind"] == "code" and _content(end).get("lane") == "main":
                inside_until = end.sequence
            elif end.data["kind"] == "code":
                beside_until = max(beside_until, end.sequence)
        elif event.type in NOTED_TYPES:
            found.asked.append(_noted(event))
        elif (
            event.type in {"decision.proposed", "effect.intended"} and event.data["effect_id"] not in effects
        ):
            effects.add(event.data["effect_id"])
            call = Asked("tool", event.data["tool"], json_hash(_content(event).get("arguments")) or "")
            found.asked.append(call)
            if event.sequence < beside_until:
                found.perhaps[call] += 1
        elif (fact := fact_of(event)) is not None:
            found.asked.append(fact)
            if under_way.anything:
                found.perhaps[fact] += 1
    return found


class UnderWay:
    """Steps and calls of tools that have begun and not ended, going through a record.

    Code inside of them may keep and record too, and no replay calls it.
    """

    def __init__(self) -> None:
        self._steps: set[str | None] = set()
        self._effects: set[str] = set()

    @property
    def anything(self) -> bool:
        """Whether something is under way."""
        return bool(self._steps or self._effects)

    def goes_on(self, event: Event) -> None:
        """The next event of the record."""
        if event.type == "step.started":
            self._steps.add(event.header.step_id)
        elif event.type == "step.finished":
            self._steps.discard(event.header.step_id)
        elif event.type == "effect.intended":
            self._effects.add(event.data["effect_id"])
        elif event.type in DECIDING:
            self._effects.discard(event.data["effect_id"])


def fact_of(event: Event) -> Asked | None:
    """A fact of the application, a check or an artifact of the run; None for what is no such thing."""
    if event.type == STORED:
        return Asked("artifact", event.header.artifact_refs[0]["kind"], event.event_id)
    if event.type == CHECKED or event.type not in EVENT_TYPES:
        return Asked("fact", event.type, event.event_id)
    return None


def _unit(begun: Event, end: Event) -> Asked:
    name = _content(begun).get("name")
    return Asked(end.data["kind"], name if isinstance(name, str) else end.data["name"], end.data["memo"])


def _noted(event: Event) -> Asked:
    kind = _NOTED_KINDS.get(event.type, event.type.partition(".")[0])
    return Asked(kind, "", event.event_id, str(event.data.get("slot") or event.data.get("sandbox") or ""))


def _content(event: Event) -> Mapping[str, Any]:
    return event.content_or_none() or {}


def once(asked: Iterable[Asked], record: Counter[Asked]) -> list[Asked]:
    """Without repeats that the record does not have: a repeated call of a tool gets the first one's outcome."""
    seen: Counter[Asked] = Counter()
    kept: list[Asked] = []
    for one in asked:
        seen[one] += 1
        if one.kind != "tool" or seen[one] <= max(1, record[one]):
            kept.append(one)
    return kept
