"""A run's turn, folded from its ledger events: the same stages, digests and chain as beside any other agent (DESIGN 8).

Nothing is written twice: each event of the turn follows from one that the run's own transactions recorded, names it, and
is dated by it. So the turn cannot say what the ledger does not, and what erasure takes from the ledger it takes from the
turn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from counterfoil.core import canonical
from counterfoil.core.turn import clean_summary
from counterfoil.core.values import comparable
from counterfoil.journal.chain import Chain
from counterfoil.journal.digests import RESULT_DIGITS
from counterfoil.journal.event import Stage, TurnEvent, TurnNote, linked
from counterfoil.journal.source import READABLE, Source, about
from counterfoil.journal.summary import Fields, Own, Value, summary

_STATUSES: Final[Mapping[str, str]] = {
    "success": "completed",
    "cancelled": "cancelled",
    "interrupted": "cancelled",
    "shutdown": "cancelled",
    "superseded": "cancelled",
    "policy_stop": "refused",
}

HASHED: Final = frozenset({"INTAKE", "TOOL_CALL", "COMMIT"})
"""Stages with a payload hash or a digest of a result: what is made of content."""

FOLD_VERSION: Final = 1
"""Stands in ``turn.committed``: by another version's fold a head can neither be made again nor be found wrong."""


class RunPlace(Struct, frozen=True):
    """Whose turn it is. ``parent`` is the turn of the run that spawned this one."""

    tenant: str
    run_id: str
    agent_id: str
    session_hash: str | None = None
    parent: str | None = None

    @property
    def turn_id(self) -> str:
        """The run's own id under the prefix of turns: one run, one turn."""
        return turn_of_run(self.run_id)


class RunTurn(Struct, frozen=True):
    """A turn folded from a ledger.

    ``head`` and ``kept`` are its hashes as ``turn.committed`` keeps them, if one does, when it had ``kept_events``. What
    came later, such as a late answer, follows behind them.

    ``hidden`` says of which events the content that their digests were made of cannot be had, and why (erased, withheld,
    missing, damaged). With ``kept`` every other event is checked all the same, for each stands on the kept hash of the one
    before it. ``closed`` is the worst of these states, or that of the kept hashes themselves (``unknown``: another version
    of the fold made them). ``damaged_at_seq`` is the first event whose content is not what was written.
    ``person_key`` is the key that the message was sealed under, if that is a person's.
    """

    events: list[TurnEvent]
    head: str | None = None
    kept_events: int = 0
    kept: tuple[str, ...] | None = None
    closed: str | None = None
    damaged_at_seq: int | None = None
    hidden: Mapping[int, str] = field(default_factory=dict)
    person_key: str | None = None

    @property
    def broken_at_seq(self) -> int | None:
        """The first event that is damaged or differs from what was kept; None while all agree, or none was kept."""
        if self.damaged_at_seq is not None:
            return self.damaged_at_seq
        if self.head is None:
            return None
        made = [event.hash for event in self.events]
        if self.kept is None:
            if self.closed is not None:
                return None
            last = self.kept_events - 1
            return None if made[last : last + 1] == [self.head] else max(0, min(last, len(made) - 1))
        for seq, (found, kept) in enumerate(zip(made, self.kept, strict=False)):
            if found != kept:
                return seq
        return None if len(made) >= len(self.kept) else len(made)

    @property
    def checked(self) -> bool:
        """Whether every event that can be read was compared with what was kept."""
        return self.kept is not None or (self.head is not None and self.closed is None)

    @property
    def chain(self) -> Chain:
        """The same as a check of any turn says it."""
        if self.broken_at_seq is None:
            return Chain(None)
        if self.damaged_at_seq is not None:
            return Chain(self.damaged_at_seq, "the content that it is made of is damaged")
        return Chain(self.broken_at_seq, "the ledger says otherwise than the head that it keeps of the turn")


def turn_of_run(run_id: str) -> str:
    """``trn_…`` of ``run_…``."""
    return f"trn_{run_id.partition('_')[2]}"


def run_of_turn(turn_id: str) -> str:
    """``run_…`` of ``trn_…``."""
    return f"run_{turn_id.partition('_')[2]}"


def fold_turn(place: RunPlace, sources: Iterable[Source]) -> RunTurn:
    """The turn of one run, from its events in the order of the ledger."""
    fold = _Fold(place)
    for source in sources:
        fold.take(source)
    return fold.turn()


def stages_of(sources: Iterable[Source]) -> int:
    """How many events the turn has, from headers alone."""
    fold = _Fold(RunPlace("", f"run_{'0' * 26}", ""))
    for source in sources:
        fold.take(source)
    return len(fold.made)


class _Effect(Struct):
    tool: str
    arguments: str | None = None
    approval_id: str | None = None
    hidden: str | None = None
    """Why its arguments cannot be had."""


