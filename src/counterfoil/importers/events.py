"""What each item of a record becomes: event type, actor, public fields, and the small fields of its content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, assert_never

from msgspec import Struct, field

from counterfoil.core.canonical import encode
from counterfoil.core.forms import hidden_name
from counterfoil.importers.entry import (
    UNKNOWN,
    Call,
    Compaction,
    Item,
    Other,
    Path,
    Prompt,
    Response,
    Result,
    Usage,
)
from counterfoil.importers.exact import money_text
from counterfoil.importers.identity import Source
from counterfoil.importers.stream import IMPORTER, Caller, Step, Stream
from counterfoil.importers.survey import Place, Survey
from counterfoil.importers.totals import Tally

RESPONSE_PART: Final = "response_part"
"""Kind of a later line of a model message: its call and usage stand in the ``provider.responded`` of the first."""

COMPACTION_SUMMARY: Final = "compaction_summary"
"""Kind of a summary whose compaction a boundary record has told before."""


class Planned(Struct):
    """An event before time and whole content: what is particular to its type."""

    event_id: str
    event_type: str
    actor: Mapping[str, str]
    data: dict[str, Any]
    fields: dict[str, Any] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    step_id: str | None = None
    cause: str | None = None


def wanted(item: Item) -> dict[str, Path]:
    """The fields of the event's content that are taken out of the record, and where they stand in it."""
    match item:
        case Prompt() | Response():
            return {"message": item.message}
        case Call():
            return {} if item.input is None else {"input": item.input}
        case Result():
            return {} if item.result is None else {"result": item.result}
        case Compaction():
            return {} if item.summary is None else {"summary": item.summary}
        case Other():
            return {}
        case _:
            assert_never(item)


