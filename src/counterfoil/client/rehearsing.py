"""Rehearsing a run with another model or policy, and comparing two runs, from a ledger handle (DESIGN 6)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from counterfoil.abc import Policy
from counterfoil.client.place import MEMORY
from counterfoil.client.requesting import Requesting
from counterfoil.core.values import from_json
from counterfoil.errors import (
    AccessError,
    AgentNotFound,
    ContentUnavailable,
    IntegrityError,
    InternalError,
    InvalidForm,
    RunBusy,
    RunNotFound,
    RunWaiting,
    StoreError,
)
from counterfoil.flow.drive import drive
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Events, Flow
from counterfoil.replay.difference import RunDifference, difference
from counterfoil.replay.kept import bytes_kept
from counterfoil.replay.original import ORIGINAL_TYPES, Original
from counterfoil.replay.recorded import check_no_loop
from counterfoil.replay.rehearsal import Rehearsal, RehearsalRun, Steps, Understudy
from counterfoil.runtime.agents import Agent, find_agent
from counterfoil.runtime.block import RunHost
from counterfoil.runtime.events import about
from counterfoil.runtime.model import Model
from counterfoil.runtime.rehearsals import REHEARSALS, rehearsed_by
from counterfoil.runtime.rows import ADMISSIONS, RUNS
from counterfoil.runtime.shutdown import WATCH
from counterfoil.runtime.slots.reading import event_of, name_in, slots_at
from counterfoil.runtime.spec import RunSpec, make_spec
from counterfoil.runtime.state import FINISHED
from counterfoil.store.rows import Row


class Rehearsing(Requesting):
    """Rehearsals of a ledger's runs, and two runs side by side."""

    def rehearse(
        self,
        run_id: str,
        *,
        model: Model | None = None,
        policy: Policy | None = None,
        steps: Steps = "run",
    ) -> Rehearsal:
        """Run the registered agent of an ended run again as a new run, with another model or policy; compare the two.

        The rehearsal is a run of its own (``run.started`` names ``rehearsal_of``) in a conversation of its own, with the
        original's message, configuration, subject and state. ``model`` is asked everything; without it the same request
        gets its recorded answer, and the agent's own model is asked anything else. ``policy`` judges in place of the
        agent's; nobody is asked for an approval. A call of a tool gets the outcome that the original has on record for
        the same tool and arguments, or ``EffectBlocked`` is raised in the agent's code: no tool is called, nothing is
        intended, no key is taken. A step gets its recorded result and is run where there is none, unless ``steps`` is
        ``"block"``. A prompt that is sent again does not bring the same completion again. A rehearsal may be rehearsed: its
        answers and steps are its own, calls and children get what they came to in the run that made them.

        Raises ``RunNotFound``, ``RunBusy`` for a run that is still open, ``AgentNotFound``, and
        ``ContentUnavailable`` where the original's input cannot be read. What the agent raises ends the rehearsal and is
        told in it.
        """
        self.check_writable()
        if steps not in ("run", "block"):
            raise InvalidForm('steps is "run" or "block"', argument="steps")
        _check_given(model, policy)
        row, agent = self._ended(run_id)
        check_no_loop(agent)
        stream_id = str(row["stream_id"])
        events = self._events_of(row, ORIGINAL_TYPES)
        ruling = policy or agent.policy or self.policy
        material = self.ports.material(stream_id)
        first = self._first(row)
        made = None if first is row else self._events_of(first, ORIGINAL_TYPES)
        original = Original(events, lambda body: material.address(body).hex(), made)
        understudy = Understudy(original, model, steps)
        host = RunHost(self.ports, self.registry, self._heartbeat, self.owner, ruling, self.keeps_turns)
        run = RehearsalRun(host, self._spec(row, agent, events, ruling), understudy)
        seeds = list(self._slots_before(first))
        error_class = _through(run, agent, seeds)
        told = Rehearsal(
            run.id, run_id, run.conversation, agent.name, run.terminal, error_class, understudy.counts
        )
        told.difference = self.diff(run_id, run.id)
        return told

    def rehearsals(self, run_id: str) -> list[str]:
        """The runs that rehearse this one, oldest first."""
        found = self.ports.store.select(REHEARSALS.name, "by_original", (self.tenant, run_id))
        return [str(row["run_id"]) for row in found]

    def diff(self, left: str, right: str) -> RunDifference:
        """Two runs side by side: requests, responses, decisions, effects, steps, facts, checks, artifacts, end, and use.

        Raises ``RunNotFound``.
        """
        rows = [self._row_of(run_id) for run_id in (left, right)]
        # Of all types: those of the application are its own.
        records = [self._events_of(row) for row in rows]
        bytes_of = self._requests_of(rows, records) | bytes_kept(self.ports, records[0], records[1])
        return difference((left, records[0]), (right, records[1]), bytes_of)

    # ---- inside ----

    def _row_of(self, run_id: str) -> Row:
        row = self.ports.store.get(RUNS, (run_id,))
        if row is None or row["tenant"] != self.tenant:
            raise RunNotFound(f"there is no run {run_id} in {self.place}", run_id=run_id)
        return row

    def _ended(self, run_id: str) -> tuple[Row, Agent]:
        row = self._row_of(run_id)
        if row["state"] != FINISHED:
            raise RunBusy(f"run {run_id} has not ended", hint="rehearse it when it has", run_id=run_id)
        agent = find_agent(str(row["agent"]))
        if agent is None:
            name = str(row["agent"])
            raise AgentNotFound(
                f"agent {name} of run {run_id} is not registered here", run_id=run_id, agent=name
            )
        return row, agent

    def _first(self, row: Row) -> Row:
        """The run that a rehearsal stands on in the end: the one whose calls were made. Raises ``RunNotFound``."""
        while (original := drive(rehearsed_by(str(row["run_id"])), self.ports)) is not None:
            row = self._row_of(original)
        return row

    def _events_of(self, row: Row, types: frozenset[str] | None = None) -> list[Event]:
        query = Events(str(row["stream_id"]), types=types, run_id=str(row["run_id"]), lightly=types is None)
        return list(self.ports.events(query))

    def _requests_of(self, rows: list[Row], records: list[list[Event]]) -> dict[str, str]:
        """Digests of exact requests by event id: the keyed ones of one conversation, else of the bytes made again."""
        sent = [event for record in records for event in record if event.type == "provider.requested"]
        if len({row["stream_id"] for row in rows}) == 1:
            return {event.event_id: event.data["request"] for event in sent}
        found: dict[str, str] = {}
        for row in rows:
            with suppress(AccessError, IntegrityError):
                for made in self.requests(str(row["stream_id"]), str(row["run_id"])):
                    if made.body is not None:
                        found[made.event.event_id] = hashlib.sha256(made.body).hexdigest()
        return found

    def _spec(self, row: Row, agent: Agent, events: list[Event], policy: Policy | None) -> RunSpec:
        started = next(event for event in events if event.type == "run.started")
        message, subject = self._input(row)
        return make_spec(
            agent.name,
            agent_version=agent.version,
            message=message,
            configuration=from_json(started.content.get("configuration", {})),
            classification=started.data["class"],
            subject=subject,
            title=f"rehearsal of {row['run_id']!s}",
            policy_revision=None if policy is None else policy.revision,
            place=None if self.place == MEMORY else self.place,
            rehearsal_of=str(row["run_id"]),
        )

    def _input(self, row: Row) -> tuple[Any, str | None]:
        """The original's message, and the person it is about. Raises ``ContentUnavailable``."""
        stream_id = str(row["stream_id"])
        admission = self.ports.store.get(ADMISSIONS, (row["admission_id"],))
        if admission is None:
            return None, None
        at = int(admission["sequence"] or 1) - 1
        (accepted,) = self.ports.events(Events(stream_id, at, limit=1))
        person = next((part.key for part in accepted.header.content if part.key is not None), None)
        message = from_json(about(accepted.content).get("message"))
        return message, None if person is None else self.keyring.subject_of(person)

    def _slots_before(self, row: Row) -> Iterator[tuple[str, Any]]:
        """Names and values of the state slots as the original found them."""
        stream_id, sequence = str(row["stream_id"]), int(row["started_sequence"] or 0)
        for name, value in drive(_slots(stream_id, sequence), self.ports):
            yield name, from_json(value)


