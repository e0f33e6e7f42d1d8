"""Rows of effects: each is one pair of intention and observation, and a doubt is never made small."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct, field

from counterfoil.cli.render.building import Build
from counterfoil.cli.render.content import Content, name_of
from counterfoil.cli.render.doubts import RULES, leave_open
from counterfoil.cli.render.line import Span, Style
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.model import Cheque, Pair, Stub
from counterfoil.cli.render.repair_rows import undoing, undone
from counterfoil.cli.render.times import duration, plural, second
from counterfoil.cli.render.values import named, shown
from counterfoil.core.forms import time_ms
from counterfoil.effects.state import IN_DOUBT, IN_REVIEW, Effect, evolve
from counterfoil.flow.event import Event

FIELDS_MAX: Final = 8
"""Arguments drawn on a stub; the rest is counted."""

_ANSWERS: Final[Mapping[str, str]] = {
    "found": "found",
    "absent": "does not know it",
    "cannot_tell": "cannot tell",
}
_OUTCOMES: Final[Mapping[str, tuple[str, str, Style]]] = {
    "succeeded": ("✓", "SUCCEEDED", "good"),
    "rejected": ("⊘", "REJECTED", "failure"),
    "failed": ("✗", "FAILED", "failure"),
    "abandoned": ("–", "ABANDONED", "failure"),
}
_SOURCES: Final[Mapping[str, str]] = {
    "lookup": "found by lookup",
    "callback": "told by callback",
    "import": "imported",
}


class EffectBuild(Struct):
    """An effect, its pair, and what is known of its doubt so far."""

    pair: Pair
    effect: Effect
    intended_ms: int
    deadline_ms: int | None = None
    doubted_ms: int | None = None
    known: list[str] = field(default_factory=list)
    review_cause: str = ""
    reviewed_at: int = 0
    sequences: dict[str, int] = field(default_factory=dict)


def _evolve(found: EffectBuild, event: Event) -> None:
    moved = evolve(found.effect, event.type, event.data, event.header.attempt)
    assert moved is not None
    found.effect = moved
    found.pair.state = moved.state


# ---- intention -------------------------------------------------------------------------------------------------------


def _intended(build: Build, event: Event) -> None:
    content = Content(event)
    effect_id = str(event.data["effect_id"])
    found = build.effects.get(effect_id)
    if found is None:
        effect = evolve(None, event.type, event.data, event.header.attempt)
        assert effect is not None
        pair = Pair(event.sequence, build.time(event), effect_id=effect_id, outside=build.outside)
        pair.touches_nothing = event.data.get("doubt") == "repeat"
        found = build.effects[effect_id] = EffectBuild(pair, effect, build.time(event))
        pair.stub = _stub(event, content)
        build.add(pair)
        if "compensates" in event.data:
            undoing(build, found, event)
    else:
        number = event.header.attempt or 1
        found = _effect(build, event)
        build.reach(found.pair, event)
        _evolve(found, event)
        found.pair.stub.attempt = number
        found.pair.cheque = None
        found.pair.story.append(f"sent again with the same key, attempt {number} ({event.sequence})")
        found.known.append(
            f"Sent again {second(build.time(event))} with the same key, attempt {number} ({event.sequence})."
        )
    deadline = event.data.get("deadline")
    found.deadline_ms = time_ms(deadline) if isinstance(deadline, str) else None
    found.sequences[event.event_id] = event.sequence


def _stub(event: Event, content: Content) -> Stub:
    data = event.data
    stub = Stub(
        marked(name_of(content, str(data["tool"]), "tool")), marked(str(data.get("tool_version", "")))
    )
    stub.rule = RULES.get(str(data.get("doubt")), marked(str(data.get("doubt"))))
    stub.attempt = event.header.attempt or 1
    if (gone := content.gone) is not None:
        stub.fields.append(("arguments", gone))
        return stub
    arguments = content.get("arguments")
    if isinstance(arguments, Mapping):
        members = list(arguments.get("$literal", arguments).items())
        stub.fields = [(marked(name), Span(shown(value))) for name, value in members[:FIELDS_MAX]]
        if len(members) > FIELDS_MAX:
            stub.fields.append(
                ("", Span(f"and {plural(len(members) - FIELDS_MAX, 'more argument')}", "quiet"))
            )
    elif arguments is not None:
        stub.fields.append(("arguments", Span(shown(arguments))))
    stub.key = content.span("idempotency_key")
    return stub


# ---- observation -----------------------------------------------------------------------------------------------------


def _observed(build: Build, event: Event) -> None:
    content = Content(event)
    found = _effect(build, event)
    build.reach(found.pair, event)
    outcome = str(event.data["outcome"])
    before = found.effect.state
    _evolve(found, event)
    if outcome == "unknown":
        _no_answer(found, event, content)
        return
    if found.effect.state != before or before in IN_DOUBT:
        found.pair.cheque = _cheque(build, found, event, content)
        undone(build, found, event)


def _no_answer(found: EffectBuild, event: Event, content: Content) -> None:
    found.doubted_ms = found.doubted_ms or found.intended_ms
    error_class = marked(str(event.data.get("error_class", "")))
    waited = event.data.get("latency_ms")
    within = f" within {duration(waited)}" if isinstance(waited, int) and waited else ""
    after = f" after {duration(waited)}" if isinstance(waited, int) and waited else ""
    error = content.get("error")
    message = (
        shown(str(error.get("message", "")))
        if isinstance(error, Mapping) and error_class != "TimeoutError"
        else ""
    )
    if error_class in ("", "TimeoutError"):
        found.known.append(f"No answer{within} ({event.sequence}).")
        found.pair.story.append(f"no answer{within} ({event.sequence})")
    else:
        found.known.append(
            f"The call broke off{after}: {error_class}{': ' + message if message else ''} ({event.sequence})."
        )
        found.pair.story.append(f"the call broke off: {error_class} ({event.sequence})")


def _cheque(build: Build, found: EffectBuild, event: Event, content: Content) -> Cheque:
    data = event.data
    glyph, word, style = _OUTCOMES[str(data["outcome"])]
    cheque = Cheque(event.sequence, build.time(event), glyph, word, style)
    cheque.by = _SOURCES.get(str(data.get("source")), "")
    if event.type == "effect.late_observed":
        cheque.by = "told late"
    cheque.facts = _facts(content)
    latency = data.get("latency_ms")
    if isinstance(latency, int) and not cheque.by:
        cheque.by = f"in {duration(latency)}" if latency else "at once"
    _tell_doubt(build, found, event)
    return cheque


def _facts(content: Content) -> list[tuple[str, Span]]:
    if (gone := content.gone) is not None:
        return [("result", gone)]
    facts: list[tuple[str, Span]] = []
    if (provider_id := content.span("provider_effect_id")) is not None:
        facts.append(("provider's id", provider_id))
    if content.get("result") is not None:
        facts.append(("result", Span(named(content.get("result")))))
    lost = content.get("result_not_kept")
    if isinstance(lost, Mapping):
        facts.append(("result", Span(f"not kept: {shown(str(lost.get('why', '')))}", "failure")))
    error = content.get("error")
    if isinstance(error, Mapping):
        facts.append(
            ("reason", Span(shown(str(error.get("message") or error.get("class") or "")), "failure"))
        )
    return facts


def _tell_doubt(build: Build, found: EffectBuild, event: Event) -> None:
    """A doubt that has ended stays in the story: how long it was."""
    if event.data.get("source") == "lookup" and found.doubted_ms is None:
        found.doubted_ms = found.intended_ms
    if found.doubted_ms is not None:
        found.pair.story.insert(0, f"in doubt for {duration(build.time(event) - found.doubted_ms)}")
        if found.pair.stub.attempt == 1:
            found.pair.story.append("not sent again")


def _effect(build: Build, event: Event) -> EffectBuild:
    """The effect that an event tells of. One that was intended before the stretch gets its row here."""
    found = build.effects.get(str(event.data["effect_id"]))
    if found is None:
        return _without_stub(build, event)
    if found.pair.outside and not build.outside:
        found.pair.outside = False
        build.add(found.pair)
    return found


def _without_stub(build: Build, event: Event) -> EffectBuild:
    """An observation whose intention is not in the record that was read: shown, with the left half missing."""
    effect = Effect(str(event.data["effect_id"]), "intended", "", "", "")
    pair = Pair(event.sequence, build.time(event), effect_id=effect.effect_id)
    pair.stub = Stub("no intention in this record", "")
    build.add(pair)
    found = build.effects[effect.effect_id] = EffectBuild(pair, effect, build.time(event))
    return found


# ---- asking ----------------------------------------------------------------------------------------------------------


def _looked_up(build: Build, event: Event) -> None:
    content = Content(event)
    found = _effect(build, event)
    build.reach(found.pair, event)
    found.doubted_ms = found.doubted_ms or found.intended_ms
    _evolve(found, event)
    answer = str(event.data.get("answer"))
    said = _ANSWERS.get(answer, marked(answer))
    if content.text("answer") == "not reached":
        said = "could not be reached"
    found.pair.story.append(f"the provider was asked ({event.sequence}): {said}")
    found.known.append(f"The provider was asked {second(build.time(event))} and {said} ({event.sequence}).")


def _retry(build: Build, event: Event) -> None:
    effect_id = event.data.get("effect_id")
    found = build.effects.get(str(effect_id)) if effect_id else None
    if found is None:
        note = build.note(event, "↻", "retry")
        note.detail = [
            Span(f"{marked(str(event.data.get('error_class')))}, in {duration(int(event.data['delay_ms']))}")
        ]
        return
    build.reach(found.pair, event)
    if found.effect.state == "failed":
        again = (
            f"tried again after {duration(int(event.data['delay_ms']))}"
            if event.data["retry"]
            else "not tried again"
        )
        found.pair.story.append(f"not done, {again} ({event.sequence})")


def _review_requested(build: Build, event: Event) -> None:
    found = _effect(build, event)
    build.reach(found.pair, event)
    _evolve(found, event)
    found.doubted_ms = found.doubted_ms or found.intended_ms
    found.review_cause = str(event.data.get("cause"))
    found.reviewed_at = event.sequence
    build.waiting = "waited for a person"
    found.pair.story.append(f"a person was asked ({event.sequence})")


def _assigned(build: Build, event: Event) -> None:
    note = build.note(event, "✎", "review given")
    given = event.content_or_none() or {}
    name = (given.get("assignee") or {}).get("name")
    to = marked(name) if isinstance(name, str) else str(event.data.get("assignee"))
    due = f", due {marked(str(given['due_at']))}" if "due_at" in given else ""
    note.detail = [Span(str(event.data.get("review_id")), "quiet"), Span(f"to {to}{due}")]


def _settled(build: Build, event: Event) -> None:
    content = Content(event)
    found = _effect(build, event)
    outcome = str(event.data["outcome"])
    _evolve(found, event)
    person = _person(content)
    glyph, word, style = _OUTCOMES[outcome]
    cheque = Cheque(
        event.sequence, build.time(event), glyph, f"SETTLED as {word.lower()}", style, by=f"by {person}"
    )
    if (reason := content.span("reason")) is not None:
        cheque.facts.append(("reason", reason))
    if content.get("result") is not None:
        cheque.facts.append(("result", Span(named(content.get("result")))))
    _tell_doubt(build, found, event)
    found.pair.cheque = cheque
    undone(build, found, event)
    note = build.note(event, "✎", "settled", style="strong")
    note.detail = [Span(f"{found.pair.stub.tool} ({found.pair.sequence}) as {outcome}"), Span(f"by {person}")]


def _person(content: Content) -> str:
    by = content.get("by")
    name = by.get("name") if isinstance(by, Mapping) else by
    if isinstance(name, str):
        return shown(name)
    return f"a person whose name is {content.state}" if content.gone is not None else "a person"


# ---- late and again --------------------------------------------------------------------------------------------------


def _late(build: Build, event: Event) -> None:
    """A late observation is its own row that says whether it agrees; the pair shows it only if it ended the doubt."""
    content = Content(event)
    found = _effect(build, event)
    before, recorded = found.effect.state, found.effect.outcome
    outcome = str(event.data["outcome"])
    _evolve(found, event)
    note = build.note(event, "→|", "late answer")
    token = event.data.get("fencing_token")
    current = build.tokens.get(event.header.run_id or "")
    stale = isinstance(token, int) and current is not None and token < current
    worker = f"from a worker with {'stale ' if stale else ''}token {token}" if token is not None else ""
    note.detail = [Span(f"{found.pair.stub.tool} ({found.pair.sequence}): {outcome}"), Span(worker)]
    undecided = before in IN_DOUBT or before == "in_review"
    if outcome == "unknown":
        # Nobody sends such an answer on purpose; it decides nothing, and must not look as if it did.
        said = "how it ended is still not known" if undecided else "says nothing of how it ended"
        note.detail.append(Span(said, "doubt" if undecided else "quiet"))
        return
    if undecided:
        note.detail.append(Span("ends the doubt", "good"))
        found.pair.cheque = _cheque(build, found, event, content)
        return
    if recorded == outcome:
        note.detail.append(Span(f"kept; agrees with {_decided_at(found)}", "good"))
        found.pair.story.append(f"a late answer agrees ({event.sequence})")
    else:
        said = f"kept; DISAGREES with {_decided_at(found)}, which says {recorded}"
        note.below.append(Span(f"◆? {said}", "doubt"))
        found.known.append(
            f"A late answer says {outcome} ({event.sequence}); recorded is {recorded} ({_decided_at(found)})."
        )


def _decided_at(found: EffectBuild) -> str:
    return str(found.pair.cheque.sequence) if found.pair.cheque is not None else "the record"


def _contradicted(build: Build, event: Event) -> None:
    found = _effect(build, event)
    build.reach(found.pair, event)
    _evolve(found, event)
    found.doubted_ms = build.time(event)
    found.known.append(
        f"Recorded as {event.data.get('recorded')}, and found to be {event.data.get('found')} ({event.sequence})."
    )


def _repeated(build: Build, event: Event) -> None:
    found = build.effects.get(str(event.data["effect_id"]))
    note = build.note(event, "↺", "asked again")
    tool = "" if found is None else f"{found.pair.stub.tool} ({found.pair.sequence}): "
    note.detail = [Span(f"{tool}the recorded outcome was handed out, nothing was sent")]
    note.fold = f"again {event.data['effect_id']}"


def finish(build: Build) -> None:
    """Draw the right half of every pair that has no final observation."""
    for found in build.effects.values():
        if found.effect.state in IN_DOUBT | IN_REVIEW:
            leave_open(build, found)


HANDLERS: Final[Mapping[str, Callable[[Build, Event], None]]] = {
    "effect.intended": _intended,
    "effect.observed": _observed,
    "effect.late_observed": _late,
    "effect.looked_up": _looked_up,
    "effect.review_requested": _review_requested,
    "effect.settled": _settled,
    "effect.contradicted": _contradicted,
    "effect.repeated": _repeated,
    "retry.decided": _retry,
    "review.assigned": _assigned,
}
