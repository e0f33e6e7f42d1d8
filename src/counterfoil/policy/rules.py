"""A policy as a list of rules: the first one that fits a call decides (DESIGN 7)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

from msgspec import Struct, field

from counterfoil.abc.policy import TOUCHES, ApprovalScope, Asking, Proposal, Ruling, RulingOutcome
from counterfoil.core.forms import is_label
from counterfoil.core.several import several
from counterfoil.errors import InvalidForm

BY_DEFAULT = "by-default"
"""The label that stands for no rule having fitted."""

When = Callable[[Proposal], bool]


class Rule(Struct, frozen=True):
    """One rule: which calls it fits, and what it says about them. Made by allow, constrain, ask and deny.

    ``tool`` is a name or a pattern (``payment.*``; None: any), ``touches`` fits a tool that touches one of them, and
    ``when`` looks at the proposal. Raises InvalidForm for a ``touches`` that no tool could have.
    """

    name: str
    outcome: RulingOutcome
    tool: str | None = None
    touches: frozenset[str] = frozenset()
    when: When | None = None
    reason: str = ""
    to: Callable[[Proposal], Mapping[str, Any]] | None = None
    asking: Asking = field(default_factory=Asking)

    def __post_init__(self) -> None:
        _touching(self.touches)

    def fits(self, proposal: Proposal) -> bool:
        """Whether this rule is about this call."""
        if self.tool is not None and not fnmatchcase(proposal.tool, self.tool):
            return False
        if self.touches and self.touches.isdisjoint(proposal.touches):
            return False
        return self.when is None or bool(self.when(proposal))

    def ruling(self, proposal: Proposal) -> Ruling:
        """What it says."""
        return Ruling(
            self.outcome,
            rules=(self.name,),
            reasons=(self.reason,) if self.reason else (),
            arguments=None if self.to is None else dict(self.to(proposal)),
            asking=self.asking,
        )

    def shown(self) -> dict[str, Any]:
        """The rule for a snapshot. A condition in Python is named; the revision stands for what it says."""
        told: dict[str, Any] = {"rule": self.name, "outcome": self.outcome}
        if self.tool is not None:
            told["tool"] = self.tool
        if self.touches:
            told["touches"] = sorted(self.touches)
        for name, code in (("when", self.when), ("to", self.to)):
            if code is not None:
                told[name] = f"{getattr(code, '__module__', '?')}.{getattr(code, '__qualname__', '?')}"
        if self.reason:
            told["reason"] = self.reason
        if self.outcome == "ask":
            told["needed"] = self.asking.needed
        return told


def _touching(given: Collection[str]) -> frozenset[str]:
    """What a rule's tools touch, refused where it would silently fit no tool."""
    touches = frozenset(several(given, "touches"))
    if not touches <= TOUCHES:
        raise InvalidForm(
            f"touches is a set of {', '.join(sorted(TOUCHES))}; no tool touches {', '.join(sorted(touches - TOUCHES))}",
            argument="touches",
        )
    return touches


class RuleList:
    """Rules in order; ``otherwise`` says what becomes of a call that none of them fits.

    ``revision`` is a label of yours that changes whenever a rule does: a ruling is used again until it changes.

    Example::

        policy = RuleList("refunds", revision="2026-08-01", otherwise="deny", rules=[
            ask("large", tool="payment.refund", when=lambda call: call.arguments["amount"] > 50),
            allow("small", tool="payment.refund"),
        ])
    """

    def __init__(
        self,
        name: str,
        *,
        revision: str,
        rules: Sequence[Rule],
        otherwise: Literal["allow", "ask", "deny"],
    ) -> None:
        names = [rule.name for rule in rules]
        if not all(map(is_label, (name, revision, *names))):
            raise InvalidForm("a policy, its revision and its rules are named by labels: A-Za-z0-9_.:/+-")
        if len(set(names)) < len(names) or BY_DEFAULT in names:
            raise InvalidForm(f"each rule has a name of its own, and none is called {BY_DEFAULT}")
        if otherwise not in ("allow", "ask", "deny"):
            raise InvalidForm("otherwise is allow, ask or deny", argument="otherwise")
        self.name: str = name
        self.revision: str = revision
        self._rules: tuple[Rule, ...] = (*rules, Rule(BY_DEFAULT, otherwise))

    def snapshot(self) -> dict[str, Any]:
        """The rules in order, as far as they are data."""
        return {"rules": [rule.shown() for rule in self._rules]}

    def evaluate(self, proposal: Proposal) -> Ruling:
        """What the first rule says that fits."""
        return next(rule for rule in self._rules if rule.fits(proposal)).ruling(proposal)


def allow(
    name: str,
    *,
    tool: str | None = None,
    touches: Collection[str] = (),
    when: When | None = None,
    reason: str = "",
) -> Rule:
    """The call is made."""
    return Rule(name, "allow", tool, _touching(touches), when, reason)


def deny(
    name: str,
    *,
    tool: str | None = None,
    touches: Collection[str] = (),
    when: When | None = None,
    reason: str = "",
) -> Rule:
    """The call is refused with ``PolicyDenied``, and the tool is never called."""
    return Rule(name, "deny", tool, _touching(touches), when, reason)


def constrain(
    name: str,
    *,
    to: Callable[[Proposal], Mapping[str, Any]],
    tool: str | None = None,
    touches: Collection[str] = (),
    when: When | None = None,
    reason: str = "",
) -> Rule:
    """The call is made with the whole arguments that ``to`` gives; its caller finds both in ``run.constrained``."""
    return Rule(name, "constrain", tool, _touching(touches), when, reason, to)


def ask(
    name: str,
    *,
    tool: str | None = None,
    touches: Collection[str] = (),
    when: When | None = None,
    reason: str = "",
    question: str = "",
    scope: ApprovalScope = "once",
    assignees: Collection[str] = (),
    needed: int = 1,
    due_s: float | None = None,
    expires_s: float | None = None,
) -> Rule:
    """People are asked first; see :class:`counterfoil.policy.Asking` for how."""
    asking = Asking(question, scope, several(assignees, "assignees"), needed, due_s, expires_s)
    return Rule(name, "ask", tool, _touching(touches), when, reason, asking=asking)
