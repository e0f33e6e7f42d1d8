"""What this run has recorded about its effects: looked up when code is re-entered and a call comes again (case S11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from counterfoil.effects.outcome import NEVER_SENT
from counterfoil.effects.refusals import is_refusal
from counterfoil.effects.rows import EFFECTS
from counterfoil.effects.standing import Standing, effect_now, pointed_event, row_differs
from counterfoil.effects.state import move_of
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Flow, Read, Rows
from counterfoil.store.rows import Key, Row

if TYPE_CHECKING:
    from counterfoil.effects.handle import Handle
    from counterfoil.flow.context import RunScope

PAGE_ROWS = 500

DECIDING: Final = frozenset({"effect.observed", "effect.late_observed", "effect.settled"})
"""Types of the events that end an effect's doubt."""


class Calls(Struct):
    """Calls of one effect, in program order: first those that failed, then the one that was final, then repeats.

    ``failures`` and ``repeats`` are the recorded ones of earlier entries, refusals among the first; ``failed_here``
    counts failures of this entry; one that its policy tries again is no answer, and stands in ``retried`` until the
    next attempt. ``agreed`` is what the call itself came to, where a callback had said the same before it. ``denied_here`` counts calls of this entry that a person's denial answers without an event of the call's own.
    """

    failures: list[Event] = field(default_factory=list)
    failed_here: int = 0
    denied_here: int = 0
    repeats: int = 0
    decided: Event | None = None
    agreed: Event | None = None
    retried: Event | None = None
    retry_due_ms: int | None = None

    def failure(self, number: int) -> Event | None:
        """The recorded failure that the ``number``-th call ended with, if it is one of an earlier entry."""
        place = number - 1 - self.denied_here
        return self.failures[place] if 0 <= place < len(self.failures) else None

    @property
    def answered(self) -> int:
        """How many calls of this effect, made by the run that performs it, have their answer on record."""
        return len(self.failures) + self.failed_here + self.denied_here + 1 + self.repeats


