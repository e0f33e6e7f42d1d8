"""What a run has done so far, found by identity: results to hand out again, and the frontier where it goes on live."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

from msgspec import Struct, field

from counterfoil.core import canonical
from counterfoil.core.ids import derived_id
from counterfoil.errors import Divergence
from counterfoil.flow.context import RunScope, step_path
from counterfoil.flow.event import Event
from counterfoil.flow.lanes import in_main_lane
from counterfoil.flow.requests import Events, EventsById, Flow, Read

COUNTED_TYPES = frozenset({"step.finished", "provider.responded"})
"""What the counts of ``run.finished`` are made of."""

NOTED_TYPES = frozenset(
    {
        "state.set",
        "state.cleared",
        "compaction.recorded",
        "draft.checkpointed",
        "sandbox.probed",
        "child.started",
        "schedule.created",
        "schedule.fired",
        "admission.absorbed",
    }
)
"""Units that are one event: recording it is all there is to do."""

ENTRY_TYPES = (
    COUNTED_TYPES
    | NOTED_TYPES
    | frozenset(
        {
            "provider.failed",
            "budget.set",
            "run.started",
            "run.claimed",
            "run.suspended",
            "run.resumed",
            "run.cancel_requested",
            "run.finished",
            "decision.proposed",
            "policy.evaluated",
            "approval.requested",
            "approval.expired",
            "approval.mismatched",
            "effect.intended",
            "effect.observed",
            "effect.late_observed",
            "effect.looked_up",
            "effect.review_requested",
            "effect.settled",
            "effect.contradicted",
            "effect.repeated",
            "retry.decided",
        }
    )
)
"""What a run is given of its own past when it is entered again: results, its budget and times, and everything
about its effects.

