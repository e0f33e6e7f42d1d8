"""Asking a policy, checking what it answers, and the words in which its answer is recorded."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from msgspec.structs import replace

from counterfoil.abc.policy import ApprovalScope, Asking, Policy, Proposal, Ruling, RulingOutcome
from counterfoil.approvals.events import Request
from counterfoil.approvals.state import NEEDED_MAX
from counterfoil.core import canonical
from counterfoil.core.forms import is_label
from counterfoil.core.limits import DATA_LIST_MAX
from counterfoil.core.values import from_json, to_json
from counterfoil.errors import CounterfoilError, InputError, PolicyFailed
from counterfoil.flow.drafting import Person
from counterfoil.flow.requests import Call, CallResult, Flow, Now, Raised, Returned

if TYPE_CHECKING:
    from counterfoil.effects.asked import Asked

POLICY_TIMEOUT_S: Final = 10.0
"""Longest wait for a ruling."""

ASSIGNEES_MAX: Final = 7
"""Each assignee's name is a part of its own, beside part 0 (FORMAT 1: 8 parts an event)."""

WAIT_S_MAX: Final = 10 * 365 * 86_400


FAILED_RULE: Final = "policy-failed"
"""The rule of a policy in shadow that failed: enforced, it would have let nothing through."""


def enforced(policy: Policy) -> bool:
    """Whether what this policy says is done; one in shadow is only recorded (DESIGN 7)."""
    return bool(getattr(policy, "enforced", True))


def evaluate(asked: Asked, effect_id: str) -> Flow[Ruling]:
    """The ruling on this call, checked; new arguments are in their recorded form.

    Raises ``PolicyFailed``. The failure of a policy in shadow is a ruling like any other: it hinders nobody.
    """
    policy = asked.scope.policy
    assert policy is not None
    try:
        return (yield from _evaluate(asked, policy, effect_id))
    except PolicyFailed as failed:
        if enforced(policy) or not all(map(is_label, (policy.name, policy.revision))):
            raise
        return Ruling("deny", rules=(FAILED_RULE,), reasons=(failed.message,))


def _evaluate(asked: Asked, policy: Policy, effect_id: str) -> Flow[Ruling]:
    now: int = yield Now()
    proposal = Proposal(
        tool=asked.tool.name,
        tool_version=asked.tool.version,
        touches=asked.tool.touches,
        arguments=from_json(asked.recorded),
        agent=asked.scope.agent,
        tenant=asked.scope.ports.tenant,
        stream_id=asked.scope.stream_id,
        run_id=asked.scope.run_id,
        effect_id=effect_id,
        now_ms=now,
    )
    call = Call(f"policy {policy.name}", policy.evaluate, (proposal,), timeout_s=POLICY_TIMEOUT_S)
    result: CallResult = yield from asked.handle.interruptibly(call)
    if isinstance(result, Raised):
        if not isinstance(result.error, Exception):
            raise result.error
        # Only our own errors keep content out of their messages; the other one is the cause of this one.
        said = f": {result.error.message}" if isinstance(result.error, CounterfoilError) else ""
        raise _failed(policy, f"it raised {type(result.error).__name__}{said}") from result.error
    if not isinstance(result, Returned):
        raise _failed(policy, f"it gave no ruling within {POLICY_TIMEOUT_S:g} s")
    return _checked(asked, policy, result.value)


def _failed(policy: Policy, why: str) -> PolicyFailed:
    return PolicyFailed(
        f"policy {policy.name} revision {policy.revision} did not rule: {why}",
        hint="nothing was sent and nothing recorded; mend the policy and run the code again",
        policy=policy.name,
        revision=policy.revision,
    )


def _checked(asked: Asked, policy: Policy, ruling: Any) -> Ruling:
    """Refuse a ruling that could not be recorded or carried out."""
    problem = None
    if not isinstance(ruling, Ruling) or ruling.outcome not in get_args(RulingOutcome):
        problem = f"it answered {type(ruling).__name__} and not a ruling"
    elif any(isinstance(given, str) for given in (cast("Any", ruling).rules, cast("Any", ruling).reasons)):
        problem = "rules and reasons are tuples of texts, not one text"
    elif len(ruling.rules) > DATA_LIST_MAX or not all(
        map(is_label, (policy.name, policy.revision, *ruling.rules))
    ):
        problem = f"its name, revision and rules must be labels, at most {DATA_LIST_MAX} rules"
    elif (ruling.outcome == "constrain") != (ruling.arguments is not None):
        problem = "new arguments belong to a constrain, and to nothing else"
    elif ruling.outcome == "ask":
        problem = _unaskable(ruling.asking)
    if problem is not None:
        raise _failed(policy, problem)
    return _constrained(asked, policy, ruling) if ruling.arguments is not None else ruling


