"""What the record of a run holds for a rehearsal of it: answers of models, results of steps, outcomes of effects."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from counterfoil.core import canonical
from counterfoil.core.values import comparable
from counterfoil.effects.past import DECIDING
from counterfoil.flow.event import Event
from counterfoil.journal.fold import json_hash

ORIGINAL_TYPES: Final = DECIDING | {
    "admission.absorbed",
    "child.settled",
    "child.started",
    "decision.proposed",
    "effect.intended",
    "policy.evaluated",
    "provider.failed",
    "provider.requested",
    "provider.responded",
    "retry.decided",
    "run.finished",
    "run.started",
    "step.finished",
    "step.started",
}

_UNDECIDED: Final = "the rehearsed run made it, and what became of it is not on record"
_NOT_MADE: Final = "the rehearsed run did not make it with these arguments"
_REFUSED: Final = "the rehearsed run asked for it, and it was not permitted there"


class Missing(Struct, frozen=True):
    """Nothing on record answers a call, and why."""

    why: str


class Original:
    """The record of one run, taken from in the order in which it was made.

    The same request, step or call gets its recorded answers one after the other; of a call the last one goes on
    answering, as a repeated call gets the first one's outcome. ``address`` is that of bytes under the key of the stream
    the run lies in, by which requests are known (FORMAT 9). Raises nothing: content is opened where it is taken.
    ``made`` is the record of the run that made the calls and the children, where this one is a rehearsal of it: a
    rehearsal made none, and has nothing of its own to answer them with.
    """

    def __init__(
        self, events: Iterable[Event], address: Callable[[bytes], str], made: Iterable[Event] | None = None
    ) -> None:
        self._address = address
        self._models: defaultdict[str, deque[Event]] = defaultdict(deque)
        self._steps: defaultdict[tuple[str, str, bytes], deque[Event]] = defaultdict(deque)
        self._calls: dict[tuple[str, str | None], deque[Event]] = {}
        self._refused: set[tuple[str, str | None]] = set()
        self._children: defaultdict[tuple[str, bytes], deque[Event]] = defaultdict(deque)
        self._settled: dict[str, Event] = {}
        self._absorbed: deque[str] = deque()
        record = list(events)
        _Reading(self._models, self._steps, self._calls, self._refused).read(record)
        if made is not None:
            record = list(made)
            self._calls, self._refused = {}, set()
            _Reading(defaultdict(deque), defaultdict(deque), self._calls, self._refused).read(record)
        self._read_children(record)

    def model(self, body: bytes) -> Event | None:
        """What the model came to when it was asked this: ``provider.responded`` or ``.failed``."""
        found = self._models.get(self._address(body))
        return found.popleft() if found else None

    def step(self, path: str, name: str, given: Any) -> Event | None:
        """The recorded end of a step of code with this input (its JSON form)."""
        found = self._steps.get((path, name, canonical.encode(comparable(given))))
        return found.popleft() if found else None

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Event | Missing:
        """What became of this call of a tool (arguments in their recorded form)."""
        known = (tool, json_hash(arguments))
        found = self._calls.get(known)
        if found is None:
            return Missing(_REFUSED if known in self._refused else _NOT_MADE)
        if not found:
            return Missing(_UNDECIDED)
        return found.popleft() if len(found) > 1 else found[0]

    def child(self, agent: str, message: Any) -> Event | None:
        """The recorded ``child.started`` of this agent with this message (its JSON form)."""
        found = self._children.get((agent, canonical.encode(comparable(message))))
        return found.popleft() if found else None

    def settlement(self, stream_id: str) -> Event | None:
        """The first ``child.settled`` that says how this child ended."""
        return self._settled.get(stream_id)

    def absorbed(self) -> str | None:
        """The admission of the next run that the code had join it."""
        return self._absorbed.popleft() if self._absorbed else None

    def _read_children(self, record: Iterable[Event]) -> None:
        for event in record:
            if event.type == "admission.absorbed":
                self._absorbed.append(event.data["admission_id"])
            if event.type == "child.started":
                told = event.content_or_none() or {}
                given = canonical.encode(comparable(told.get("input")))
                self._children[str(told.get("agent")), given].append(event)
            elif event.type == "child.settled" and event.data["state"] != "left":
                self._settled.setdefault(event.data["child_stream_id"], event)


class _Reading(Struct):
    """Sorts a record into what answers what."""

    models: defaultdict[str, deque[Event]]
    steps: defaultdict[tuple[str, str, bytes], deque[Event]]
    calls: dict[tuple[str, str | None], deque[Event]]
    refused: set[tuple[str, str | None]]

    def read(self, events: list[Event]) -> None:
        ended = {event.header.step_id: event for event in events if event.type == "step.finished"}
        asked: dict[str, str] = {}
        effects: dict[str, deque[Event]] = {}
        proposed: dict[str, tuple[str, str | None]] = {}
        retried, again = _retried(events), calls_made_again(events)
        for event in events:
            data = event.data
            match event.type:
                case "provider.requested" if data["call_id"] not in again:
                    asked[data["call_id"]] = data["request"]
                case "provider.responded" | "provider.failed":
                    self._answered(event, asked, ended)
                case "step.started" if data["kind"] == "code":
                    self._stepped(event, ended.get(event.header.step_id))
                case "decision.proposed":
                    proposed[data["effect_id"]] = known_by(event)
                case "effect.intended":
                    known = known_by(event)
                    effects[data["effect_id"]] = self.calls.setdefault(known, deque())
                case event_type if event_type in DECIDING and data["outcome"] != "unknown":
                    if (event.header.attempt, data["effect_id"]) not in retried:
                        effects.get(data["effect_id"], deque()).append(event)
        self.refused |= {known for effect_id, known in proposed.items() if effect_id not in effects}

    def _answered(self, event: Event, asked: Mapping[str, str], ended: Mapping[str | None, Event]) -> None:
        end = ended.get(event.header.step_id)
        cancelled = end is not None and end.data["outcome"] == "cancelled"
        request = asked.get(event.data["call_id"])
        if request is not None and not (event.type == "provider.failed" and cancelled):
            self.models[request].append(event)

    def _stepped(self, begun: Event, end: Event | None) -> None:
        if end is None or end.data["outcome"] == "cancelled":
            return
        told, came = begun.content_or_none() or {}, end.outline_or_none() or {}
        name, path = told.get("name", begun.data["name"]), came.get("path", "")
        queue = self.steps[(path, name, canonical.encode(comparable(told.get("input"))))]
        if end not in queue:
            queue.append(end)


def known_by(event: Event) -> tuple[str, str | None]:
    """What a proposed or intended call is told from others by: its tool, and the digest of its arguments."""
    content = event.content_or_none() or {}
    return event.data["tool"], json_hash(content.get("arguments"))


def calls_made_again(events: Iterable[Event]) -> set[str]:
    """Provider calls whose failure a policy tried again: nobody was told of it."""
    return {
        event.data["call_id"]
        for event in events
        if event.type == "retry.decided" and event.data["retry"] and "call_id" in event.data
    }


def _retried(events: Iterable[Event]) -> set[tuple[int | None, str]]:
    """Attempts that the tool's own policy made again: nobody was told how they ended."""
    return {
        (event.header.attempt, event.data["effect_id"])
        for event in events
        if event.type == "retry.decided" and event.data["retry"] and "effect_id" in event.data
    }
