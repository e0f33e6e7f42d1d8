"""What providers say by themselves, by webhook or mail: handed to the ledger by the key of the effect (DESIGN 2.4)."""

from __future__ import annotations

from typing import Any

from counterfoil.client.handle import Handle
from counterfoil.effects.callback import Callback, Heard, hear
from counterfoil.effects.doubt import Outcome
from counterfoil.flow.drive import drive


class Observing(Handle):
    """Observations from outside."""

    def observe(
        self,
        key: str,
        outcome: Outcome,
        *,
        tool: str | None = None,
        result: Any = None,
        provider_id: str | None = None,
        message: str = "",
        delivery: str | None = None,
        attempt: int | None = None,
    ) -> Heard:
        """Keep what a provider said by itself about the effect with this idempotency key (or ``eff_…`` id).

        ``outcome`` is ``succeeded``, ``rejected`` or ``failed`` (confirmed not done). ``result`` is what the tool would
        have returned; a run that resumes gets it. ``delivery`` is the provider's id of the message: delivered again, it
        changes nothing, and neither do the same words without one. It may come before the call has returned, late, or
        after a settlement: it ends doubt, never overwrites, and contradicts what is recorded otherwise. ``attempt`` says
        which attempt a failure is about; without it a failure says nothing once there was a second one.
        Raises ``EffectNotFound``, ``IdempotencyConflict`` (the key is another tool's) or an ``InputError``.
        """
        self.check_writable()
        said = Callback(outcome, result, provider_id, message, delivery, attempt)
        return drive(hear(self.ports, key, said, tool), self.ports)
