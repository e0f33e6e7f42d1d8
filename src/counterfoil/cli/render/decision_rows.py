"""Rows of decisions: what was proposed, what the policy said, who was asked and what they answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from counterfoil.cli.render.building import Build
from counterfoil.cli.render.content import Content, name_of
from counterfoil.cli.render.line import Span, Style
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.values import named, shown
from counterfoil.flow.event import Event


def _proposed(build: Build, event: Event) -> None:
    content = Content(event)
    tool = name_of(content, str(event.data["tool"]), "tool")
    note = build.note(event, "?", "proposed")
    note.detail = [Span(marked(tool), "strong")]
    if (gone := content.gone) is not None:
        note.detail.append(gone)
    else:
        note.detail.append(Span(named(content.get("arguments"))))
    note.fold = f"proposed {tool}"
    build.proposals[str(event.data["effect_id"])] = note


_RULINGS: Final[Mapping[str, tuple[str, str, Style]]] = {
    "allow": ("✓", "allows it", "good"),
    "constrain": ("≤", "allows it with other arguments", "strong"),
    "ask": ("?", "asks people", "wait"),
    "deny": ("⊘", "DENIES it", "failure"),
}


def _evaluated(build: Build, event: Event) -> None:
    content, data = Content(event), event.data
    outcome = str(data["outcome"])
    glyph, words, style = _RULINGS[outcome]
    shadowed = data.get("enforced") is False
    if shadowed and outcome != "allow":
        glyph, words, style = "·", f"in shadow: {words}, and is not obeyed", "quiet"
    proposal = build.proposals.pop(str(data["effect_id"]), None)
    if outcome == "allow" and proposal is not None:
        # The usual case says what matters in one line, and many of them fold.
        build.reach(proposal, event)
        proposal.detail.append(
            Span(f"{words}: {marked(str(data['policy']))} {marked(str(data['revision']))}", style)
        )
        return
    note = build.note(
        event, glyph, "policy", style="failure" if outcome == "deny" and not shadowed else "plain"
    )
    note.detail = [
        Span(marked(f"{data['policy']} {data['revision']}")),
        Span(words, style),
        Span(marked(", ".join(map(str, data["rules"]))), "quiet"),
    ]
    if outcome == "constrain":
        note.detail.append(content.gone or Span(named(content.get("allowed"))))
    reasons = content.get("reasons")
    note.detail += [Span(shown(reason)) for reason in reasons] if isinstance(reasons, list) else []
    note.fold = None if outcome == "deny" else f"policy {outcome}"


def _requested(build: Build, event: Event) -> None:
    content, data = Content(event), event.data
    note = build.note(event, "?", "approval asked", style="wait")
    note.detail = [Span(str(data["approval_id"]), "quiet")]
    if data["needed"] > 1:
        note.detail.append(Span(f"{data['needed']} people have to agree"))
    if (question := content.span("question")) is not None:
        note.detail.append(question)
    note.aside = [Span(build.command(f"approve show {data['approval_id']}"), "quiet")]
    build.waiting = "waited for an approval"


_ANSWERS: Final[Mapping[str, tuple[str, str, Style]]] = {
    "approval.granted": ("✓", "approved", "good"),
    "approval.denied": ("⊘", "not approved", "failure"),
    "approval.revoked": ("⊘", "taken back", "failure"),
    "approval.expired": ("–", "not in time", "plain"),
    "approval.consumed": ("✓", "approval used", "plain"),
}


def _answered(build: Build, event: Event) -> None:
    content = Content(event)
    glyph, title, style = _ANSWERS[event.type]
    note = build.note(event, glyph, title, style=style)
    by = content.get("by")
    if isinstance(by, Mapping) and isinstance(by.get("name"), str):
        note.detail.append(Span(f"by {shown(by['name'])}"))
    elif content.gone is not None:
        note.detail.append(content.gone)
    if (comment := content.span("comment")) is not None and content.gone is None:
        note.detail.append(comment)
    note.aside = [Span(str(event.data["approval_id"]), "quiet")]


def _mismatched(build: Build, event: Event) -> None:
    content = Content(event)
    note = build.note(event, "⊘", "another call", style="failure")
    note.detail = [Span("refused, nothing was sent", "failure")]
    note.detail.append(content.gone or Span(named(content.get("arguments"))))
    note.aside = [Span(str(event.data["approval_id"]), "quiet")]


HANDLERS: Final[Mapping[str, Callable[[Build, Event], None]]] = {
    "decision.proposed": _proposed,
    "policy.evaluated": _evaluated,
    "approval.requested": _requested,
    **dict.fromkeys(_ANSWERS, _answered),
    "approval.mismatched": _mismatched,
}
