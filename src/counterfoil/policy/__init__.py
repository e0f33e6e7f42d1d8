"""Policies: a list of rules in Python, and Cedar; whether an agent's call is allowed, changed, asked about or denied."""

from __future__ import annotations

from counterfoil.abc.policy import Asking, Policy, Proposal, Ruling
from counterfoil.policy.rules import Rule, RuleList, allow, ask, constrain, deny
from counterfoil.policy.shadow import shadow

__all__ = [
    "Asking",
    "Policy",
    "Proposal",
    "Rule",
    "RuleList",
    "Ruling",
    "allow",
    "ask",
    "constrain",
    "deny",
    "shadow",
]
