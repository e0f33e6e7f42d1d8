"""Reading on record: sessions that show content once the decision to show it is durable; broken glass (DESIGN 9)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Final

from msgspec import Struct

from counterfoil.abc.authorizer import AccessAction, AccessRequest, Actor, Authorizer
from counterfoil.access import events
from counterfoil.access.decide import GLASS_MS_MAX, Recorded, break_glass, check_request, decide, refused
from counterfoil.access.embedded import EmbeddedAuthorizer
from counterfoil.access.session import DEFAULT_CEILING, Session
from counterfoil.artifacts.handle import Artifact
from counterfoil.artifacts.keep import handle_of_event
from counterfoil.client import reading
from counterfoil.client.artifacts import Keeping
from counterfoil.client.handle import Handle
from counterfoil.core.artifact import Reference
from counterfoil.core.bounds import check_limit
from counterfoil.core.forms import time_text
from counterfoil.core.keyed import KeyMaterial
from counterfoil.core.several import several
from counterfoil.errors import AccessRefused, InvalidForm
from counterfoil.flow.drive import drive
from counterfoil.flow.event import Event
from counterfoil.flow.loops import to_thread

STREAM: Final = "access"
"""The kind of the system stream that holds who was shown what."""

GLASS_MINUTES: Final = 60


class DecisionLine(Struct, frozen=True):
    """One recorded decision for a list. ``by`` and ``purpose`` are content: None where they cannot be opened."""

    event_id: str
    sequence: int
    at_ms: int
    action: str
    allowed: bool
    rule: str
    stream_id: str | None
    klass: str | None
    by: str | None
    purpose: str | None
    until: str | None = None

    @property
    def at(self) -> str:
        """When it was recorded, in the form of FORMAT 1."""
        return time_text(self.at_ms)


class Access:
    """What :attr:`Ledger.access` is: asking the authorizer of a ledger, on record, and looking at that record."""

    def __init__(self, handle: Handle, authorizer: Authorizer) -> None:
        self._handle = handle
        self._ports = handle.ports
        self.authorizer: Authorizer = authorizer

    def request(
        self,
        action: AccessAction,
        actor: str | Actor,
        purpose: str,
        *,
        stream_id: str | None = None,
        **facts: Any,
    ) -> AccessRequest:
        """A request of this tenant; a plain text is a person's name. ``facts`` are ``event_id klass``."""
        who = Actor(actor) if isinstance(actor, str) else actor
        return AccessRequest(action, who, purpose, tenant=self._ports.tenant, stream_id=stream_id, **facts)

    def decide(self, request: AccessRequest, *, detail: Mapping[str, Any] | None = None) -> Recorded:
        """Ask, and record the answer in ``system/access``; durable when this returns, and only then show anything.

        ``detail`` is what else belongs to the record, such as ``{"query": …}`` of a search; it is content. Raises
        AccessRefused for a refusal, which is on record too, InvalidForm for a request that cannot be recorded, and
        the StoreErrors of an append: then nobody knows of it, and nothing may be shown.
        """
        check_request(request)
        stream_id, key = self._place(request.actor)
        flow = decide(self.authorizer, request, stream_id=stream_id, key=key, detail=detail or {})
        return self._allowed(request, drive(flow, self._ports))

    def break_glass(self, actor: str | Actor, reason: str, *, minutes: float = GLASS_MINUTES) -> str:
        """Let somebody read for a while what their roles do not give; when it ends, as a time of FORMAT 1.

        The authorizer is asked for the action ``glass``. Decision and opening are recorded in one append, and every
        reading through the glass is by itself. It counts in every process, for at most 24 hours. Raises as
        :meth:`decide`.
        """
        length_ms = int(minutes * 60_000)
        if not 0 <= length_ms <= GLASS_MS_MAX:
            raise InvalidForm("the glass stays broken for 0 minutes to 24 hours", argument="minutes")
        request = self.request("glass", actor, reason)
        if request.actor.type not in events.PEOPLE:
            raise InvalidForm("only a person breaks the glass", argument="actor")
        check_request(request)
        stream_id, key = self._place(request.actor)
        until = self._ports.now_ms() + length_ms
        flow = break_glass(self.authorizer, request, until, stream_id=stream_id, key=key)
        self._allowed(request, drive(flow, self._ports))
        return time_text(until)

    def decisions(self, after: int = 0, limit: int | None = None) -> Iterator[DecisionLine]:
        """What was decided, and what glass was broken, in order; none where nobody asked yet."""
        check_limit(limit)
        if not self._handle.streams.exists(STREAM):
            return
        stream_id = self._handle.streams.id_of(STREAM)
        types = frozenset({events.DECIDED, events.GLASS_OPENED})
        for event in reading.stream_events(self._ports, stream_id, after, types, None, limit):
            yield _line(event)

    def _place(self, actor: Actor) -> tuple[str, KeyMaterial]:
        """The tenant's stream of access, and the key there that the actor's name goes under."""
        self._handle.check_writable()
        stream_id = self._handle.streams.ensure(STREAM)
        if actor.type in events.PEOPLE:
            return stream_id, self._ports.subject_key(stream_id, actor.name)
        return stream_id, self._ports.material(stream_id)

    @staticmethod
    def _allowed(request: AccessRequest, recorded: Recorded) -> Recorded:
        if not recorded.decision.allowed:
            raise refused(request, recorded)
        return recorded


