"""What a run has on record about calls that were proposed: rulings, approvals asked for, refusals handed out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from counterfoil.abc.policy import RulingOutcome
from counterfoil.core.values import from_json
from counterfoil.effects.compensation import Compensating
from counterfoil.effects.identity import Identity, Occurrence, business_identity, run_identity
from counterfoil.effects.permit import UNASKED, Permit
from counterfoil.errors import EffectInFlight, InputError
from counterfoil.flow.context import RunScope
from counterfoil.flow.event import Event

if TYPE_CHECKING:
    from counterfoil.effects.tool import Tool


class Decided(Struct):
    """The newest proposal of one effect and what became of it.

    ``binding`` is that of the arguments as proposed; ``recorded`` are the arguments that a ``constrain`` allowed in
    place of ``proposed``. ``approval_id`` is the approval that was asked for and has not lapsed.
    """

    effect_id: str
    tool: str
    identity: Identity | None
    binding: str
    policy: str = ""
    revision: str = ""
    outcome: RulingOutcome = "allow"
    rules: tuple[str, ...] = ()
    proposed: Mapping[str, Any] | None = None
    recorded: Mapping[str, Any] | None = None
    approval_id: str | None = None
    shadowed: bool = False

    def in_shadow(self) -> None:
        """The ruling was only recorded: the call is made as it was asked for."""
        self.shadowed, self.outcome, self.proposed, self.recorded = True, "allow", None, None


class Constrained(Struct, frozen=True):
    """A call that a policy allowed with other arguments, for its caller to see."""

    effect_id: str
    tool: str
    proposed: Mapping[str, Any]
    allowed: Mapping[str, Any]
    rules: tuple[str, ...]


class Decisions:
    """One scope's view of its proposals (``scope.part(Decisions)``); empty where no policy was ever asked."""

    def __init__(self, scope: RunScope) -> None:
        self._scope = scope
        self._by_effect: dict[str, Decided] = {}
        self._unread: dict[str, Event] = {}
        self._recorded: dict[str, Event] = {}
        self._by_key: dict[str, Decided] = {}
        self._deciding: set[str] = set()
        self._lock: Lock = Lock()
        self.snapshots: set[tuple[str, str]] = set()
        self.for_the_run: bool = False
        self.asked_ahead: list[str] = []
        """Approvals that were asked for before their calls, and that nobody had answered when that was looked at."""
        for event in scope.history:
            self._keep(event)

    def __bool__(self) -> bool:
        return bool(self._by_effect) or bool(self._by_key)

    def _keep(self, event: Event) -> None:
        data = event.data
        match event.type:
            case "decision.proposed":
                effect_id = data["effect_id"]
                self._by_effect[effect_id] = Decided(effect_id, data["tool"], None, data["binding"])
                self._unread[effect_id] = self._recorded[effect_id] = event
            case "policy.evaluated":
                self._keep_ruling(self._decided(data), event)
            case "approval.requested":
                self._decided(data).approval_id = data["approval_id"]
                self.for_the_run |= data["scope"] == "run"
            case "approval.expired":
                decided = self._decided(data)
                if decided.approval_id == data["approval_id"]:
                    decided.approval_id = None

    def _decided(self, data: Mapping[str, Any]) -> Decided:
        effect_id = data["effect_id"]
        return self._by_effect.setdefault(effect_id, Decided(effect_id, "", None, data.get("binding", "")))

    def _keep_ruling(self, decided: Decided, event: Event) -> None:
        data = event.data
        decided.policy, decided.revision = data["policy"], data["revision"]
        decided.outcome, decided.rules = data["outcome"], tuple(data["rules"])
        decided.proposed = decided.recorded = None
        decided.shadowed = data.get("enforced") is False
        if decided.shadowed:
            decided.in_shadow()
        if decided.outcome == "constrain" and decided.effect_id in self._recorded:
            proposed = self._recorded[decided.effect_id].content_or_none() or {}
            decided.proposed = proposed.get("arguments")
            decided.recorded = (event.content_or_none() or {}).get("allowed")
        self.snapshots.add((decided.policy, decided.revision))

    # ---- finding ----

    def of(self, key_index: str, tool: Tool[..., Any]) -> Decided | None:
        """The newest proposal under this key, of this entry or an earlier one; None if there was none."""
        with self._lock:
            for effect_id in [
                name for name, event in self._unread.items() if event.data["tool"] == tool.name
            ]:
                self._read(self._unread.pop(effect_id), tool)
            return self._by_key.get(key_index)

    def at(self, place: Occurrence, tool: str) -> Decided | None:
        """The call of an earlier entry that stood at this place and was put to people."""
        for effect_id, event in self._recorded.items():
            decided = self._by_effect[effect_id]
            if decided.approval_id is not None and decided.tool == tool:
                found = (event.content_or_none() or {}).get("place")
                if found is not None and (found["path"], found["number"]) == place:
                    return decided
        return None

    def recorded_permit(self, effect_id: str) -> Permit:
        """Why an effect was intended that is on record: the arguments it was allowed with."""
        decided = self._by_effect.get(effect_id)
        if decided is None:
            return UNASKED
        return Permit(effect_id, decided.approval_id, recorded=decided.recorded, proposed=decided.proposed)

    def _read(self, event: Event, tool: Tool[..., Any]) -> None:
        """Whose proposal it is, made again from its content; one that cannot be read is nobody's."""
        content = event.content_or_none()
        if content is None:
            return
        try:
            identity = self._identity(content, tool)
        except (InputError, LookupError, TypeError, ValueError):
            return
        decided = self._by_effect[event.data["effect_id"]]
        decided.identity = identity
        self._by_key[identity.key_index] = decided

    def _identity(self, content: Mapping[str, Any], tool: Tool[..., Any]) -> Identity:
        arguments, index = content["arguments"], self._scope.ports.index
        key = self._scope.part(Compensating).key_of(tool, from_json(arguments), arguments)
        if key is not None:
            return business_identity(index, key, arguments)
        place = content.get("occurrence")
        occurrence = None if place is None else (place["path"], place["number"])
        return run_identity(index, self._scope.run_id, tool.name, arguments, occurrence, tool.identity)

    @property
    def constrained(self) -> list[Constrained]:
        """Every call of the run so far that was allowed with other arguments, in the order of proposal."""
        with self._lock:
            return [
                Constrained(
                    decided.effect_id,
                    decided.tool,
                    from_json(decided.proposed),
                    from_json(decided.recorded),
                    decided.rules,
                )
                for decided in self._by_effect.values()
                if decided.recorded is not None and decided.proposed is not None
            ]

    # ---- keeping ----

    def keep(self, decided: Decided | None) -> None:
        """This is recorded now."""
        if decided is None:
            return
        assert decided.identity is not None, "a call of this entry knows which effect it is"
        with self._lock:
            self._by_effect[decided.effect_id] = decided
            self._by_key[decided.identity.key_index] = decided
            self.snapshots.add((decided.policy, decided.revision))

    @contextmanager
    def deciding(self, key_index: str, tool: str) -> Iterator[None]:
        """One call of this entry at a time is decided under one key. Raises ``EffectInFlight`` for the other."""
        with self._lock:
            if key_index in self._deciding:
                raise EffectInFlight(
                    f"the same call of {tool} is being decided in another task or thread of this run",
                    hint="call it once and share the outcome",
                    tool=tool,
                )
            self._deciding.add(key_index)
        try:
            yield
        finally:
            with self._lock:
                self._deciding.discard(key_index)