def _unaskable(asking: Asking) -> str | None:
    assignees: Any = asking.assignees  # taken as anything: one name given as text is a usual mistake
    waits = [wait for wait in (asking.due_s, asking.expires_s) if wait is not None]
    if asking.scope not in get_args(ApprovalScope):
        return "the scope of an approval is once or run"
    if isinstance(assignees, str) or len(assignees) > ASSIGNEES_MAX or not all(assignees):
        return f"assignees are names, at most {ASSIGNEES_MAX}"
    if not 1 <= asking.needed <= NEEDED_MAX:
        return f"from 1 to {NEEDED_MAX} people may be needed"
    if asking.assignees and asking.needed > len(set(asking.assignees)):
        return "more people are needed than are named"
    return (
        None if all(0 < wait <= WAIT_S_MAX for wait in waits) else "due_s and expires_s are seconds above 0"
    )


def _constrained(asked: Asked, policy: Policy, ruling: Ruling) -> Ruling:
    """New arguments must fit the tool and mean the same effect: the key that was asked for stays what it is."""
    try:
        arguments: Mapping[str, Any] = to_json(dict(ruling.arguments or {}), "arguments")
        # A compensation whose tool has no key of its own keeps that of its repair.
        same_effect = asked.tool.key_of(from_json(arguments)) in (None, asked.key)
    except (InputError, LookupError, TypeError, ValueError) as error:
        raise _failed(policy, "its new arguments cannot be used") from error
    if not asked.tool.parameters.accepts(arguments):
        raise _failed(policy, f"its new arguments do not fit {asked.tool.name}")
    if (misfit := asked.tool.parameters.misfit(from_json(arguments), asked.tool.name)) is not None:
        raise _failed(policy, "its new arguments are not of the declared types") from misfit
    if not same_effect:
        raise _failed(policy, "its new arguments would be another effect: their key differs")
    return replace(ruling, arguments=arguments)


def ruled_content(asked: Asked, policy: Policy, ruling: Ruling) -> dict[str, Any]:
    """Inputs, reasons and evidence; the whole policy the first time that a revision rules in this run."""
    content: dict[str, Any] = {"inputs": {"agent": asked.scope.agent, "touches": list(asked.tool.touches)}}
    snapshot = to_json(policy.snapshot(), "snapshot")
    content["snapshot_sha256"] = hashlib.sha256(canonical.encode(snapshot)).hexdigest()
    if (policy.name, policy.revision) not in asked.decisions.snapshots:
        content["snapshot"] = snapshot
    if ruling.reasons:
        content["reasons"] = [to_json(str(reason)) for reason in ruling.reasons]
    if ruling.evidence is not None:
        content["evidence"] = to_json(ruling.evidence, "evidence")
    if ruling.arguments is not None:
        content["allowed"] = ruling.arguments
    return content


def request_of(
    asked: Asked, effect_id: str, binding: str, approval_id: str, ruling: Ruling, now_ms: int
) -> Request:
    """What people are asked about this call."""
    wanted, scope = ruling.asking, asked.scope
    names = dict.fromkeys(wanted.assignees)
    return Request(
        approval_id=approval_id,
        effect_id=effect_id,
        binding=binding,
        tool=asked.tool.name,
        tool_version=asked.tool.version,
        arguments=asked.recorded,
        question=wanted.question,
        rules=ruling.rules,
        scope=wanted.scope,
        needed=wanted.needed,
        expires_at_ms=_later(now_ms, wanted.expires_s),
        due_at_ms=_later(now_ms, wanted.due_s),
        assignees=tuple(Person(scope.ports.subject_key(scope.stream_id, name), name) for name in names),
    )


def _later(now_ms: int, seconds: float | None) -> int | None:
    return None if seconds is None else now_ms + round(seconds * 1000)