class _Stage(Struct, frozen=True):
    """One event of the turn before it is chained."""

    source: Source
    stage: Stage
    fields: Fields
    payload: str | None
    hidden: str | None


class _Fold(Struct):
    place: RunPlace
    made: list[_Stage] = field(default_factory=list)
    head: str | None = None
    kept_events: int = 0
    kept: tuple[str, ...] | None = None
    closed: str | None = None
    damaged_at_seq: int | None = None
    person_key: str | None = None
    effects: dict[str, _Effect] = field(default_factory=dict)
    calls: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def take(self, source: Source) -> None:
        handle = _HANDLERS.get(source.type)
        if handle is None:
            return
        if source.state not in READABLE:
            self._note_unreadable(source)
        self.person_key = self.person_key or source.person_key
        if source.type == "turn.committed":
            self._keep(source)
            return
        for stage, fields, payload in handle(self, source):
            self.made.append(_Stage(source, stage, fields, payload, self._hidden(source, stage)))

    def turn(self) -> RunTurn:
        """The events, chained. What cannot be made again stands under the hash that was kept of it."""
        events: list[TurnEvent] = []
        hidden = {seq: made.hidden for seq, made in enumerate(self.made) if made.hidden is not None}
        for seq, made in enumerate(self.made):
            last = (events[-1].seq, events[-1].hash) if events else None
            event = linked(self._note(made), last)
            if seq in hidden and self.kept is not None and seq < len(self.kept):
                event = replace(event, hash=self.kept[seq])
            events.append(event)
        return RunTurn(
            events,
            self.head,
            self.kept_events,
            self.kept,
            self.closed,
            self.damaged_at_seq,
            hidden,
            self.person_key,
        )

    def _note(self, made: _Stage) -> TurnNote:
        place = self.place
        fields = made.fields
        if made.stage == "INTAKE":
            session = None if place.session_hash is None else Own(place.session_hash)
            fields = {"session": session, **fields}
        return TurnNote(
            place.tenant,
            place.turn_id,
            place.agent_id,
            made.stage,
            summary({**fields, "event": made.source.event_id}),
            made.source.at_ms,
            made.payload,
            place.session_hash,
        )

    def _hidden(self, source: Source, stage: Stage) -> str | None:
        if stage not in HASHED:
            return None
        if source.state not in READABLE:
            return source.state
        effect = self.effects.get(source.data.get("effect_id", ""))
        return effect.hidden if effect is not None and stage == "TOOL_CALL" else None

    def _note_unreadable(self, source: Source) -> None:
        self.closed = self.closed or source.state
        if source.state == "damaged" and self.damaged_at_seq is None:
            self.damaged_at_seq = len(self.made)

    def _keep(self, source: Source) -> None:
        content = about(source.content or {})
        head, hashes, session = content.get("head"), content.get("hashes"), content.get("session")
        if content.get("fold", FOLD_VERSION) != FOLD_VERSION:
            self.closed = self.closed or "unknown"
            return
        self.head = head if isinstance(head, str) else None
        self.kept_events = int(source.data["events"])
        self.kept = tuple(map(str, hashes)) if isinstance(hashes, list) else None
        if isinstance(session, str):
            # As it was when the head was kept: an import has another index key, and a keyless reader none.
            self.place = replace(self.place, session_hash=session)

    def effect(self, source: Source) -> _Effect:
        return self.effects.setdefault(source.data["effect_id"], _Effect("unknown"))


_Made = Iterator[tuple[Stage, Fields, str | None]]
_Handler = Callable[[_Fold, Source], _Made]


def _intake(fold: _Fold, source: Source) -> _Made:
    place = fold.place
    # The session is put before these when the chain is made: the kept one is known only at the end.
    fields: dict[str, Value] = {"parent": place.parent, "run": place.run_id}
    yield "INTAKE", fields, json_hash(about(source.content or {}).get("message"))


def _called(fold: _Fold, source: Source) -> _Made:
    fold.calls[source.data["call_id"]] = source.data
    yield from ()


def _answered(fold: _Fold, source: Source) -> _Made:
    data = source.data
    asked = fold.calls.get(data["call_id"], {})
    failed = source.type == "provider.failed"
    fields: dict[str, Value] = {
        "provider": _name(data["provider"]),
        "model": _name(asked.get("model")),
        "route": asked.get("purpose"),
        "status": Own("error" if failed else "ok"),
        "error": data.get("error_class"),
        "ms": data.get("latency_ms"),
    }
    yield "MODEL_CALL", fields, None


def _proposed(fold: _Fold, source: Source) -> _Made:
    effect = fold.effect(source)
    effect.tool = source.data["tool"]
    if source.state in READABLE:
        effect.arguments, effect.hidden = json_hash((source.content or {}).get("arguments")), None
    elif effect.arguments is None:
        effect.hidden = source.state
    yield from ()


