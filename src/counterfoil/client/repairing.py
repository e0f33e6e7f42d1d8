"""Repairs and corrections of a ledger: opened in a person's name, played, resumed, closed; facts corrected (DESIGN 7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from counterfoil.client import reading
from counterfoil.client.handle import Handle
from counterfoil.client.place import MEMORY
from counterfoil.core.bounds import check_limit, check_texts
from counterfoil.core.ids import is_id
from counterfoil.core.values import from_json
from counterfoil.effects.compensation import PlannedCall
from counterfoil.effects.registry import find_tool
from counterfoil.effects.rows import EFFECTS
from counterfoil.effects.standing import Standing
from counterfoil.errors import InputError, InvalidForm, NotFoundError, RepairNotFound, StreamNotFound
from counterfoil.flow.context import scope_or_none
from counterfoil.flow.drafting import Person
from counterfoil.flow.drive import adrive, drive
from counterfoil.flow.loops import running_loop
from counterfoil.flow.requests import Events, Flow
from counterfoil.repair.close import Word, close_by_hand
from counterfoil.repair.correct import Corrected, Fact, correct_fact, fact_now
from counterfoil.repair.look import look_at
from counterfoil.repair.open import Opened, Target, Wanted, open_repair
from counterfoil.repair.plan import Declared, declared_for
from counterfoil.repair.play import RepairReport, Turn, aplay, conclude, next_turn, play, report_of, run_of
from counterfoil.repair.rows import REPAIRS
from counterfoil.repair.state import RESULTS, STATES, RepairResult
from counterfoil.runtime.block import RunHost
from counterfoil.runtime.run import Run
from counterfoil.runtime.spec import check_text
from counterfoil.store.rows import Row

PAGE_STREAMS: Final = 500


class Repairing(Handle):
    """The repairs of a ledger, and the corrections of its facts."""

    keeps_turns: bool

    def repair(
        self,
        target: str,
        *,
        by: str,
        reason: str,
        owner: str | None = None,
        evidence: Any = None,
        residual_impact: Any = None,
        calls: Sequence[PlannedCall] | None = None,
    ) -> RepairReport:
        """Undo an effect (``eff_…``) as the named human ``by``: the case is recorded, then its calls are made.

        The calls are those that the tool declares with ``compensate=``, or ``calls``, each ``tool.later(…)``; an empty
        list leaves it to a person. ``target`` may be any other event (``evt_…``). What does not succeed leaves the
        repair open, and the report says why: :meth:`resume_repair` goes on. The same person opening it for the same
        reason again goes on with it. Raises ``RepairedAlready``, ``NotRepairable``, ``ToolNotFound``, ``NotFoundError``
        or an InputError; nothing is recorded then.
        """
        opened = self.open_repair(
            target,
            by=by,
            reason=reason,
            owner=owner,
            evidence=evidence,
            residual_impact=residual_impact,
            calls=calls,
        )
        return self._resume(opened.repair_id, repeated=opened.repeated)

    async def arepair(
        self,
        target: str,
        *,
        by: str,
        reason: str,
        owner: str | None = None,
        evidence: Any = None,
        residual_impact: Any = None,
        calls: Sequence[PlannedCall] | None = None,
    ) -> RepairReport:
        """As :meth:`repair`, for tasks."""
        flow = self._opening(
            target,
            by=by,
            reason=reason,
            owner=owner,
            evidence=evidence,
            residual_impact=residual_impact,
            calls=calls,
        )
        opened = await adrive(flow, self.ports)
        return await self._aresume(opened.repair_id, repeated=opened.repeated)

    def open_repair(
        self,
        target: str,
        *,
        by: str,
        reason: str,
        owner: str | None = None,
        evidence: Any = None,
        residual_impact: Any = None,
        calls: Sequence[PlannedCall] | None = None,
    ) -> Opened:
        """As :meth:`repair`, without making a call yet: the case and its plan are on record for others to look at."""
        flow = self._opening(
            target,
            by=by,
            reason=reason,
            owner=owner,
            evidence=evidence,
            residual_impact=residual_impact,
            calls=calls,
        )
        return drive(flow, self.ports)

    def resume_repair(self, repair_id: str) -> RepairReport:
        """Go on with an open repair: calls that were made are answered from the record, the others are made.

        One that is closed, or that waits for a person, is reported as it stands. Raises ``RepairNotFound`` or
        ``ToolNotFound``.
        """
        self.check_writable()
        return self._resume(str(self.repair_row(repair_id)["repair_id"]))

    async def aresume_repair(self, repair_id: str) -> RepairReport:
        """As :meth:`resume_repair`, for tasks."""
        self.check_writable()
        return await self._aresume(str(self.repair_row(repair_id)["repair_id"]))

    def close_repair(
        self, repair_id: str, result: RepairResult, *, by: str, reason: str, residual_impact: Any = None
    ) -> RepairReport:
        """Close a repair by hand as the named human ``by``: ``repaired``, ``partial`` or ``irreversible``.

        Closing it like this again changes nothing. Raises ``RepairNotFound``, ``RepairClosed`` for another result, or
        ``RepairUnsettled`` while a compensation has no outcome.
        """
        self.check_writable()
        if result not in RESULTS:
            raise InvalidForm(f"a repair is closed as {', '.join(RESULTS)}", argument="result")
        row = self.repair_row(repair_id)
        word = Word(self._person(str(row["stream_id"]), "by", by), _said("reason", reason), residual_impact)
        return drive(self._closing(repair_id, result, word), self.ports)

    # ---- looking ----

    def repairs(
        self,
        state: str | None = "open",
        *,
        subject: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Row]:
        """Rows of repairs, the oldest first: the open ones, by default; ``state`` None for all.

        ``subject`` is the effect or event that was repaired, ``after`` the last repair seen.
        """
        if state is not None and state not in STATES:
            raise InvalidForm(f"a repair is {', '.join(STATES)}", argument="state")
        check_limit(limit)
        check_texts("what repairs are found by", (subject, after))
        if subject is not None:
            found = reading.table_rows(self.ports, REPAIRS.name, "by_subject", (subject,), None)
            kept = [row for row in found if row["tenant"] == self.tenant and state in (None, row["state"])]
            return kept[:limit]
        index, prefix = "by_state", (self.tenant,) if state is None else (self.tenant, state)
        start = None if after is None else REPAIRS.place_in(index, self.repair_row(after))
        return reading.table_rows(self.ports, REPAIRS.name, index, prefix, limit, start)

    def repair_row(self, repair_id: str) -> Row:
        """The row of one repair. Raises ``RepairNotFound``, also for one of another tenant."""
        row = self.store.get(REPAIRS.name, (repair_id,)) if is_id(repair_id, "rep") else None
        if row is None or row["tenant"] != self.tenant:
            raise RepairNotFound(
                f"there is no repair {repair_id} in this ledger",
                hint="`counterfoil repair ls --state all` lists them",
                repair_id=repair_id,
            )
        return row

    def repair_report(self, repair_id: str) -> RepairReport:
        """How a repair stands; nothing is done. Raises ``RepairNotFound``."""
        self.repair_row(repair_id)
        return report_of(drive(look_at(self.ports.index, repair_id, find_tool), self.ports))

    def repair_plan(self, effect_id: str) -> Declared:
        """What the tool of an effect says would undo it, and what nothing undoes. Nothing is recorded.

        Raises ``NotFoundError``, ``ToolNotFound`` or ``ContentUnavailable``.
        """
        return drive(declared_for(Standing.of(self._effect_row(effect_id)), find_tool), self.ports)

    # ---- corrections ----

    def correct(
        self,
        event_id: str,
        value: Any,
        *,
        by: str,
        reason: str,
        evidence: Any = None,
        stream: str | None = None,
    ) -> Corrected:
        """Record the right value beside a recorded event, as the named human ``by``; the event stays as it is.

        ``stream`` is its conversation, where that is known. The last correction is in force; the same one again changes
        nothing. Raises ``NotFoundError`` or an InputError.
        """
        self.check_writable()
        stream_id = self._stream_of_event(event_id, stream)
        person = self._person(stream_id, "by", by)
        flow = correct_fact(
            stream_id, event_id, value, person=person, reason=_said("reason", reason), evidence=evidence
        )
        return drive(flow, self.ports)

    def fact(self, event_id: str, stream: str | None = None) -> Fact:
        """A recorded event with its corrections; ``value`` is what is right now. Raises ``NotFoundError``."""
        return drive(fact_now(self._stream_of_event(event_id, stream), event_id), self.ports)

    def corrections(self, stream: str) -> dict[str, Any]:
        """The right value of each corrected event of a conversation, by the event's id, for whoever folds its events.

        Raises ``StreamNotFound``, or ``ContentUnavailable`` when a correction cannot be read any more.
        """
        found = self._find(stream)
        if found is None:
            raise StreamNotFound(f"there is no conversation {stream!r} in this ledger")
        events = self.ports.events(Events(found, types=frozenset({"fact.corrected"})))
        return {str(event.data["corrects"]): from_json(event.content["value"]) for event in events}

    # ---- inside ----

    def _opening(
        self, target: str, *, by: str, reason: str, owner: str | None = None, **wanted: Any
    ) -> Flow[Opened]:
        self.check_writable()
        if scope_or_none() is not None:
            raise InputError(
                "a repair is begun by a person, outside of a run",
                hint="let the run end, then repair what it did",
            )
        aim = self._target(target)
        opener = self._person(aim.stream_id, "by", by)
        in_charge = opener if owner is None else self._person(aim.stream_id, "owner", owner)
        said = Wanted(opener, in_charge, _said("reason", reason), **wanted)
        return open_repair(aim, said, find_tool)

    def _target(self, target: str) -> Target:
        if is_id(target, "eff"):
            return Target(str(self._effect_row(target)["stream_id"]), target)
        if not is_id(target, "evt"):
            raise InvalidForm("what is repaired is an effect (eff_…) or an event (evt_…)", argument="target")
        stream_id = self._stream_of_event(target, None)
        event = drive(fact_now(stream_id, target), self.ports).event
        effect_id = event.data.get("effect_id") if event.type.startswith("effect.") else None
        return Target(stream_id, effect_id, target)

    def _effect_row(self, effect_id: str) -> Row:
        row = self.store.get(EFFECTS.name, (effect_id,)) if is_id(effect_id, "eff") else None
        if row is None or row["tenant"] != self.tenant:
            raise NotFoundError(
                f"there is no effect {effect_id} in this ledger",
                hint="`counterfoil ls effects` lists them",
                effect_id=effect_id,
            )
        return row

    def _stream_of_event(self, event_id: str, stream: str | None) -> str:
        """The stream of an event: looked for in every stream of the tenant where it is not named."""
        if not is_id(event_id, "evt"):
            raise InvalidForm("an event is named by its id, evt_…", argument="event_id")
        if stream is not None:
            found = self._find(stream)
            if found is None:
                raise NotFoundError(f"there is no conversation {stream!r} in this ledger")
            return found
        after = ""
        while page := self.store.streams(self.tenant, after, PAGE_STREAMS):
            for each in page:
                if self.store.find(each.stream_id, [event_id]):
                    return each.stream_id
            after = page[-1].stream_id
        raise NotFoundError(
            f"there is no event {event_id} in this ledger",
            hint="`counterfoil show CONVERSATION --events` lists them",
            event_id=event_id,
        )

    def _person(self, stream_id: str, argument: str, name: str) -> Person:
        _said(argument, name)
        check_text(argument, name)
        return Person(self.ports.subject_key(stream_id, name), name)

    def _resume(self, repair_id: str, *, repeated: bool = False) -> RepairReport:
        turn = drive(self._turn(repair_id), self.ports)
        if turn.next == "play" and turn.asynchronous:
            return self._in_a_loop(repair_id, repeated)
        stopped = play(self._run(turn), turn) if turn.next == "play" else None
        return drive(self._concluding(repair_id, stopped, repeated), self.ports)

    async def _aresume(self, repair_id: str, *, repeated: bool = False) -> RepairReport:
        turn = await adrive(self._turn(repair_id), self.ports)
        stopped = await aplay(self._run(turn), turn) if turn.next == "play" else None
        return await adrive(self._concluding(repair_id, stopped, repeated), self.ports)

    def _in_a_loop(self, repair_id: str, repeated: bool) -> RepairReport:
        """A plan of async tools gets an event loop of its own, unless one is running already."""
        if running_loop() is None:
            import asyncio

            return asyncio.run(self._aresume(repair_id, repeated=repeated))
        raise InputError(
            f"repair {repair_id} calls an async tool, and was begun in an event loop",
            hint="await ledger.aresume_repair(…) goes on with it",
            repair_id=repair_id,
        )

    def _turn(self, repair_id: str) -> Flow[Turn]:
        return next_turn(self.ports.index, repair_id, find_tool)

    def _run(self, turn: Turn) -> Run:
        host = RunHost(
            self.ports,
            self.registry,
            self._heartbeat,
            self.owner,
            self.policy,
            self.keeps_turns,
            trees=self._trees,
        )
        return run_of(host, turn.look, None if self.place == MEMORY else self.place)

    def _concluding(self, repair_id: str, stopped: Exception | None, repeated: bool) -> Flow[RepairReport]:
        return conclude(self.ports.index, repair_id, find_tool, stopped, repeated=repeated)

    def _closing(self, repair_id: str, result: RepairResult, word: Word) -> Flow[RepairReport]:
        written = yield from close_by_hand(self.ports.index, repair_id, find_tool, result, word)
        look = yield from look_at(self.ports.index, repair_id, find_tool)
        return report_of(look, repeated=not written)


def _said(argument: str, text: Any) -> str:
    """A name or a reason is a text that says something; taken as anything, as not everybody checks types."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidForm(f"{argument} says who or why, in words", argument=argument)
    return text
