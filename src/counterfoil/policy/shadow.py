"""A policy in shadow: asked and recorded like any other, and nothing is refused because of it (DESIGN 7)."""

from __future__ import annotations

from typing import Any, Final

from counterfoil.abc.policy import Policy, Proposal, Ruling


class Shadow:
    """Judges in the place of a policy that is to be tried out; made by :func:`shadow`.

    Its rulings stand in the ledger under the policy's own name and revision, marked as not enforced.
    """

    enforced: Final = False

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def __repr__(self) -> str:
        return f"<shadow of {self._policy!r}>"

    @property
    def name(self) -> str:
        """The policy's own name."""
        return self._policy.name

    @property
    def revision(self) -> str:
        """The policy's own revision."""
        return self._policy.revision

    def snapshot(self) -> Any:
        """The policy's own snapshot."""
        return self._policy.snapshot()

    def evaluate(self, proposal: Proposal) -> Ruling:
        """The policy's own ruling."""
        return self._policy.evaluate(proposal)


def shadow(policy: Policy) -> Shadow:
    """Try a policy out: each call is judged and the ruling recorded, and the call is made as if it had been allowed.

    ``counterfoil shadow`` then says what would have been refused, asked about or changed.

    Example::

        ledger = counterfoil.open("./ledger", policy=shadow(RuleList("refunds", revision="2", rules=[...])))
    """
    return Shadow(policy)
