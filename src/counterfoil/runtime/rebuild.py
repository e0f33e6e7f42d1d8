"""Making the exact bytes of recorded requests again, and saying which of their parts cannot be had (FORMAT 9)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from counterfoil.core.context import ContextTree, is_said, said_body
from counterfoil.core.keyed import KeyMaterial
from counterfoil.errors import ContentDamaged, ContentUnavailable
from counterfoil.flow.event import Event
from counterfoil.runtime.trees import taken_in

CACHE_BYTES: Final = 32 * 1024 * 1024
"""Bodies kept in memory while requests are made again; others are read once more."""

EventAt = Callable[[int], Event]
"""The event of this stream at a sequence."""

EventOf = Callable[[str], Event | None]
"""The event of this stream with an id, if it is there."""


class Gone(NamedTuple):
    """Content that a request needs and nobody can show: whose event, in the words of FORMAT 6, and why."""

    sequence: int
    state: str
    reason: str


class RecordedRequest(Struct, frozen=True):
    """One request as it is on record.

    ``body`` is the exact bytes as sent, checked against ``request``, the address of all of them; None where content
    that it is made of cannot be had, and then ``gone`` says what is missing. ``path`` are the addresses of its messages,
    ``parts`` the segments. Of the request before it in the conversation it shares the first ``shared_messages`` messages
    and ``shared_bytes`` bytes (None where either cannot be shown): what a provider's prompt cache can use.
    """

    event: Event
    body: bytes | None
    path: tuple[bytes, ...] = ()
    parts: tuple[Mapping[str, Any], ...] = ()
    slots: Mapping[str, int] = field(default_factory=dict)
    gone: tuple[Gone, ...] = ()
    shared_messages: int = 0
    shared_bytes: int | None = None

    @property
    def exact(self) -> bool:
        """Whether the bytes could be made again."""
        return self.body is not None


class _BodyGone(Exception):
    def __init__(self, gone: Gone) -> None:
        super().__init__(gone.reason)
        self.gone = gone


class Rebuilder:
    """Folds the branches of one stream in order and makes its requests again; hashes and a bounded cache in memory.

    Give it every ``provider.message_recorded`` with :meth:`take`, in order, and then any ``provider.requested``.
    """

    def __init__(
        self, material: KeyMaterial, event_at: EventAt, event_of: EventOf, cache_bytes: int = CACHE_BYTES
    ) -> None:
        self._tree = ContextTree(material)
        self._material = material
        self._event_at = event_at
        self._event_of = event_of
        self._places: dict[bytes, tuple[int, int]] = {}
        self._unread: list[Gone] = []
        self._cache = _Cache(cache_bytes)
        self._before: RecordedRequest | None = None

    def take(self, event: Event) -> None:
        """Fold one branch; a body that is there twice is read where it stood last."""
        brought = taken_in(self._tree, event)
        if not brought:
            state = event.content_state
            word = "damaged" if state == "present" else state
            reason = "it hangs on content that cannot be had" if state == "present" else event.opened.reason
            self._unread.append(Gone(event.sequence, word, reason))
            return
        # A branch has its bodies in order, so the written ones are found by counting them.
        for number, body in enumerate(brought):
            self._places[body.address] = (event.sequence, number)
            if body.data is not None:
                self._cache.keep(body.address, body.data)

    def rebuilt(self, event: Event) -> RecordedRequest:
        """The request of a ``provider.requested``. Raises ``ContentDamaged`` when its segments make other bytes."""
        found = self._compared(self._made(event))
        self._before = found
        return found

    def _made(self, event: Event) -> RecordedRequest:
        if event.fault:
            return RecordedRequest(event, None, gone=(Gone(event.sequence, "damaged", event.fault),))
        try:
            content = event.content
        except ContentUnavailable as error:
            state = str(error.fields.get("state", event.content_state))
            return RecordedRequest(event, None, gone=(Gone(event.sequence, state, error.message),))
        parts = tuple(content.get("segments", ()))
        slots = content.get("state") or {}
        try:
            path = tuple(self._tree.path(bytes.fromhex(event.data["tip"])))
        except ContentDamaged:
            if not self._unread:
                raise
            return RecordedRequest(event, None, (), parts, slots, tuple(self._unread))
        gone: list[Gone] = []
        body = self._body(event, parts, gone)
        return RecordedRequest(event, body, path, parts, slots, tuple(dict.fromkeys(gone)))

    def _body(self, event: Event, parts: tuple[Mapping[str, Any], ...], gone: list[Gone]) -> bytes | None:
        def body_of(address: bytes) -> bytes:
            try:
                return self._body_of(address)
            except _BodyGone as missing:
                gone.append(missing.gone)
                return b""

        try:
            return self._tree.rebuild(parts, bytes.fromhex(event.data["request"]), body_of)
        except ContentDamaged:
            if gone:
                return None
            raise

    def _body_of(self, address: bytes) -> bytes:
        known = self._cache.get(address)
        if known is not None:
            return known
        sequence, number = self._places.get(address, (0, 0))
        if sequence == 0:
            gone = self._unread[0] if self._unread else None
            if gone is None:
                raise ContentDamaged("a request names a body that was not recorded before it", check="body")
            raise _BodyGone(gone)
        event = self._event_at(sequence)
        try:
            content = event.content
        except ContentUnavailable as error:
            state = str(error.fields.get("state", event.content_state))
            raise _BodyGone(Gone(sequence, state, error.message)) from error
        brought = [entry for entry in content.get("bodies", ()) if isinstance(entry, str) or is_said(entry)]
        entry = brought[number]
        data = entry.encode() if isinstance(entry, str) else self._said(address, entry)
        self._cache.keep(address, data)
        return data

    def _said(self, address: bytes, entry: Mapping[str, Any]) -> bytes:
        """A body that repeats the text of a response, which that event alone holds."""
        event = self._event_of(entry["said"])
        if event is None:
            raise ContentDamaged("a body names a response that is not in its conversation", check="body")
        try:
            text = event.content["body"]["text"]
        except ContentUnavailable as error:
            state = str(error.fields.get("state", event.content_state))
            raise _BodyGone(Gone(event.sequence, state, error.message)) from error
        data = said_body(entry, text)
        if self._material.address(data) != address:
            raise ContentDamaged("a body is not what its entry and the response make", check="body")
        return data

    def _compared(self, found: RecordedRequest) -> RecordedRequest:
        before = self._before
        if before is None:
            return found
        messages = self._tree.shared(before.path, found.path)
        both = None if before.body is None or found.body is None else _common(before.body, found.body)
        return RecordedRequest(
            found.event, found.body, found.path, found.parts, found.slots, found.gone, messages, both
        )


def _common(one: bytes, other: bytes) -> int:
    """How many bytes two texts begin with alike; halves the stretch instead of walking it."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class _Cache:
    """The bodies used last, so many bytes of them."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held: OrderedDict[bytes, bytes] = OrderedDict()
        self._bytes = 0

    def get(self, address: bytes) -> bytes | None:
        found = self._held.get(address)
        if found is not None:
            self._held.move_to_end(address)
        return found

    def keep(self, address: bytes, data: bytes) -> None:
        if address in self._held or len(data) > self._bytes_max:
            return
        self._held[address] = data
        self._bytes += len(data)
        while self._bytes > self._bytes_max:
            _, dropped = self._held.popitem(last=False)
            self._bytes -= len(dropped)


def requests_of(rebuilder: Rebuilder, events: Iterable[Event]) -> Iterator[RecordedRequest]:
    """The requests among these events in order, each with what it shares with the one before."""
    for event in events:
        if event.type == "provider.message_recorded":
            rebuilder.take(event)
        elif event.type == "provider.requested":
            yield rebuilder.rebuilt(event)


def request_at(rebuilder: Rebuilder, events: Iterable[Event], sequence: int) -> RecordedRequest | None:
    """The request at a sequence; of the earlier ones only the last is made again, to be compared with."""
    before: Event | None = None
    for event in events:
        if event.type == "provider.message_recorded":
            rebuilder.take(event)
        elif event.sequence != sequence:
            before = event
        else:
            if before is not None:
                with suppress(ContentDamaged):
                    rebuilder.rebuilt(before)
            return rebuilder.rebuilt(event)
    return None