def _check_given(model: object, policy: object) -> None:
    """Refuse, before a run is begun, what cannot be asked or cannot rule."""
    if model is not None and not callable(model):
        raise InvalidForm(f"a model is callable, not {type(model).__name__}", argument="model")
    if policy is not None and not (
        hasattr(policy, "revision") and callable(getattr(policy, "evaluate", None))
    ):
        raise InvalidForm(
            f"a policy has name, revision, snapshot and evaluate, which {type(policy).__name__} lacks",
            argument="policy",
        )


def _slots(stream_id: str, sequence: int) -> Flow[list[tuple[str, Any]]]:
    found = []
    for mark in (yield from slots_at(stream_id, sequence)):
        if mark.holds:
            event = yield from event_of(stream_id, mark)
            found.append((name_in(event.content, mark.slot), event.content["value"]))
    return found


def _through(run: RehearsalRun, agent: Agent, seeds: list[tuple[str, Any]]) -> str | None:
    """Run the agent's code; the class of what left its block, if anything did. What is the ledger's own is raised."""
    try:
        asyncio.run(_through_async(run, agent, seeds)) if agent.asynchronous else _through_sync(
            run, agent, seeds
        )
    except ContentUnavailable as gone:
        return type(gone).__name__
    except (AccessError, IntegrityError, InternalError, StoreError):
        raise
    except RunWaiting:
        return None
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the agent's own; it is the rehearsal's end
        return type(error).__name__
    except SystemExit as left:
        if WATCH.may_have_left():
            raise
        return type(left).__name__
    return None


def _through_sync(run: RehearsalRun, agent: Agent, seeds: list[tuple[str, Any]]) -> None:
    with run:
        for name, value in seeds:
            run.state[name] = value
        agent.fn(run)


async def _through_async(run: RehearsalRun, agent: Agent, seeds: list[tuple[str, Any]]) -> None:
    async with run:
        for name, value in seeds:
            await run.state.aset(name, value)
        await agent.fn(run)
