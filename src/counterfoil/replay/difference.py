"""Two runs side by side: what each asked for and got, what was decided and done, how they ended and what they used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final

from msgspec import Struct

from counterfoil.artifacts.events import STORED
from counterfoil.core import canonical
from counterfoil.core.values import comparable
from counterfoil.effects.past import DECIDING
from counterfoil.flow.event import Event
from counterfoil.journal.fold import json_hash
from counterfoil.replay.asked import UnderWay, fact_of
from counterfoil.replay.original import calls_made_again
from counterfoil.runtime.checking import CHECKED

ALIGNED_MAX: Final = 4000
"""Lines of both runs together that are aligned; longer ones are compared place by place."""

SHOWN_CHARACTERS: Final = 200
"""Of a text, for people; the digest is of all of it."""

NAMED: Final = frozenset({"artifact", "check", "child", "decision", "effect", "fact", "step"})
"""Kinds of which lines of one name alone stand beside each other."""

NOTED: Final = frozenset({"artifact", "check", "fact"})
"""Kinds of what code records wherever it runs, inside of a step or a tool too."""

USED: Final = ("steps", "calls", "input_tokens", "output_tokens", "cost", "currency")


class Fact(Struct, frozen=True):
    """One thing that a run did: ``kind`` is request, response, decision, effect, child, step, fact, check, artifact or end.

    ``name`` is the model, tool, step, event type, check, kind or terminal. ``digest`` is a SHA-256 of all that is compared, made when it is read;
    ``told`` is its beginning for people. ``event_id`` is where it stands. ``hidden``: content that it is made of cannot be read, so it equals itself alone.
    """

    kind: str
    name: str
    digest: str
    told: str
    event_id: str
    hidden: bool = False


class Pair(Struct, frozen=True):
    """A line of the comparison: what the two runs have in one place, None where one has nothing there."""

    left: Fact | None
    right: Fact | None

    @property
    def same(self) -> bool:
        """Whether both are there and say the same."""
        one, other = self.left, self.right
        if one is None or other is None:
            return False
        if one.hidden or other.hidden:
            return one.event_id == other.event_id
        return _said(one) == _said(other)


class RunDifference(Struct, frozen=True):
    """Two runs compared. ``used`` holds steps, calls, tokens and cost of each, as their ends say."""

    left: str
    right: str
    pairs: list[Pair]
    left_used: Mapping[str, Any]
    right_used: Mapping[str, Any]

    @property
    def same(self) -> bool:
        """Whether both did the same and ended the same; what they used may differ."""
        return all(pair.same for pair in self.pairs)

    @property
    def different(self) -> list[Pair]:
        """The lines that differ."""
        return [pair for pair in self.pairs if not pair.same]


def difference(
    left: tuple[str, Iterable[Event]], right: tuple[str, Iterable[Event]], bytes_of: Mapping[str, str]
) -> RunDifference:
    """Compare two runs by what is on record; ``bytes_of`` are digests of exact requests and artifacts by event id.

    What something under way recorded, a step or a call, counts where both runs have it: a rehearsal does not call it.
    """
    sides = [(run_id, list(events)) for run_id, events in (left, right)]
    (left_id, left_events), (right_id, right_events) = sides
    one, other = _matched(facts_of(left_events, bytes_of), facts_of(right_events, bytes_of))
    return RunDifference(
        left_id, right_id, list(_aligned(one, other)), used_by(left_events), used_by(right_events)
    )


def used_by(events: Iterable[Event]) -> dict[str, Any]:
    """What a run used, as its end says; empty while it is open."""
    for event in events:
        if event.type == "run.finished":
            return {name: event.data[name] for name in USED if name in event.data}
    return {}


# ---- one run ------------------------------------------------------------------------------------------------------


def facts_of(events: Iterable[Event], bytes_of: Mapping[str, str]) -> Iterator[tuple[Fact, bool]]:
    """What a run did, in order, and whether something under way did it. A rehearsal's answered calls are effects here."""
    record = list(events)
    reading, again, under_way = _Reading(bytes_of), calls_made_again(record), UnderWay()
    for event in record:
        under_way.goes_on(event)
        if event.data.get("call_id") in again:
            # A policy tried it again, and nobody was told: the attempt that counted stands for it.
            continue
        found = reading.fact(event)
        if found is not None:
            yield found, found.kind in NOTED and under_way.anything


_UNKNOWN: Final = ("?", None, True)

Told = Mapping[str, Any]
Handler = Callable[["_Reading", Event, Told, bool], "Fact | None"]