The claim is part of it, so only a run that begins has no history at all.
"""

ATTEMPTS_LOOKED_UP = 4
"""Attempts at one step that are looked up at a time; most steps have none that was left unfinished."""


# ---- counts --------------------------------------------------------------------------------------------------------


class Tally(Struct):
    """What a run used, for ``run.finished``. Money is summed exactly; two currencies have no sum and are left out."""

    steps: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    money: dict[str, Decimal] = field(default_factory=dict)

    def add(self, event_type: str, data: Mapping[str, Any]) -> None:
        """Count one event."""
        if event_type == "step.finished":
            self.steps += 1
        elif event_type == "provider.responded":
            self.calls += 1
            self.input_tokens += data["input_tokens"]
            self.output_tokens += data["output_tokens"]
            self._pay(data.get("cost"), data.get("currency") or "")

    def _pay(self, cost: str | None, currency: str) -> None:
        if cost is None:
            return
        try:
            self.money[currency] = self.money.get(currency, Decimal(0)) + Decimal(cost)
        except InvalidOperation:  # a stored header that says no number is verify's to report
            return

    @property
    def data(self) -> dict[str, Any]:
        """The public fields of ``run.finished`` that are counts."""
        counts: dict[str, Any] = {
            "steps": self.steps,
            "calls": self.calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
        }
        if len(self.money) == 1:
            ((currency, cost),) = self.money.items()
            counts["cost"] = f"{cost:f}"
            if currency:
                counts["currency"] = currency
        return counts


def tally_of(record: Iterable[Event]) -> Tally:
    """The counts of these events."""
    tally = Tally()
    for event in record:
        if event.type in COUNTED_TYPES:
            tally.add(event.type, event.data)
    return tally


# ---- identity and record -------------------------------------------------------------------------------------------


class Identity(Struct, frozen=True, gc=False):
    """A memoised unit: where it stands in the program, its name, and a tag of its arguments and occurrence."""

    kind: str
    name: str
    path: str
    digest: str
    memo: str
    occurrence: int

    @property
    def label(self) -> str:
        """The name by which code inside this step is told apart."""
        return f"{self.name}#{self.occurrence}"

    def place(self) -> dict[str, Any]:
        """What content keeps of it, so that a divergence can be told from siblings in another order."""
        return {"path": self.path, "lane": "main" if in_main_lane() else "side"}


def identify(scope: RunScope, kind: str, name: str, arguments: bytes) -> Identity:
    """The identity of the next call with this name and these arguments (canonical bytes), in program order."""
    material = scope.ports.material(scope.stream_id)
    digest = material.digest("arguments", [], arguments)
    path = step_path()
    occurrence = scope.occurrence(f"{kind}:{name}", digest, path)
    memo = material.tag("memo", [], canonical.encode_row([path, kind, name, digest, occurrence]))
    return Identity(kind, name, path, digest, memo, occurrence)


class Begun(Struct, frozen=True, gc=False):
    """Attempts at a unit that brought no result: the step they share, and how many there were."""

    step_id: str | None = None
    attempts: int = 0


class Record:
    """What the ledger held of this run when it was entered (``scope.part(Record)``).

    A ``cancelled`` step is no result: it runs again.
    """

    def __init__(self, scope: RunScope) -> None:
        self._scope = scope
        self._finished: dict[str, Event] = {}
        self._of_step: dict[str, Event] = {}
        self._begun: dict[str, Begun] = {}
        # Where the first attempt at a unit stands: the program was there before whatever was recorded after it.
        self._since: dict[str, int] = {}
        self._lock = threading.Lock()
        self.tally: Tally = Tally()
        self.last_call_id: str | None = None
        """The call to a model that was answered last."""
        for event in scope.history:
            self._keep(event)
        # Not handed out yet, and not known to be of siblings: what comes next in the main lane is among these.
        self._untaken = dict(self._finished)

    def _keep(self, event: Event) -> None:
        event_type = event.type
        if event_type == "step.finished":
            data = event.data
            self.tally.add(event_type, data)
            if data["outcome"] != "cancelled" and data["kind"] != "tool":
                self._finished[data["memo"]] = event
        elif event_type in NOTED_TYPES:
            # What is done by being recorded has an id made of its identity, and no memo.
            self._finished[event.event_id] = event
        elif event_type in ("provider.responded", "provider.failed"):
            if event_type == "provider.responded":
                self.tally.add(event_type, event.data)
                self.last_call_id = event.data["call_id"]
            if event.header.step_id is not None:
                self._of_step[event.header.step_id] = event

    def recorded(self, identity: Identity) -> Event | None:
        """As :meth:`take`, and it stays to be handed out."""
        return self._finished.get(identity.memo)

    def take(self, identity: Identity) -> Event | None:
        """The recorded end of this unit, to be handed out once; None at the frontier."""
        event = self._finished.get(identity.memo)
        if event is not None:
            with self._lock:
                self._untaken.pop(identity.memo, None)
        return event

    def count(self, event_type: str, data: Mapping[str, Any]) -> None:
        """Count an event of this entry; siblings may end at the same time."""
        with self._lock:
            self.tally.add(event_type, data)
            self.last_call_id = data.get("call_id", self.last_call_id)

    def answer(self, step_id: str | None) -> Event | None:
        """The provider's last response or failure in this step."""
        return None if step_id is None else self._of_step.get(step_id)

    def without_result(self, identity: Identity, begun: Begun) -> None:
        """An attempt of this entry brought no result: the next call like it is another attempt at the same unit."""
        with self._lock:
            self._begun[identity.memo] = begun
        name = f"{identity.kind}:{identity.name}"
        self._scope.give_back(name, identity.digest, identity.occurrence, identity.path)

    def frontier(self, identity: Identity) -> Flow[Begun]:
        """Go on live with this unit; returns the attempts at it so far, in this entry or an earlier one.

        Raises :class:`Divergence`, and parks the run, when the record holds another unit in this place; raises
        ``RunClosed`` when the run has ended.
        """
        self._go_on(identity)
        begun = self._begun.get(identity.memo, Begun())
        # A run that just began has begun nothing before.
        if begun.attempts == 0 and self._scope.history:
            begun = yield from self._recorded_attempts(identity.memo)
        other = self._other(identity)
        if other is not None and not (yield from self._went_on(identity, other)):
            self._refuse(identity, other)
        return begun

    def live(self, identity: Identity) -> None:
        """As :meth:`frontier`, for what is no step and has no attempts. Raises the same."""
        self._go_on(identity)
        other = self._other(identity)
        if other is not None:
            self._refuse(identity, other)

    def _go_on(self, identity: Identity) -> None:
        step = "step " if identity.kind in ("code", "model") else ""
        self._scope.frontier(f"{identity.kind} {step}{identity.name}")

    def _recorded_attempts(self, memo: str) -> Flow[Begun]:
        begun, first = Begun(), 1
        while True:
            numbers = range(first, first + ATTEMPTS_LOOKED_UP)
            ids = tuple(attempt_event_id(self._scope, memo, number) for number in numbers)
            found: list[Event] = yield Read(EventsById(self._scope.stream_id, ids))
            if not found:
                return begun
            self._since.setdefault(memo, min(event.sequence for event in found))
            attempts = max(event.header.attempt or 1 for event in found)
            begun = Begun(begun.step_id or found[0].header.step_id, attempts)
            first += ATTEMPTS_LOOKED_UP

    def _other(self, identity: Identity) -> Event | None:
        """In one lane every recorded unit comes before the first new one, so one left over is another program's."""
        if not self._untaken or not in_main_lane():
            return None
        with self._lock:
            untaken = list(self._untaken.items())
        for memo, event in untaken:
            content = event.outline_or_none() or {}
            if content.get("lane") != "main":
                with self._lock:
                    self._untaken.pop(memo, None)
            elif content.get("path") == identity.path:
                return event
        return None

    def _went_on(self, identity: Identity, other: Event) -> Flow[bool]:
        """Whether the program that made the record left an attempt at this unit without a result and went on to the other.

        So does code that catches a time limit or an interruption. Where an event between the two is gone, nobody can
        tell: it may have been the result.
        """
        since = self._since.get(identity.memo)
        if since is None or other.sequence < since:
            return False
        between: list[Event] = yield Read(
            Events(self._scope.stream_id, since, limit=other.sequence - since, lightly=True)
        )
        return bool(between) and between[-1].sequence == other.sequence

    def _refuse(self, identity: Identity, other: Event) -> NoReturn:
        raise self._scope.latch(_divergence(self._scope, other, identity))


