"""Calls that were not permitted, as errors for their caller: the same now and when the run is resumed."""

from __future__ import annotations

from typing import Any, Final

from counterfoil.approvals.standing import ApprovalStanding
from counterfoil.errors import ApprovalDenied, ApprovalMismatched, EffectError, EffectHeld, PolicyDenied
from counterfoil.flow.event import Event

REFUSED_TYPES: Final = frozenset({"policy.evaluated", "approval.expired", "approval.mismatched"})
"""Events each of which refused one call; ``policy.evaluated`` does with the outcome ``deny``."""


LEVER_POLICY: Final = "counterfoil.lever"
"""Under this name, with the lever's event as revision, ``policy.evaluated`` says that a lever refused a call."""


def is_refusal(event: Event) -> bool:
    """Whether this event refused a call."""
    return event.type in REFUSED_TYPES and (
        event.type != "policy.evaluated"
        or (event.data["outcome"] == "deny" and event.data.get("enforced") is not False)
    )


def refused_call(event: Event) -> str | None:
    """The binding of the call that was refused; None for one that is known by its approval alone."""
    found: str | None = (
        event.data["found"] if event.type == "approval.mismatched" else event.data.get("binding")
    )
    return found


def refusal_of(event: Event, tool: str) -> EffectError:
    """The error of a recorded refusal."""
    data = event.data
    if event.type == "policy.evaluated" and data["policy"] == LEVER_POLICY:
        return effect_held(data["effect_id"], tool, data["rules"][0], data["revision"])
    if event.type == "policy.evaluated":
        reasons = (event.content_or_none() or {}).get("reasons", ())
        return policy_denied(
            data["effect_id"], tool, data["policy"], data["revision"], data["rules"], reasons
        )
    if event.type == "approval.expired":
        return not_approved(data["approval_id"], data["effect_id"], tool, "expired")
    return mismatched(data["approval_id"], data["effect_id"], tool)


def policy_denied(
    effect_id: str, tool: str, policy: str, revision: str, rules: Any, reasons: Any
) -> PolicyDenied:
    """A policy said no. The rules are labels; the reasons are for the caller and stand in the message."""
    why = "; ".join(str(reason) for reason in reasons) or f"rule {', '.join(rules) or 'by default'}"
    return PolicyDenied(
        f"policy {policy} does not allow this call of {tool}: {why}",
        hint="nothing was sent; another call needs other arguments or another policy",
        effect_id=effect_id,
        tool=tool,
        policy=policy,
        revision=revision,
        rules=list(rules),
    )


def effect_held(effect_id: str, tool: str, scope: str, lever: str) -> EffectHeld:
    """A person holds the tool, or everything; ``lever`` is the event that says who and why (DESIGN 7)."""
    what = f"tool {tool} is held" if scope == "tool" else f"every effect of this {_WIDE[scope]} is held"
    return EffectHeld(
        f"{what}, so this call of {tool} is not made",
        hint="nothing was sent; `counterfoil hold ls` says who holds it and why. Call again when it is released",
        effect_id=effect_id,
        tool=tool,
        scope=scope,
        lever=lever,
    )


_WIDE: Final = {"tenant": "tenant", "all": "ledger"}


def not_approved(approval_id: str, effect_id: str, tool: str, outcome: str) -> ApprovalDenied:
    """People said no, or nothing in time."""
    said = {
        "denied": "was denied",
        "revoked": "was taken back before it was used",
        "expired": "was not given and used in time",
    }[outcome]
    return ApprovalDenied(
        f"the approval {approval_id} for this call of {tool} {said}",
        hint="nothing was sent; calling again asks again"
        if outcome == "expired"
        else "nothing was sent; the same call is not asked for again in this run",
        approval_id=approval_id,
        effect_id=effect_id,
        tool=tool,
        outcome=outcome,
    )


def denied_by(approval: ApprovalStanding, tool: str) -> ApprovalDenied:
    """The error of an approval that was denied, revoked or has expired."""
    return not_approved(approval.approval_id, approval.effect_id, tool, approval.state)


def mismatched(approval_id: str, effect_id: str, tool: str) -> ApprovalMismatched:
    """The call is not the one people were asked about."""
    return ApprovalMismatched(
        f"this call of {tool} is not the one that approval {approval_id} is for: tool, version, arguments or artifacts"
        " have changed since people were asked",
        hint="nothing was sent; call it as it was approved, or ask again under another key",
        approval_id=approval_id,
        effect_id=effect_id,
        tool=tool,
    )