def _line(event: Event) -> DecisionLine:
    data, content = event.data, event.outline_or_none() or {}
    glass = event.type == events.GLASS_OPENED
    by = content.get("by")
    said = content.get("reason" if glass else "purpose")
    return DecisionLine(
        event_id=event.event_id,
        sequence=event.sequence,
        at_ms=event.recorded_at_ms,
        action="glass" if glass else str(data.get("action", "")),
        allowed=glass or data.get("allowed") is True,
        rule=str(data.get("rule", "")),
        stream_id=data.get("stream_id"),
        klass=data.get("class"),
        by=by.get("name") if isinstance(by, Mapping) else None,
        purpose=said if isinstance(said, str) else None,
        until=data.get("until"),
    )


class Reader:
    """What a read session shows: events with content as far as it was allowed, and artifacts.

    Events that are handed out open their content only until the session ends.
    """

    def __init__(self, handle: Keeping, session: Session) -> None:
        self._handle = handle
        self._ports = handle.ports
        self.session: Session = session

    @property
    def decision(self) -> Recorded:
        """The decision that this session rests on, and where it is recorded."""
        return self.session.recorded

    def events(
        self,
        stream: str | None = None,
        after: int = 0,
        types: Iterable[str] | None = None,
        run_id: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Event]:
        """As :meth:`Ledger.events`; ``stream`` is needed where the session is for all conversations.

        Raises AccessRefused for another conversation. What the session does not cover is *withheld* and says why.
        """
        stream_id = self._stream(stream)
        wanted = None if types is None else frozenset(several(types, "types"))
        first = max(after, self.session.after)
        found = reading.stream_events(self._ports, stream_id, first, wanted, run_id, limit, self.session)
        for event in found:
            if self.session.up_to is not None and event.sequence > self.session.up_to:
                return
            yield event

    def artifact(self, name: str, conversation: str | None = None) -> Artifact:
        """As :meth:`Artifacts.find`, of what this session covers. Raises ContentUnavailable or AccessRefused."""
        stream_id = self.session.request.stream_id
        row = self._handle.artifacts.row(name, conversation or stream_id)
        found = self._ports.store.read(str(row["stream_id"]), int(row["sequence"] or 1) - 1, 1)
        self.session.check(str(row["stream_id"]))
        event = reading.view(self._ports, found[0], self.session)
        handle = handle_of_event(self._ports, event)
        return replace(handle, _pieces=partial(self._pieces, event))

    def _pieces(self, event: Event, reference: Reference) -> Iterator[bytes]:
        session = self.session
        why = session.withholds(event.stream_id, event.sequence, event.event_id, reference.klass)
        if why is not None:
            raise AccessRefused(f"artifact {reference.sha256[:12]}… is withheld: {why}", rule="class")
        yield from self._ports.artifact_pieces(reference, session)

    def _stream(self, stream: str | None) -> str:
        stream_id = self.session.request.stream_id if stream is None else self._handle.stream_named(stream)
        if stream_id is None:
            raise InvalidForm(
                "this reading is for every conversation: name the one to read", argument="stream"
            )
        self.session.check(stream_id)
        return stream_id


class Reading:
    """A read session to be: ``with ledger.reading(…) as reader``, or ``async with``. Each block is decided anew."""

    def __init__(
        self,
        handle: Keeping,
        access: Access,
        request: AccessRequest,
        detail: Mapping[str, Any],
        after: int,
        up_to: int | None,
    ) -> None:
        self._handle = handle
        self._access = access
        self._request = request
        self._detail = detail
        self._range = (after, up_to)
        self._reader: Reader | None = None

    def __enter__(self) -> Reader:
        """Decide and record. Raises AccessRefused, or the StoreErrors of recording it: nothing is shown then."""
        recorded = self._access.decide(self._request, detail=self._detail)
        self._reader = Reader(self._handle, Session(self._request, recorded, *self._range))
        return self._reader

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reader is not None:
            self._reader.session.close()

    async def __aenter__(self) -> Reader:
        """As :meth:`__enter__`, for tasks."""
        return await to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


class Accessing(Keeping):
    """Access to a ledger: read sessions, and the record of who was shown what."""

    @property
    def access(self) -> Access:
        """Ask the ledger's authorizer, on record; break the glass; see what was decided."""
        return Access(self, self.authorizer or EmbeddedAuthorizer())

    def reading(
        self,
        conversation: str | None = None,
        *,
        actor: str | Actor,
        purpose: str,
        classification: str = DEFAULT_CEILING,
        after: int = 0,
        up_to: int | None = None,
        event_id: str | None = None,
    ) -> Reading:
        """A read session: ``with ledger.reading("case-8472", actor="ann", purpose="complaint") as reader``.

        Entering it asks the authorizer and records its decision in ``system/access``; content is shown only once that
        is durable. Without a conversation it is for all of the tenant. ``classification`` is the highest class that
        is shown, ``after`` and ``up_to`` a range of sequences, ``event_id`` a single event. Raises StreamNotFound here,
        and on entering AccessRefused, InvalidForm, StoreReadOnly or the StoreErrors of recording it.
        """
        stream_id = None if conversation is None else self.stream_named(conversation)
        access = self.access
        request = access.request(
            "read", actor, purpose, stream_id=stream_id, event_id=event_id, klass=classification
        )
        detail: dict[str, Any] = {}
        if after or up_to is not None:
            detail["range"] = {"after": after, "up_to": up_to}
        return Reading(self, access, request, detail, after, up_to)