class Planner:
    """Plans events item by item, in the order of the file, and counts them."""

    def __init__(self, survey: Survey) -> None:
        self.tally: Tally = Tally()
        self._survey = survey
        self._counted: set[str] = set()

    def plan(
        self, stream: Stream, source: Source, place: Place, item: Item, taken: Mapping[str, Any]
    ) -> Planned:
        """The event of one item; ``taken`` holds the values of its :func:`wanted` fields."""
        event_id = source.id("evt", str(place[1]))
        match item:
            case Prompt():
                data = {"admission_id": source.id("adm", "admission")}
                return Planned(event_id, "admission.accepted", stream.user, data)
            case Response():
                return self._response(stream, source, event_id, item)
            case Call():
                return self._call(stream, source, place, item, taken)
            case Result():
                return self._result(stream, source, place, item)
            case Compaction():
                return self._compaction(stream, event_id, place, item)
            case Other():
                self.tally.unknown_type += not item.known
                if item.running is not None:
                    self.tally.run_on(stream.session.name, item.running)
                return Planned(event_id, "record.imported", IMPORTER, {"kind": item.kind})
            case _:
                assert_never(item)

    # ---- model messages ----

    def _response(self, stream: Stream, source: Source, event_id: str, item: Response) -> Planned:
        if item.message_id is not None:
            if item.message_id in stream.responded:
                return Planned(event_id, "record.imported", IMPORTER, {"kind": RESPONSE_PART})
            stream.responded.add(item.message_id)
            item = self._survey.responses.get((stream.session.name, item.message_id), item)
        self._count(item)
        provider = stream.format.agent if item.provider is None else self._name(stream, item.provider)
        data = {
            "call_id": source.id("cal", "call"),
            "provider": provider,
            "finish": item.finish,
            **_used(item.usage),
        }
        response = {"id": item.message_id, "provider": item.provider}
        fields = {"response": _given(response), **_given({"provider": item.provider, "model": item.model})}
        return Planned(event_id, "provider.responded", stream.agent, data, fields, _usage_flags(item.usage))

    def _count(self, item: Response) -> None:
        """A message that two sessions of the file hold is one call of the model all the same."""
        if item.message_id is None or item.message_id not in self._counted:
            self.tally.use(item.usage)
        if item.message_id is not None:
            self._counted.add(item.message_id)

    # ---- tools ----

    def _call(
        self, stream: Stream, source: Source, place: Place, item: Call, taken: Mapping[str, Any]
    ) -> Planned:
        self.tally.calls += 1
        partner = self._survey.partners.get(place)
        if partner is None:
            self.tally.calls_without_result += 1
        step = stream.steps.pop(partner, None) if partner is not None else None
        if step is None:
            step = self._step(stream, source, place, item.name, [item.name, taken.get("input")])
            if partner is not None:
                stream.steps[place] = step
        data = {"kind": "tool", "name": self._name(stream, item.name), "memo": step.memo}
        fields = _given({"name": item.name, "call_id": item.call_id})
        carrier = source.id("evt", "0")
        event_id = source.id("evt", str(place[1]))
        if item.call_id is not None and (stream.session.name, item.call_id) in self._survey.calls_made:
            stream.callers[item.call_id] = Caller(event_id, taken.get("input"))
        # A record that brings a call alone says nothing else that could have caused it.
        cause = carrier if carrier != event_id else None
        return Planned(event_id, "step.started", stream.agent, data, fields, (), step.step_id, cause)

    def _result(self, stream: Stream, source: Source, place: Place, item: Result) -> Planned:
        self.tally.error_results += item.failed
        partner = self._survey.partners.get(place)
        if partner is None:
            self.tally.results_without_call += 1
        step = stream.steps.pop(partner, None) if partner is not None else None
        cause = step.event_id if step is not None else None
        if step is None:
            step = self._step(stream, source, place, item.name, [item.name, None])
            if partner is not None:
                stream.steps[place] = step
        name = item.name if item.name is not None else step.name
        outcome = "error" if item.failed else "ok"
        data = {"kind": "tool", "name": self._name(stream, name), "memo": step.memo, "outcome": outcome}
        fields = _given({"name": name, "call_id": item.call_id})
        flags = ("no_call",) if partner is None else ()
        event_id = source.id("evt", str(place[1]))
        return Planned(event_id, "step.finished", stream.agent, data, fields, flags, step.step_id, cause)

    def _step(self, stream: Stream, source: Source, place: Place, name: str | None, what: list[Any]) -> Step:
        """The step of a pair, named after the one that the file holds first, so that it stays when the file grows."""
        step_id = source.id("stp", str(place[1]))
        memo = stream.conversation.material.tag("memo", (step_id,), encode(what))
        return Step(step_id, memo, name, source.id("evt", str(place[1])))

    # ---- compaction ----

    def _compaction(self, stream: Stream, event_id: str, place: Place, item: Compaction) -> Planned:
        if place[0] in self._survey.folded:
            return Planned(event_id, "record.imported", IMPORTER, {"kind": COMPACTION_SUMMARY})
        self.tally.compactions += 1
        return Planned(event_id, "compaction.recorded", stream.agent, {"cause": item.cause})

    def _name(self, stream: Stream, name: str | None) -> str:
        """Names from a file are nobody's declaration: hidden in the header, in full in content (FORMAT 1)."""
        return UNKNOWN if name is None else hidden_name(stream.conversation.material, name)


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _used(usage: Usage | None) -> dict[str, Any]:
    usage = usage or Usage()
    return {
        "input_tokens": usage.input_tokens or 0,
        "output_tokens": usage.output_tokens or 0,
        **_given(
            {
                "cached_tokens": usage.cached_tokens,
                "cost": None if usage.cost is None else money_text(usage.cost),
                "currency": usage.currency,
            }
        ),
    }


def _usage_flags(usage: Usage | None) -> tuple[str, ...]:
    """The header must name token counts; where the file names none, content says that the zeros are ours."""
    counted = usage is not None and usage.input_tokens is not None and usage.output_tokens is not None
    return () if counted else ("usage_missing",)