class _Reading:
    def __init__(self, bytes_of: Mapping[str, str]) -> None:
        self._bytes_of = bytes_of
        self._models: dict[str, str] = {}
        self._calls: dict[str, tuple[str, Any, bool]] = {}
        self._begun: dict[str | None, Event] = {}
        self._named: dict[str | None, str] = {}

    def fact(self, event: Event) -> Fact | None:
        """What this event adds, if it says something of its own."""
        handle = _HANDLERS.get(event.type)
        if handle is None:
            # The types of the application are its own: whatever is no type of the product is a fact.
            handle = None if fact_of(event) is None else _Reading.own
        if handle is None:
            return None
        content = event.content_or_none()
        return handle(self, event, content or {}, content is None)

    def remember_call(self, event: Event, told: Told, hidden: bool) -> None:
        """A call that is asked for, before anything came of it."""
        known = event.data["tool"], told.get("arguments"), hidden
        if not hidden or event.data["effect_id"] not in self._calls:
            self._calls[event.data["effect_id"]] = known

    def remember_step(self, event: Event, told: Told, hidden: bool) -> None:
        """A step that began."""
        del hidden
        self._begun[event.header.step_id] = event
        # A name that is no label stands in the open as a digest, which is another one in every stream.
        name = told.get("name")
        if isinstance(name, str):
            self._named[event.header.step_id] = name

    def response(self, event: Event, told: Told, hidden: bool) -> Fact:
        """What a model came to."""
        model = self._models.get(event.data["call_id"], "?")
        if event.type == "provider.failed":
            failed = event.data["error_class"]
            return _fact(event, "response", model, {"failed": failed}, f"failed: {failed}")
        body = told.get("body", {})
        said = {name: body.get(name) for name in ("text", "tool_calls", "finish")}
        words = str(body.get("text") or "") or event.data["finish"]
        return _fact(event, "response", model, said, "" if hidden else words, hidden)

    def child(self, event: Event, told: Told, hidden: bool) -> Fact:
        """A child that the run spawned."""
        message = told.get("input")
        said = {"input": message, "blocked": False}
        return _fact(event, "child", str(told.get("agent", "?")), said, _words(message), hidden)

    def end(self, event: Event, told: Told, hidden: bool) -> Fact:
        """How the run ended."""
        output = told.get("output")
        return _fact(event, "end", event.data["terminal"], {"output": output}, _words(output), hidden)

    def own(self, event: Event, told: Told, hidden: bool) -> Fact:
        """What the application recorded; which of its fields stand in the open may change from run to run."""
        said = {**told, **event.data}
        return _fact(event, "fact", event.type, [event.version, said], _words(said), hidden)

    def check(self, event: Event, told: Told, hidden: bool) -> Fact:
        """What a guard or a check of the answer said."""
        said = {**event.data, "check": told.get("name", event.data["check"])}
        words = " ".join([said["stage"], said["outcome"], _words(told.get("reason"))]).rstrip()
        return _fact(event, "check", said["check"], said | {"reason": told.get("reason")}, words, hidden)

    def artifact(self, event: Event, told: Told, hidden: bool) -> Fact:
        """What the run kept: what is said of it, and its bytes."""
        member = event.header.artifact_refs[0]
        kept, size = self._bytes_of.get(event.event_id), told.get("bytes")
        said = {**told, "class": member["class"], "permission": event.data.get("permission"), "kept": kept}
        words = "" if hidden else f"{told.get('name', '')} {size} bytes".strip()
        return _fact(event, "artifact", member["kind"], said, words, hidden or kept is None)

    def request(self, event: Event, told: Told, hidden: bool) -> Fact:
        """What a model was asked."""
        del told, hidden
        model: str = self._named.get(event.header.step_id) or event.data["model"]
        self._models[event.data["call_id"]] = model
        digest = self._bytes_of.get(event.event_id)
        purpose = event.data["purpose"]
        if digest is None:
            return _fact(event, "request", model, {"request": event.data["request"]}, "", hidden=True)
        return Fact("request", model, digest, purpose, event.event_id)

    def decision(self, event: Event, told: Told, hidden: bool) -> Fact:
        """What a policy ruled."""
        del told, hidden
        data = event.data
        tool, arguments, unread = self._calls.get(data["effect_id"], _UNKNOWN)
        said = {"outcome": data["outcome"], "rules": data["rules"], "arguments": arguments}
        words = f"{data['outcome']}: {', '.join(data['rules']) or 'by default'} ({data['policy']} {data['revision']})"
        return _fact(event, "decision", tool, said, words, unread)

    def effect(self, event: Event, told: Told, hidden: bool) -> Fact:
        """What became of a call."""
        tool, arguments, unread = self._calls.get(event.data["effect_id"], _UNKNOWN)
        outcome = event.data["outcome"]
        said, words = _call(arguments, outcome, told), f"{outcome} {_words(arguments)}"
        return _fact(event, "effect", tool, said, words, hidden or unread)

    def step(self, event: Event, told: Told, hidden: bool) -> Fact | None:
        """A step that ended; of a rehearsal also a call that was answered or blocked."""
        data = event.data
        begun = self._begun.pop(event.header.step_id, None)
        given = ((begun.content_or_none() or {}) if begun is not None else {}).get("input")
        simulated = told.get("simulated")
        if data["kind"] == "tool" and isinstance(simulated, Mapping) and simulated.get("of") == "child":
            return _rehearsed_child(event, given, blocked=simulated.get("answer") == "blocked")
        if data["kind"] == "tool" and isinstance(simulated, Mapping):
            outcome = simulated.get("outcome") or simulated.get("answer", "?")
            said, words = _call(given, outcome, told), f"{outcome} {_words(given)}"
            return _fact(event, "effect", data["name"], said, words)
        if data["kind"] == "model":
            return None
        said = {"input": given, "outcome": data["outcome"], "result": told.get("result")}
        name: str = self._named.get(event.header.step_id) or data["name"]
        return _fact(event, "step", name, said, f"{data['outcome']} {_words(given)}", hidden)


