"""The requests of a ledger's conversations, made again byte for byte (DESIGN 6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterfoil.client import reading
from counterfoil.client.handle import Handle
from counterfoil.core.ids import id_time_ms, is_id
from counterfoil.errors import InvalidForm, NotFoundError, StreamNotFound
from counterfoil.flow.event import Event
from counterfoil.runtime.rebuild import Rebuilder, RecordedRequest, request_at, requests_of
from counterfoil.runtime.trees import PAGE_EVENTS, TREE_TYPES

REQUESTED: Final = "provider.requested"
DAY_MS: Final = 86_400_000
PAGE_STREAMS: Final = 500
PAGE_HEADERS: Final = 500


class Requesting(Handle):
    """Exact requests."""

    def request(self, name: str, conversation: str | None = None) -> RecordedRequest:
        """The request of a step (``stp_…``: its last attempt), a provider call (``cal_…``) or an event (``evt_…``).

        Without ``conversation`` it is looked for in all of them. ``body`` is the exact bytes that were sent, checked
        against the address that the header keeps. Raises ``NotFoundError``; ``ContentDamaged`` where the record makes
        other bytes than were sent.
        """
        stream_id, sequence = self._place_of_request(name, conversation)
        rebuilder = self._rebuilder(stream_id)
        found = request_at(rebuilder, self._tree_events(stream_id, sequence), sequence)
        if found is None:
            raise _unknown(name, self.place)
        return found

    def requests(self, conversation: str, run_id: str | None = None) -> Iterator[RecordedRequest]:
        """Every request of a conversation in order, or of one of its runs; a page of events is in memory at a time."""
        stream_id = self._stream_here(conversation)
        for found in requests_of(self._rebuilder(stream_id), self._tree_events(stream_id)):
            if run_id in (None, found.event.header.run_id):
                yield found

    # ---- inside ----

    def _stream_here(self, name: str) -> str:
        found = self._find(name)
        if found is None:
            raise StreamNotFound(
                f"there is no conversation {name!r} for tenant {self.tenant} in {self.place}",
                hint="`counterfoil ls` lists them",
            )
        return found

    def _rebuilder(self, stream_id: str) -> Rebuilder:
        ports = self.ports

        def event_at(sequence: int) -> Event:
            return reading.view(ports, ports.store.read(stream_id, sequence - 1, 1)[0])

        def event_of(event_id: str) -> Event | None:
            found = ports.store.find(stream_id, [event_id])
            return reading.view(ports, found[0]) if found else None

        return Rebuilder(ports.material(stream_id), event_at, event_of)

    def _tree_events(self, stream_id: str, up_to: int | None = None) -> Iterator[Event]:
        after = 0
        while page := self.ports.store.read(stream_id, after, PAGE_EVENTS, TREE_TYPES):
            for stored in page:
                if up_to is not None and stored.sequence > up_to:
                    return
                yield reading.view(self.ports, stored)
            after = page[-1].sequence

    def _place_of_request(self, name: str, conversation: str | None) -> tuple[str, int]:
        """Stream and sequence of the ``provider.requested`` that is meant."""
        if not is_id(name, "stp", "cal", "evt"):
            raise InvalidForm(
                "a request is named by its step (stp_…), its provider call (cal_…) or its event (evt_…)",
                hint="`counterfoil show CONVERSATION --requests` lists them",
                argument="name",
            )
        streams = [self._stream_here(conversation)] if conversation is not None else self._streams_for(name)
        for stream_id in streams:
            sequence = self._sequence_in(stream_id, name)
            if sequence is not None:
                return stream_id, sequence
        raise _unknown(name, self.place)

    def _streams_for(self, name: str) -> Iterator[str]:
        """Conversations that were there when the name was made: ids begin with their time."""
        made_ms = id_time_ms(name)
        after = ""
        while page := self.ports.store.streams(self.tenant, after, PAGE_STREAMS):
            for stream in page:
                if stream.kind == "conversation" and (
                    name.startswith("evt_") or _made_by(stream.stream_id, made_ms)
                ):
                    yield stream.stream_id
            after = page[-1].stream_id

    def _sequence_in(self, stream_id: str, name: str) -> int | None:
        if name.startswith("evt_"):
            found = self.ports.store.find(stream_id, [name])
            return found[0].sequence if found and found[0].event_type == REQUESTED else None
        last: int | None = None
        after = 0
        while page := self.ports.store.read(
            stream_id, after, PAGE_HEADERS, frozenset({REQUESTED}), content=False
        ):
            for stored in page:
                event = reading.view(self.ports, stored)
                if name in (event.header.step_id, event.data.get("call_id")):
                    last = stored.sequence
            after = page[-1].sequence
        return last


def _made_by(stream_id: str, made_ms: int) -> bool:
    """Whether a stream is as old; the clocks of two machines may differ by a day."""
    return id_time_ms(stream_id) <= made_ms + DAY_MS


def _unknown(name: str, place: str) -> NotFoundError:
    return NotFoundError(
        f"there is no request {name} in {place}",
        hint="`counterfoil show CONVERSATION --requests` lists the requests of a conversation",
    )
