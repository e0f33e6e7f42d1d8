"""The missing half of a pair: how long there has been doubt, what is known, who or what decides, what leads out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from counterfoil.cli.render.building import Build
from counterfoil.cli.render.model import Doubt
from counterfoil.cli.render.times import duration, second
from counterfoil.effects.state import IN_REVIEW

if TYPE_CHECKING:
    from counterfoil.cli.render.effect_rows import EffectBuild

RULES: Final[Mapping[str, str]] = {
    "lookup": "ask the provider",
    "lookup_then_key": "ask the provider, then send again with the same key",
    "key": "send again with the same key",
    "repeat": "do it again: it touches nothing",
    "review": "a person decides",
}
"""What a recorded doubt rule means, in words."""

CAUSES: Final[Mapping[str, str]] = {
    "by_review": "the tool offers no lookup and no repeat-safe key",
    "absent": "the provider does not know it, and sending again is not allowed",
    "cannot_tell": "the provider cannot tell",
    "contradicted": "what was found differs from what was recorded",
    "schema_changed": "the tool takes other arguments today than those that were recorded",
    "key_missing": "the recorded arguments cannot be opened",
    "policy": "a policy asks for it",
}
"""Why a person was asked, in words."""


def leave_open(build: Build, found: EffectBuild) -> None:
    """Draw the right half of a pair without a final observation: under way, in doubt, or contradicted."""
    state, due = found.effect.state, found.deadline_ms
    may_come = build.live and due is not None and build.now_ms < due
    if state == "intended" and due is not None and may_come and not found.known:
        found.pair.under_way = (
            f"under way for {duration(build.now_ms - found.intended_ms)}, until {second(due)}"
        )
        return
    found.pair.doubt = _doubt(build, found)
    if state != "contradicted":
        found.pair.cheque = None


def _doubt(build: Build, found: EffectBuild) -> Doubt:
    state = found.effect.state
    word = "CONTRADICTED" if state == "contradicted" else "IN DOUBT"
    since = found.doubted_ms or found.intended_ms
    doubt = Doubt(word, since)
    doubt.known = [f"Sent {second(found.intended_ms)} ({found.pair.sequence}).", *found.known]
    if not found.known and found.deadline_ms is not None:
        doubt.known.append(_unanswered(found.deadline_ms, build.now_ms))
    if state != "contradicted":
        doubt.verdict = "It may or may not have happened."
    if state in IN_REVIEW:
        review = found.effect.review_id or ""
        why = CAUSES.get(found.review_cause, "")
        doubt.decides = f"A person decides{': ' + why if why else ''}. Asked in {found.reviewed_at}."
        doubt.commands = [
            build.command(f"review show {review}"),
            build.command(f"review settle {review} --outcome … --by NAME --reason TEXT"),
        ]
    else:
        doubt.decides = _recovery_words(found.effect.doubt)
        doubt.commands = [build.command("recover")]
    return doubt


def _unanswered(deadline_ms: int, now_ms: int) -> str:
    if now_ms < deadline_ms:
        return f"Its worker is gone; the call may still arrive until {second(deadline_ms)}."
    return f"No answer was recorded by its deadline, {second(deadline_ms)}."


def _recovery_words(rule: str) -> str:
    if rule == "review":
        return "A person decides: recovery asks one."
    return f"Recovery decides, by this rule: {RULES.get(rule, rule)}."