def _intended(fold: _Fold, source: Source) -> _Made:
    yield from _proposed(fold, source)
    fold.effect(source).approval_id = source.data.get("approval_id")


def _ruled(fold: _Fold, source: Source) -> _Made:
    data = source.data
    fields: dict[str, Value] = {
        "guard": _name(data["policy"]),
        "outcome": data["outcome"],
        "rules": ",".join(data["rules"]) or None,
    }
    yield "GUARD", fields, None
    if data["outcome"] == "deny" and data.get("enforced") is not False:
        effect = fold.effect(source)
        yield "TOOL_CALL", _tool(effect, "blocked") | {"by": Own("argument_policy")}, effect.arguments


def _asked(fold: _Fold, source: Source) -> _Made:
    effect = fold.effect(source)
    request = source.data["approval_id"]
    yield "APPROVAL", {"decision": Own("pending"), "request": request, "tool": _name(effect.tool)}, None
    yield "TOOL_CALL", _tool(effect, "parked"), effect.arguments


def _denied(fold: _Fold, source: Source) -> _Made:
    del fold
    yield "APPROVAL", {"decision": Own("decided:denied"), "request": source.data["approval_id"]}, None


def _observed(fold: _Fold, source: Source) -> _Made:
    effect, data = fold.effect(source), source.data
    done = data["outcome"] == "succeeded"
    if effect.approval_id is not None:
        decided = Own("decided:completed" if done else "decided:failed")
        yield "APPROVAL", {"decision": decided, "request": effect.approval_id}, None
        effect.approval_id = None
    result = json_hash((source.content or {}).get("result")) if done else None
    fields = _tool(effect, "ok" if done else "error") | {
        "outcome": None if done else Own(data["outcome"]),
        "by": Own("review") if source.type == "effect.settled" else None,
        "error": data.get("error_class"),
        "resultSha": None if result is None else Own(result[:RESULT_DIGITS]),
        "ms": data.get("latency_ms"),
    }
    yield "TOOL_CALL", fields, effect.arguments


def _stepped(fold: _Fold, source: Source) -> _Made:
    del fold
    data = source.data
    if data["kind"] != "tool":
        return
    result = json_hash((source.content or {}).get("result"))
    fields: dict[str, Value] = {
        "tool": _name(data["name"]),
        "status": Own("ok" if data["outcome"] == "ok" else "error"),
        "resultSha": None if result is None else Own(result[:RESULT_DIGITS]),
        "ms": data.get("duration_ms"),
    }
    yield "TOOL_CALL", fields, None


def _checked(fold: _Fold, source: Source) -> _Made:
    del fold
    data = source.data
    if data["stage"] == "guard":
        yield (
            "GUARD",
            {"guard": _name(data["check"]), "outcome": data["outcome"], "side": data.get("side")},
            None,
        )
    else:
        fields: dict[str, Value] = {"check": _name(data["check"]), "outcome": data["outcome"]}
        yield "VERIFY", fields | {"found": data.get("found")}, None


def _finished(fold: _Fold, source: Source) -> _Made:
    del fold
    yield (
        "COMMIT",
        {"status": Own(status_of(source.data["terminal"]))},
        json_hash((source.content or {}).get("output")),
    )


def _nothing(fold: _Fold, source: Source) -> _Made:
    del fold, source
    yield from ()


def _name(name: str | None) -> str | None:
    """A name of a header; one that nobody declared stands there as a keyed digest, which hides nothing more (FORMAT 1)."""
    return Own(name) if name is not None and name.startswith("~") else name


def _tool(effect: _Effect, status: str) -> dict[str, Value]:
    return {"tool": _name(effect.tool), "status": Own(status)}


_HANDLERS: Final[Mapping[str, _Handler]] = {
    "admission.accepted": _intake,
    "provider.requested": _called,
    "provider.responded": _answered,
    "provider.failed": _answered,
    "decision.proposed": _proposed,
    "policy.evaluated": _ruled,
    "approval.requested": _asked,
    "approval.denied": _denied,
    "effect.intended": _intended,
    "effect.observed": _observed,
    "effect.late_observed": _observed,
    "effect.settled": _observed,
    "step.finished": _stepped,
    "run.finished": _finished,
    "turn.checked": _checked,
    "turn.committed": _nothing,
}


def status_of(terminal: str) -> str:
    """How the ADR calls a run's end: ``completed``, ``cancelled``, ``refused`` or ``error:TERMINAL``."""
    return _STATUSES.get(terminal, f"error:{terminal}")


def json_hash(value: Any) -> str | None:
    """The payload hash of a value in its recorded form, equal to that of the value itself; None for None."""
    if value is None:
        return None
    if isinstance(value, str):
        data = clean_summary(value).encode("utf-8")
    else:
        data = canonical.encode(comparable(value))
    return hashlib.sha256(data).hexdigest()
