"""The authorizer of a directory that nobody configured: whoever can read the files can read them (DESIGN 9)."""

from __future__ import annotations

from typing import Final

from counterfoil.abc.authorizer import AccessDecision, AccessRequest

EMBEDDED: Final = "embedded"
"""The rule that allows: there are no roles here, only the permissions of the files."""

SEARCH_EVERYWHERE: Final = "search-everywhere"
"""The rule that refuses a search over conversations: that takes an authorizer of your own (seed 003)."""


class EmbeddedAuthorizer:
    """Allows everything but a search over all conversations.

    Code that has the directory and its keys could read them without asking, so a refusal here would protect nothing;
    what it gives is the record of who looked. A search over all conversations is different: it brings together what
    was said in places that have nothing to do with each other, and nobody does that by accident.
    """

    def decide(self, request: AccessRequest) -> AccessDecision:
        """See :class:`counterfoil.abc.Authorizer`."""
        if request.action == "search" and request.stream_id is None:
            return AccessDecision(allowed=False, rule=SEARCH_EVERYWHERE)
        return AccessDecision(allowed=True, rule=EMBEDDED)
