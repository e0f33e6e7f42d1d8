"""Why a call may be made: nobody was asked, a policy allowed it, or a person did; and what is recorded with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.core.event import Draft
from counterfoil.store.rows import Guard

if TYPE_CHECKING:
    from counterfoil.effects.decisions import Decided


class Permit(Struct, frozen=True):
    """``drafts`` and ``guards`` belong into the append of the intention, so that an approval is used exactly once.

    ``recorded`` are the arguments as allowed (None: as asked for), ``proposed`` those asked for where they differ.
    ``effect_id`` None: the effect has no id yet. ``decided`` is what is on record once ``drafts`` are.
    """

    effect_id: str | None = None
    approval_id: str | None = None
    recorded: Mapping[str, Any] | None = None
    proposed: Mapping[str, Any] | None = None
    drafts: tuple[Draft, ...] = ()
    guards: tuple[Guard, ...] = ()
    decided: Decided | None = None

    def spent(self) -> Permit:
        """The same for a later attempt: its events are recorded."""
        if not self.drafts and not self.guards:
            return self
        return replace(self, drafts=(), guards=(), decided=None)


UNASKED: Final = Permit()
"""Of a ledger without a policy."""