def _divergence(scope: RunScope, recorded: Event, found: Identity) -> Divergence:
    kind, name, memo = _told_of(recorded)
    return Divergence(
        f"run {scope.run_id} resumes from a record that has {kind} step {name} (sequence "
        f"{recorded.sequence}) where the code now asks for {found.kind} step {found.name} with other arguments or "
        "in another order",
        hint="run the code that made the record, or start anew under another dedupe key",
        run_id=scope.run_id,
        sequence=recorded.sequence,
        recorded={"kind": kind, "name": name, "memo": memo},
        found={"kind": found.kind, "name": found.name, "memo": found.memo},
    )


def _told_of(recorded: Event) -> tuple[str, str, str]:
    """Kind, name and memo of a recorded unit; one that is a single event is called by its type."""
    data = recorded.data
    if recorded.type in NOTED_TYPES:
        return recorded.type, str(data.get("slot", recorded.type)), recorded.event_id
    return data["kind"], data["name"], data["memo"]


def attempt_event_id(scope: RunScope, memo: str, number: int) -> str:
    """Id of the ``step.started`` of an attempt: made of run, step and number, so that the next entry finds it."""
    material = scope.ports.material(scope.stream_id)
    return derived_id("evt", material.keyed("derived-id", [scope.run_id, number], memo.encode()))
