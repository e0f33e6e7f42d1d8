"""Spawning a child: its conversation and the link are one append of two streams, and a resumed run spawns no second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.abc import ChildLink
from counterfoil.core import canonical
from counterfoil.core.catalogue import CLASSES
from counterfoil.core.event import Draft, Part
from counterfoil.core.forms import is_label
from counterfoil.core.genesis import Genesis
from counterfoil.core.values import comparable, to_json
from counterfoil.errors import ChildTooDeep, EventIdReused, InvalidForm, PartialDuplicate, StoreError
from counterfoil.flow.context import RunScope
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Call, CallResult, Entry, EventsById, Flow, Raised, Read, Returned, RowOf
from counterfoil.runtime import events
from counterfoil.runtime.budgets.events import budget_set
from counterfoil.runtime.budgets.limits import Budget, Limit, limits_of
from counterfoil.runtime.children.begin import SPAWNED
from counterfoil.runtime.children.events import child_opened, child_started
from counterfoil.runtime.children.nursery import Nursery
from counterfoil.runtime.children.rows import CHILDREN
from counterfoil.runtime.children.state import admission_of, link_in
from counterfoil.runtime.events import CONVERSATION_SCOPE, Said
from counterfoil.runtime.recording import draft, record
from counterfoil.runtime.resume import Identity, Record, attempt_event_id, identify
from counterfoil.runtime.spec import RunSpec, check_text
from counterfoil.store.rows import Row


class Wanted(Struct, frozen=True):
    """What ``run.spawn`` was given, checked and encoded once; ``message`` and ``configuration`` are in their JSON form."""

    agent: str
    message: Any
    title: str | None
    call_id: str | None
    classification: str
    configuration: Mapping[str, Any]
    principal: str | None
    budget: tuple[Limit, ...]
    counts: bool

    @property
    def told(self) -> bytes:
        """What tells this child from others that the run spawns."""
        return canonical.encode(
            comparable({"agent": self.agent, "message": self.message, "title": self.title})
        )


class SpawnHow(TypedDict, total=False):
    """What ``run.spawn`` may be told besides the agent and the message; see there."""

    title: str | None
    call_id: str | None
    classification: str | None
    configuration: Mapping[str, Any] | None
    budget: Budget | Mapping[str, Any] | None
    count_on_parent: bool


def child_wanted(agent: str, message: Any, parent: RunSpec, **how: Unpack[SpawnHow]) -> Wanted:
    """Check what was asked for. Raises an InputError naming the argument; nothing is written."""
    if not is_label(agent):
        raise InvalidForm("agent must be a label: 1 to 128 of A-Za-z0-9_.:/+-", argument="agent")
    classification = how.get("classification") or parent.classification
    if classification not in CLASSES:
        raise InvalidForm(f"classification is one of {', '.join(CLASSES)}", argument="classification")
    configuration = how.get("configuration")
    if configuration is not None and not isinstance(configuration, Mapping):
        raise InvalidForm("configuration is a mapping of names to values", argument="configuration")
    for name, value in (("title", how.get("title")), ("call_id", how.get("call_id"))):
        check_text(name, value)
    return Wanted(
        agent,
        to_json(message, "message"),
        how.get("title"),
        how.get("call_id"),
        classification,
        to_json(dict(configuration or {}), "configuration"),
        parent.principal,
        limits_of(how.get("budget")),
        how.get("count_on_parent", False),
    )


def nursery(given: Nursery | None) -> Nursery:
    """The nursery of a run. Raises ``InvalidForm`` for one that a tool of the ledger entered, which spawns nothing."""
    if given is None:
        raise InvalidForm(
            "a run that was entered to repair or to replay spawns no children", argument="agent"
        )
    return given


def spawn_flow(scope: RunScope, asked: Wanted, nursery: Nursery) -> Flow[ChildLink]:
    """The child of this call: spawned now and started by its host, or the one that an earlier entry spawned.

    Raises ``ChildTooDeep``. A host that cannot start it leaves it spawned; waiting for it tries again and says why.
    """
    scope.check()
    identity = identify(scope, "child", asked.agent, asked.told)
    identity = replace(identity, memo=attempt_event_id(scope, identity.memo, 0))
    book = scope.part(Record)
    if (found := book.take(identity)) is not None:
        return link_in(found)
    book.live(identity)
    try:
        depth = yield from _depth(scope, nursery.depth_max)
        link = yield from _record(scope, asked, identity, depth)
    except (StoreError, ChildTooDeep):
        scope.give_back(f"child:{asked.agent}", identity.digest, identity.occurrence, identity.path)
        raise
    yield Call("host of children", nursery.host.start, (link,))
    return link


def _depth(scope: RunScope, depth_max: int) -> Flow[int]:
    own: Row | None = yield Read(RowOf(CHILDREN.name, (scope.stream_id,)))
    depth = 1 + (0 if own is None else int(own["depth"] or 0))
    if depth > depth_max:
        raise ChildTooDeep(
            f"run {scope.run_id} lies {depth - 1} deep, and children may lie {depth_max} deep",
            hint="an agent that spawns itself needs an end of its own; Host(child_depth_max=…) sets the limit",
            run_id=scope.run_id,
            depth=depth,
            depth_max=depth_max,
        )
    return depth


def _record(scope: RunScope, asked: Wanted, identity: Identity, depth: int) -> Flow[ChildLink]:
    made: CallResult = yield Call("new conversation", scope.ports.new_genesis, ("conversation",))
    if isinstance(made, Raised):
        raise made.error
    assert isinstance(made, Returned), "making a key has no deadline of its own"
    genesis: Genesis = made.value
    link = ChildLink(
        genesis.stream_id, scope.ports.new_id("run"), asked.agent, scope.stream_id, scope.run_id, depth
    )
    started = _started(scope, asked, identity, link)
    own = Entry(genesis.stream_id, tuple(_opening(scope, asked, link, started)), create=genesis)
    try:
        with scope.in_flight(identity.memo):
            yield from record(scope, started, others=(own,))
    except (EventIdReused, PartialDuplicate):
        # An append whose answer was lost had recorded it, with a conversation of its own.
        recorded: list[Event] = yield Read(EventsById(scope.stream_id, (identity.memo,)))
        return link_in(recorded[0])
    return link


def _started(scope: RunScope, asked: Wanted, identity: Identity, link: ChildLink) -> Draft:
    content: dict[str, Any] = {"agent": asked.agent, "input": asked.message, **identity.place()}
    call_id = _call_of(scope, asked)
    if call_id is not None:
        content["call_id"] = call_id
    if asked.counts:
        content["counts"] = True
    said = child_started(link.stream_id, link.run_id, link.depth, content)
    return said.draft(identity.memo, scope.ports.now_ms(), scope.actor, run_id=scope.run_id)


def _call_of(scope: RunScope, asked: Wanted) -> str | None:
    """The call that the child came of: as the code names it, else the last one to a model that was answered."""
    return asked.call_id or scope.part(Record).last_call_id


def _opening(scope: RunScope, asked: Wanted, link: ChildLink, started: Draft) -> list[Draft]:
    """The first two events of the child's conversation: whose child it is, and the input that it was given."""
    spawned: dict[str, Any] = {"run_id": link.run_id, "classification": asked.classification}
    if asked.configuration:
        spawned["configuration"] = dict(asked.configuration)
    if asked.budget:
        spawned["budget"] = [dict(budget_set(limit).data) for limit in asked.budget]
    content: dict[str, Any] = {SPAWNED: spawned}
    call_id = _call_of(scope, asked)
    if call_id is not None:
        content["call_id"] = call_id
    if asked.title is not None:
        content["title"] = asked.title
    opened = _elsewhere(
        scope,
        child_opened(asked.agent, (scope.stream_id, scope.run_id, started.event_id), content),
        started,
    )
    if asked.principal is not None:
        opened = _for_principal(scope, opened, content, link, asked.principal)
    accepted = events.admission_accepted(
        admission_of(link.run_id), asked.message, started.event_id, CONVERSATION_SCOPE
    )
    return [opened, _elsewhere(scope, accepted, started)]


def _for_principal(
    scope: RunScope, opened: Draft, content: Mapping[str, Any], link: ChildLink, principal: str
) -> Draft:
    """For whom the child acts stands in a part of its own, under that person's key in the child's conversation."""
    key = scope.ports.subject_key(link.stream_id, principal)
    named = Part({"name": principal}, key=key)
    return replace(opened, parts=(Part({**content, "principal": {"$part": 1}}), named))


def _elsewhere(scope: RunScope, said: Said, started: Draft) -> Draft:
    """A draft in the child's conversation, which follows from an event of the parent's."""
    made = replace(draft(scope, said, cause=started.event_id), run_id=None)
    return replace(made, causation_stream_id=scope.stream_id)
