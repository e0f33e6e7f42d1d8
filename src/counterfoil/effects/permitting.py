"""Whether a call may be made: the policy is asked, then people if it says so, before anything is intended (DESIGN 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from counterfoil.abc.policy import Policy, Ruling
from counterfoil.approvals import events as asking
from counterfoil.approvals.decide import judge_use
from counterfoil.approvals.standing import ApprovalStanding, approval_now, approvals_of, unanswered
from counterfoil.core.event import Draft
from counterfoil.effects import events
from counterfoil.effects.attempt import append, append_patiently
from counterfoil.effects.decisions import Decided
from counterfoil.effects.holding import refuse_held
from counterfoil.effects.lever import Held, Lever
from counterfoil.effects.permit import UNASKED, Permit
from counterfoil.effects.refusals import (
    denied_by,
    is_refusal,
    mismatched,
    not_approved,
    policy_denied,
    refusal_of,
    refused_call,
)
from counterfoil.effects.rulings import enforced, evaluate, request_of, ruled_content
from counterfoil.effects.standin import Judged
from counterfoil.errors import Fenced, GuardFailed, ToolInvalid
from counterfoil.flow.context import RunScope
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Flow, NewId, Now, Wait
from counterfoil.store.rows import Guard

if TYPE_CHECKING:
    from counterfoil.effects.asked import Asked


def recorded_refusal(asked: Asked) -> Event | None:
    """The refusal that this very call was handed in an earlier entry of the run."""
    decided = asked.decisions.of(asked.identity.key_index, asked.tool) if asked.decisions else None
    if decided is None:
        return None
    event = asked.past.calls(decided.effect_id).failure(asked.number)
    if event is None or not is_refusal(event):
        return None
    try:
        bindings = (None, asked.binding(decided.effect_id))
    except ToolInvalid:
        # What it refers to is gone, so nobody can tell whether it has changed: nothing is sent either way.
        return event
    return event if refused_call(event) in bindings else None


def hand_out_refusal(asked: Asked, event: Event) -> None:
    """Raise the refusal of an earlier entry again; nothing is recorded."""
    raise refusal_of(event, asked.tool.name)


def permitted(asked: Asked, effect_id: str | None = None, *, ahead: bool = False) -> Flow[Permit]:
    """Why this call may be made. ``effect_id`` is the effect's if it has been intended before.

    ``ahead``: the call is yet to come. People are asked, if they have to be; anything else is left to the call.

    Without a policy, and without a decision on record, nothing is read and nothing recorded. Raises ``PolicyDenied``,
    ``PolicyFailed``, ``ApprovalDenied``, ``ApprovalMismatched``, or parks the run until people have answered.
    """
    if asked.scope.policy is None and not asked.decisions:
        return UNASKED
    with asked.decisions.deciding(asked.identity.key_index, asked.tool.name):
        while True:
            try:
                look = _Permitting(asked, effect_id)
                return (yield from look.ask_ahead() if ahead else look.permit())
            except GuardFailed:
                # The approval was answered, taken back or used between looking and writing: look again.
                continue
            except Fenced as fenced:
                raise asked.scope.latch(asked.scope.lost()) from fenced


def judged(asked: Asked) -> Flow[Judged | None]:
    """The ruling on a call that is not going to be made; nobody is asked. None without a policy.

    Raises ``PolicyFailed``.
    """
    policy = asked.scope.policy
    if policy is None:
        return None
    look = _Permitting(asked, (yield NewId("eff")))
    return (yield from look.rule())


class _Permitting:
    """One look at what may be done about a call."""

    def __init__(self, asked: Asked, effect_id: str | None) -> None:
        self.asked: Asked = asked
        self.scope: RunScope = asked.scope
        self.policy: Policy | None = asked.scope.policy
        self.decided: Decided | None = asked.decisions.of(asked.identity.key_index, asked.tool)
        if self.decided is not None:
            effect_id = effect_id or self.decided.effect_id
        self.effect_id: str = effect_id or ""

    @property
    def shadowed(self) -> bool:
        """Whether what the policy says is recorded and not enforced."""
        return self.policy is not None and not enforced(self.policy)

    def rule(self) -> Flow[Judged]:
        """Ask the policy, and hand out what would be recorded."""
        ruling, new, proposed = yield from self._judge()
        evaluated = self._evaluated(ruling, new)
        allowed = new.recorded if ruling.outcome == "constrain" and not self.shadowed else None
        return Judged(
            self.effect_id,
            new.policy,
            new.revision,
            ruling,
            self.asked.recorded if allowed is None else allowed,
            enforced=not self.shadowed,
            drafts=(proposed, evaluated),
        )

    def ask_ahead(self) -> Flow[Permit]:
        """Ask people about a call that is yet to come; the permit names the approval, if there is one."""
        decided, approval_id = self.decided, None
        if decided is not None and (decided.approval_id is not None or self._rules_still(decided)):
            approval_id = decided.approval_id
        elif self.policy is not None:
            self.effect_id = self.effect_id or (yield NewId("eff"))
            ruling, new, proposed = yield from self._judge()
            if ruling.outcome == "ask" and not self.shadowed and (yield from self._held()) is None:
                approval_id = yield from self._request(ruling, new, (proposed, self._evaluated(ruling, new)))
        if approval_id is not None and (yield from unanswered((approval_id,))):
            self.asked.decisions.asked_ahead.append(approval_id)
        return Permit(self.effect_id, approval_id)

    def permit(self) -> Flow[Permit]:
        if not self.effect_id:
            self.effect_id = yield NewId("eff")
        decided = self.decided
        if decided is not None and decided.approval_id is not None:
            found = yield from self._by_approval(decided, decided.approval_id)
            if found is not None:
                return found
        elif decided is None:
            yield from self._refuse_in_place_of_another()
        elif decided.outcome != "deny" and self._rules_still(decided):
            return self._allowed(decided)
        if self.policy is None:
            return Permit(self.effect_id)
        return (yield from self._propose())

    def _refuse_in_place_of_another(self) -> Flow[None]:
        """Refuse a call that stands where people were asked about another one, as a hook would make it (case S13)."""
        asked = self.asked
        other = None if asked.place is None else asked.decisions.at(asked.place, asked.tool.name)
        if other is None or other.approval_id is None:
            return
        approval = yield from approval_now(other.approval_id)
        now: int = yield Now()
        if approval is None or judge_use(approval.found, same_call=False, now_ms=now) != "mismatch":
            return
        found = asked.binding(other.effect_id)
        known = [
            event for event in asked.past.calls(other.effect_id).failures if refused_call(event) == found
        ]
        if known:
            raise refusal_of(known[0], asked.tool.name)
        raise (yield from self._mismatched(approval, found))

    def _rules_still(self, decided: Decided) -> bool:
        """Whether a ruling is about this call and of the policy in force; without one the recorded ruling stands."""
        if decided.identity != self.asked.identity:
            return False
        return self.policy is None or (decided.policy, decided.revision, decided.shadowed) == (
            self.policy.name,
            self.policy.revision,
            self.shadowed,
        )

    def _allowed(self, decided: Decided) -> Permit:
        if decided.recorded is None:
            return Permit(self.effect_id)
        return Permit(self.effect_id, recorded=decided.recorded, proposed=self.asked.recorded)

    # ---- the policy ----------------------------------------------------------------------------------------------

    def _propose(self) -> Flow[Permit]:
        """Ask the policy about this call as it is now, and do as it says."""
        ruling, new, proposed = yield from self._judge()
        return (yield from self._carry_out(ruling, new, proposed))

    def _judge(self) -> Flow[tuple[Ruling, Decided, Draft]]:
        """The policy's ruling on this call, and what would be recorded of it."""
        asked, scope = self.asked, self.scope
        scope.frontier(f"a decision about {asked.tool.name}", approved=True)
        ruling = yield from evaluate(asked, self.effect_id)
        binding = asked.binding(self.effect_id)
        proposed = events.decision_proposed(
            scope,
            self.effect_id,
            asked.tool.name,
            asked.tool.version,
            binding,
            asked.recorded,
            asked.occurrence,
            asked.place,
        )
        new = Decided(self.effect_id, asked.tool.name, asked.identity, binding)
        return ruling, new, proposed

    def _carry_out(self, ruling: Ruling, new: Decided, *before: Draft) -> Flow[Permit]:
        evaluated = self._evaluated(ruling, new)
        if self.shadowed:
            new.in_shadow()
            return replace(self._allowed(new), drafts=(*before, evaluated), decided=new)
        match ruling.outcome:
            case "deny":
                raise (yield from self._denied(ruling, new, (*before, evaluated)))
            case "ask":
                return (yield from self._ask(ruling, new, (*before, evaluated)))
            case _:
                return replace(self._allowed(new), drafts=(*before, evaluated), decided=new)

    def _evaluated(self, ruling: Ruling, new: Decided) -> Draft:
        assert self.policy is not None
        new.policy, new.revision = self.policy.name, self.policy.revision
        new.outcome, new.rules, new.shadowed = ruling.outcome, ruling.rules, self.shadowed
        asked, binding = self.asked, new.binding
        if ruling.outcome == "constrain":
            assert ruling.arguments is not None
            new.proposed, new.recorded = asked.recorded, ruling.arguments
            binding = asked.binding(self.effect_id, new.recorded)
        content = ruled_content(asked, self.policy, ruling)
        return events.policy_evaluated(
            self.scope,
            self.effect_id,
            (new.policy, new.revision),
            ruling,
            binding,
            content,
            enforced=not self.shadowed,
        )

    def _denied(self, ruling: Ruling, new: Decided, drafts: tuple[Draft, ...]) -> Flow[Exception]:
        yield from self._append(*drafts)
        asked = self.asked
        asked.decisions.keep(new)
        asked.past.calls(self.effect_id).failed_here += 1
        return policy_denied(
            self.effect_id, asked.tool.name, new.policy, new.revision, ruling.rules, ruling.reasons
        )

    # ---- people --------------------------------------------------------------------------------------------------

    def _ask(self, ruling: Ruling, new: Decided, drafts: tuple[Draft, ...]) -> Flow[Permit]:
        """Use a permission that was given for the whole run, or ask for one and wait."""
        wide = yield from self._for_the_run()
        if wide is not None:
            return replace(self._used(wide, drafts), decided=new)
        held = yield from self._held()
        if held is not None:
            # Nobody is asked about what would not be made.
            raise (yield from refuse_held(self.asked, self.effect_id, drafts, held))
        approval_id = yield from self._request(ruling, new, drafts)
        raise (yield from self._wait(approval_id))

    def _held(self) -> Flow[Held | None]:
        """What holds the tool now. Asking people is slow and rare, so it is looked at each time."""
        lever = self.scope.part(Lever)
        yield from lever.look()
        return lever.holding(self.asked.tool.name)

    def _request(self, ruling: Ruling, new: Decided, drafts: tuple[Draft, ...]) -> Flow[str]:
        approval_id: str = yield NewId("apr")
        now: int = yield Now()
        request = request_of(self.asked, self.effect_id, new.binding, approval_id, ruling, now)
        yield from self._append(*drafts, asking.requested(self.scope, request))
        new.approval_id = approval_id
        self.asked.decisions.keep(new)
        self.asked.decisions.for_the_run |= request.scope == "run"
        return approval_id

    def _wait(self, approval_id: str) -> Flow[BaseException]:
        """Park the run; calls that came together with this one get their turn to ask, or to be made, first."""
        yield Wait(0)
        tool = self.asked.tool.name
        return self.scope.suspend(
            f"the call of {tool} waits for approval {approval_id}",
            cause="approval",
            waits_for=tuple(dict.fromkeys((approval_id, *self.asked.decisions.asked_ahead))),
        )

    def _by_approval(self, decided: Decided, approval_id: str) -> Flow[Permit | None]:
        """What the approval that was asked for this call says; None when the call has to be judged anew."""
        approval = yield from approval_now(approval_id)
        if approval is None:
            return None
        now: int = yield Now()
        bound = self.asked.binding(self.effect_id)
        same_call = bound == approval.binding
        match judge_use(approval.found, same_call=same_call, now_ms=now):
            case "wait":
                raise (yield from self._wait(approval_id))
            case "use":
                return (yield from self._use(decided, approval))
            case "used":
                return Permit(self.effect_id, approval_id) if same_call else None
            case "mismatch":
                raise (yield from self._mismatched(approval, bound))
            case "expire":
                expired = asking.expired(self.scope, approval_id, approval.effect_id)
                yield from self._append(expired, guards=(approval.unchanged,))
                raise self._lapsed(decided, approval_id)
            case "refused" if approval.state == "expired":
                raise self._lapsed(decided, approval_id)
            case "refused":
                if not same_call:
                    return None
                self.asked.past.calls(self.effect_id).denied_here += 1
                raise denied_by(approval, self.asked.tool.name)

    def _use(self, decided: Decided, approval: ApprovalStanding) -> Flow[Permit]:
        """Granted: used in the append of the intention, unless a policy that has changed since says otherwise."""
        if self._rules_still(decided):
            return self._used(approval)
        self.scope.frontier(f"a decision about {self.asked.tool.name}", approved=True)
        ruling = yield from evaluate(self.asked, self.effect_id)
        if ruling.outcome in ("allow", "ask"):
            assert self.policy is not None
            new = replace(decided)
            evaluated = self._evaluated(ruling, new)
            return replace(self._used(approval, (evaluated,)), decided=new)
        return (yield from self._carry_out(ruling, replace(decided, approval_id=None)))

    def _used(self, approval: ApprovalStanding, drafts: tuple[Draft, ...] = ()) -> Permit:
        consumed = asking.consumed(self.scope, approval.approval_id, self.effect_id)
        # What was shown to people is what is sent, whatever became of the caller's own objects since.
        return Permit(
            self.effect_id,
            approval.approval_id,
            recorded=self.asked.recorded,
            drafts=(*drafts, consumed),
            guards=(approval.unchanged,),
        )

    def _for_the_run(self) -> Flow[ApprovalStanding | None]:
        """A permission for every call of this run with these arguments. Bindings of two effects cannot be compared."""
        asked = self.asked
        if not asked.decisions.for_the_run or asked.artifacts.found():
            return None
        now: int = yield Now()
        wanted = (asked.tool.name, asked.tool.version, asked.identity.arguments_index)
        for approval in (yield from approvals_of(self.scope.run_id)):
            given = approval.scope == "run" and approval.state in ("granted", "consumed")
            lapsed = approval.expires_at_ms is not None and now >= approval.expires_at_ms
            if (
                given
                and not lapsed
                and (approval.tool, approval.tool_version, approval.arguments_index) == wanted
            ):
                return approval
        return None

    def _mismatched(self, approval: ApprovalStanding, found: str) -> Flow[Exception]:
        asked = self.asked
        changed = {
            "tool": asked.tool.name,
            "tool_version": asked.tool.version,
            "arguments": asked.recorded,
            "artifacts": list(asked.artifacts.found()),
        }
        draft = asking.mismatched(
            self.scope, approval.approval_id, approval.effect_id, approval.binding, found, changed
        )
        yield from self._append(draft)
        asked.past.calls(approval.effect_id).failed_here += 1
        return mismatched(approval.approval_id, approval.effect_id, asked.tool.name)

    def _lapsed(self, decided: Decided, approval_id: str) -> Exception:
        decided.approval_id, decided.outcome = None, "deny"
        self.asked.past.calls(self.effect_id).failed_here += 1
        return not_approved(approval_id, self.effect_id, self.asked.tool.name, "expired")

    # ---- recording -----------------------------------------------------------------------------------------------

    def _append(self, *drafts: Draft, guards: tuple[Guard, ...] = ()) -> Flow[None]:
        """Record a decision that leads to no intention now."""
        if self.asked.handle.left:
            import asyncio

            raise asyncio.CancelledError
        self.scope.frontier(f"a decision about {self.asked.tool.name}", approved=True)
        yield from append_patiently(append(self.scope, drafts, *guards))