_HANDLERS: Final[Mapping[str, Handler]] = {
    "decision.proposed": _Reading.remember_call,
    "effect.intended": _Reading.remember_call,
    "step.started": _Reading.remember_step,
    "provider.requested": _Reading.request,
    "provider.responded": _Reading.response,
    "provider.failed": _Reading.response,
    "policy.evaluated": _Reading.decision,
    "step.finished": _Reading.step,
    "run.finished": _Reading.end,
    "child.started": _Reading.child,
    CHECKED: _Reading.check,
    STORED: _Reading.artifact,
    **dict.fromkeys(DECIDING, _Reading.effect),
}


def _rehearsed_child(event: Event, given: Any, *, blocked: bool) -> Fact:
    asked = given if isinstance(given, Mapping) else {}
    message = asked.get("message")
    said, word = {"input": message, "blocked": blocked}, "blocked " if blocked else ""
    return _fact(event, "child", str(asked.get("agent", "?")), said, word + _words(message), given is None)


def _call(arguments: Any, outcome: str, told: Mapping[str, Any]) -> dict[str, Any]:
    return {"arguments": arguments, "outcome": outcome, "result": told.get("result")}


def _fact(event: Event, kind: str, name: str, said: Any, told: str, hidden: bool = False) -> Fact:
    shown = "content cannot be read" if hidden and not told else told[:SHOWN_CHARACTERS]
    return Fact(kind, name, json_hash(said) or "", shown, event.event_id, hidden)


def _words(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value[:SHOWN_CHARACTERS]
    return canonical.encode(comparable(value)).decode(errors="replace")[:SHOWN_CHARACTERS]


# ---- side by side -------------------------------------------------------------------------------------------------


def _matched(*sides: Iterable[tuple[Fact, bool]]) -> list[list[Fact]]:
    """Both runs without what something under way recorded in one of them alone; what cannot be read stays."""
    records = [list(side) for side in sides]
    counts = [Counter(map(_said, (fact for fact, _ in record))) for record in records]
    found: list[list[Fact]] = []
    for record, own, others in zip(records, counts, reversed(counts), strict=True):
        spare, kept = own - others, []
        for fact, under_way in record:
            if under_way and not fact.hidden and spare[_said(fact)] > 0:
                spare[_said(fact)] -= 1
            else:
                kept.append(fact)
        found.append(kept)
    return found


def _said(fact: Fact) -> tuple[str, str, str]:
    return fact.kind, fact.name, fact.digest


def _aligned(left: Sequence[Fact], right: Sequence[Fact]) -> Iterator[Pair]:
    if len(left) + len(right) > ALIGNED_MAX:
        yield from _place_by_place(left, right)
        return
    keys = [[_key(fact) for fact in facts] for facts in (left, right)]
    for tag, a, b, c, d in SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        if tag == "equal":
            yield from map(Pair, left[a:b], right[c:d])
        else:
            yield from (Pair(fact, None) for fact in left[a:b])
            yield from (Pair(None, fact) for fact in right[c:d])


def _key(fact: Fact) -> tuple[str, str]:
    """Facts of one key may stand beside each other: the models of two requests may differ, the tools of two calls not."""
    return fact.kind, fact.name if fact.kind in NAMED else ""


def _place_by_place(left: Sequence[Fact], right: Sequence[Fact]) -> Iterator[Pair]:
    for at in range(max(len(left), len(right))):
        yield Pair(left[at] if at < len(left) else None, right[at] if at < len(right) else None)