class Past:
    """One scope's view of its effects (``scope.part(Past)``).

    A fresh run reads nothing: that a key is taken shows when its intention is refused.
    """

    def __init__(self, scope: RunScope) -> None:
        self._run = (scope.stream_id, scope.run_id)
        self._calls: dict[str, Calls] = {}
        self._begun: dict[str, str] = {}
        self._known: dict[str, Standing] | None = None
        self._live: dict[str, list[Handle]] = {}
        self._own: set[str] = set()
        self.begun_here: set[str] = set()
        """Begun by this entry: whichever of its calls did so, none of the others has an answer on record."""
        self._proposed: set[str] = set()
        for event in scope.history:
            self._keep(event)

    def _keep(self, event: Event) -> None:
        data = event.data
        if event.type == "effect.intended":
            self._own.add(data["effect_id"])
            if (event.header.attempt or 1) > 1:
                calls = self.calls(data["effect_id"])
                calls.retried = calls.retry_due_ms = None
        elif event.type == "retry.decided":
            self._keep_retry(event)
        elif is_refusal(event):
            self.calls(data["effect_id"]).failures.append(event)
        elif event.type == "decision.proposed":
            self._proposed.add(data["effect_id"])
        elif event.type == "effect.repeated":
            self.calls(data["effect_id"]).repeats += 1
        elif event.type in DECIDING:
            calls = self.calls(data["effect_id"])
            move = move_of(event.type, data)
            if move is None or move.to == "unknown":
                return
            if calls.decided is not None:
                calls.agreed = calls.agreed or _agreed(calls.decided, event)
                return
            if move.to != "failed":
                calls.decided = event
            elif data.get("error_class") != NEVER_SENT:
                calls.failures.append(event)

    def _keep_retry(self, event: Event) -> None:
        if "effect_id" not in event.data:
            return
        calls = self.calls(event.data["effect_id"])
        if not event.data["retry"]:
            # Decided otherwise since: the failure was an answer after all.
            calls.failures += [] if calls.retried is None else [calls.retried]
            calls.retried = calls.retry_due_ms = None
        elif calls.failures and calls.failures[-1].header.attempt == event.header.attempt:
            calls.retried = calls.failures.pop()
            calls.retry_due_ms = event.recorded_at_ms + event.data["delay_ms"]

    def calls(self, effect_id: str) -> Calls:
        """The calls of this effect so far."""
        return self._calls.setdefault(effect_id, Calls())

    @property
    def repeats_others(self) -> bool:
        """Whether the record hands out effects of other runs, which no query by run finds."""
        return not self._calls.keys() <= self._own | self._proposed

    def find(self, key_index: str) -> Flow[Standing | None]:
        """This run's effect under this key, as it stands now; None if the run has none."""
        effect_id = self._begun.get(key_index)
        if effect_id is None and self._own:
            if self._known is None:
                self._known = yield from _effects_of(*self._run)
            known = self._known.get(key_index)
            if known is None or self._is_decided(known):
                return known
            effect_id = known.effect_id
        return None if effect_id is None else (yield from effect_now(effect_id))

    def _is_decided(self, known: Standing) -> bool:
        # A decided effect changes only by contradiction, and then a run that is already under way keeps the answer
        # that it found when it was entered.
        calls = self._calls.get(known.effect_id)
        return (
            calls is not None
            and calls.decided is not None
            and calls.decided.sequence == known.outcome_sequence
            and known.state != "contradicted"
        )

    def began(self, key_index: str, effect_id: str, handle: Handle) -> None:
        """This entry intends the effect."""
        self._begun[key_index] = effect_id
        self.resumed(effect_id, handle)

    def forget(self, key_index: str, effect_id: str) -> None:
        """The intention was refused: the key belongs to another effect."""
        if self._begun.get(key_index) == effect_id:
            del self._begun[key_index]

    def resumed(self, effect_id: str, handle: Handle) -> None:
        """This perform is busy with the effect."""
        self._live[effect_id] = [*self._live.get(effect_id, ()), handle]

    def ended(self, effect_id: str, handle: Handle) -> None:
        """This perform is no longer busy with the effect."""
        self._live[effect_id] = [busy for busy in self._live.get(effect_id, ()) if busy is not handle]

    def live(self, effect_id: str) -> list[Handle]:
        """The performs, in other tasks and threads of this entry, that are busy with the effect right now."""
        return self._live.get(effect_id, [])

    def decision(self, effect: Standing) -> Flow[Event]:
        """The event that decided the outcome. Raises ``RowsDiffer`` when the row points to anything else."""
        sequence = effect.outcome_sequence
        if sequence is None:
            raise row_differs(effect, sequence, "a decided effect has one")
        calls = self._calls.get(effect.effect_id)
        if calls is not None and calls.decided is not None and calls.decided.sequence == sequence:
            return calls.agreed or calls.decided
        event = yield from pointed_event(effect, sequence, DECIDING)
        if event.data.get("outcome") != effect.outcome:
            raise row_differs(effect, sequence, f"it says {event.data.get('outcome')}, not {effect.outcome}")
        return event


def _agreed(decided: Event, event: Event) -> Event | None:
    """The end of a call that a callback was quicker than: it says the same, and has what the tool returned."""
    first, then = decided.data, event.data
    same = first.get("outcome") == then.get("outcome") == "succeeded"
    return event if same and (first.get("source"), then.get("source")) == ("callback", "call") else None


def _effects_of(stream_id: str, run_id: str) -> Flow[dict[str, Standing]]:
    """The run's effects by key."""
    found: dict[str, Standing] = {}
    after: Key | None = None
    while True:
        page: list[Row] = yield Read(Rows(EFFECTS.name, "by_run", (stream_id, run_id), PAGE_ROWS, after))
        effects = [Standing.of(row) for row in page]
        found |= {effect.key_index: effect for effect in effects if effect.key_index is not None}
        if len(page) < PAGE_ROWS:
            return found
        after = (stream_id, run_id, effects[-1].first_sequence, effects[-1].effect_id)
