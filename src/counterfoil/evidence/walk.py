"""The walk over one stream: a lean loop for events that are right in every respect, strict reading for all others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct, field

from counterfoil.core.catalogue import Registry
from counterfoil.core.chain import ADOPTED, Chain
from counterfoil.core.examine import Examined, Stored
from counterfoil.evidence.artifacts import STORING
from counterfoil.evidence.collector import Collector
from counterfoil.evidence.content import DELETED, Records, parts_of
from counterfoil.evidence.custody import Custody
from counterfoil.evidence.raw import Parts, RawEvent
from counterfoil.evidence.recognise import Recogniser
from counterfoil.evidence.report import Counts
from counterfoil.evidence.shapes import TYPES_MAX, Shapes

STRETCH_AFTER_FAULT: Final = 8
"""Events looked at together after one that had to be read strictly; doubled with each stretch that is right."""

_NOWHERE: Final = object()

STRICT_TYPES: Final = frozenset({ADOPTED, DELETED})
"""Types whose events say something about others, and so are always read strictly."""


class Scope(Struct):
    """What all streams of one verification share.

    ``destroyed`` collects the keys that certificates name, ``unregistered`` what is said of types not known here whose
    events are recognised nevertheless; ``progress`` is told the events looked at so far.
    """

    registry: Registry
    collector: Collector
    counts: Counts
    shapes: Shapes
    destroyed: set[str] = field(default_factory=set)
    unregistered: dict[str, str] = field(default_factory=dict)
    records_seen: int = 0
    heads_seen: int = 0
    progress: Callable[[int], None] | None = None

    def tell(self) -> None:
        """Report progress."""
        if self.progress is not None:
            self.progress(self.counts.events)


class StreamWalk:
    """Checks the events of one stream, given in the order of their sequence column.

    ``records`` is None when records are not looked at or the genesis that rules them cannot be read. ``storing`` is told
    of each event that stored an artifact.
    """

    def __init__(
        self,
        scope: Scope,
        stream_id: str,
        stream_key: str | None,
        chain: Chain,
        records: Records | None,
        custody: Custody | None,
        storing: Callable[[RawEvent], None] | None = None,
    ) -> None:
        self._chain = chain
        self._scope = scope
        self._stream_id = stream_id
        self._records = records
        self._custody = custody
        self._storing = storing
        self._recogniser = Recogniser(scope.shapes, stream_id, stream_key)
        self._clock_ms = -1
        self._position: object = _NOWHERE

    def run(self, pages: Iterable[list[RawEvent]]) -> None:
        """Walk every row. An event has one row for each of its records, or one without."""
        for page in pages:
            self._scope.records_seen += len(page) - [row[8] for row in page].count(None)
            events, further = self._events(page)
            self._walk(events, further)
            if self._storing is not None:
                for row in events:
                    if row[3] in STORING:
                        self._storing(row)
            self._scope.tell()
        if self._records is not None:
            self._records.close()

    def _events(self, page: list[RawEvent]) -> tuple[list[RawEvent], dict[object, list[RawEvent]]]:
        """The first row of each event, and the rows of further records by their event's position."""
        if self._records is None:
            return page, {}
        events: list[RawEvent] = []
        further: dict[object, list[RawEvent]] = {}
        held = self._position
        for row in page:
            if row[0] != held:
                events.append(row)
                held = row[0]
            elif events:
                further.setdefault(held, []).append(row)
            else:
                self._records.take(row)
        self._position = held
        return events, further

    def _walk(self, events: list[RawEvent], further: dict[object, list[RawEvent]]) -> None:
        place, stretch = 0, len(events)
        while place < len(events):
            last, tip = self._chain.order.footing
            rows = events[place : place + stretch]
            right = self._recogniser.right(rows, last, tip)
            if right:
                self._accept(rows, right, further, tip)
                place += len(right)
            if len(right) < len(rows):
                self._read_strictly(events[place], further)
                place += 1
                stretch = STRETCH_AFTER_FAULT
            else:
                stretch *= 2
        self._scope.counts.events += len(events)

    def _accept(
        self, rows: list[RawEvent], right: list[Parts], further: dict[object, list[RawEvent]], tip: str
    ) -> None:
        """Stand on the last of the events that are right, and check clocks and records."""
        count = len(right)
        newest = rows[count - 1]
        before = tip if count == 1 else rows[count - 2][7].hex()
        self._chain.order.stand(newest[1], newest[7].hex(), before)
        clocks = [self._clock_ms, *[row[5] for row in rows[:count]]]
        if clocks != sorted(clocks):
            for row, before in zip(rows, clocks, strict=False):
                if row[5] < before:
                    self._notice_clock(row)
        self._clock_ms = clocks[-1]
        if self._scope.unregistered:
            for row in rows[:count]:
                if row[3] in self._scope.unregistered:
                    self._notice_type(self._scope.unregistered[row[3]], row)
        if self._records is not None:
            for parts, row in zip(right, rows, strict=False):
                self._take_records(parts, row, further.get(row[0]))

    def _take_records(self, parts: Parts | None, row: RawEvent, further: list[RawEvent] | None) -> None:
        if self._records is not None:
            self._records.begin(parts, row)
            for more in further or ():
                self._records.take(more)

    def _read_strictly(self, row: RawEvent, further: dict[object, list[RawEvent]]) -> None:
        """Read one event the long way, and place it."""
        tips = self._chain.order.tips
        examined = self._chain.step(Stored(*row[1:8]))
        if type(row[5]) is int:
            if row[5] < self._clock_ms:
                self._notice_clock(row)
            self._clock_ms = row[5]
        header = examined.header
        if header is None:
            self._take_records(None, row, further.get(row[0]))
            return
        if header.event_type == ADOPTED and self._custody is not None:
            self._custody.adopt(header, tips)
        elif header.event_type == DELETED and "key" in header.data:
            self._scope.destroyed.add(str(header.data["key"]))
        if examined.unregistered is not None:
            self._notice_type(examined.unregistered, row)
        if self._may_learn(examined):
            self._scope.shapes.learn(header.raw)
        # Records go by the header: where a column differs, that was named once and is enough.
        own = (row[0], header.stream_sequence, header.event_id, header.event_type, *row[4:])
        self._take_records(parts_of(header), own, further.get(row[0]))

    def _may_learn(self, examined: Examined) -> bool:
        """Whether events of this kind may be recognised from now on, with nothing left to say of them."""
        header, what = examined.header, examined.unregistered
        if header is None or header.event_type in STRICT_TYPES or examined.seen.named:
            return False
        if what is None:
            return header.event_type not in self._scope.unregistered
        if (
            header.event_type in self._scope.shapes.by_type
            and header.event_type not in self._scope.unregistered
        ):
            return False
        if len(self._scope.unregistered) >= TYPES_MAX:
            return False
        return self._scope.unregistered.setdefault(header.event_type, what) == what

    def _notice_type(self, what: str, row: RawEvent) -> None:
        self._scope.collector.notice("unknown_type", what, self._stream_id, row[1])

    def _notice_clock(self, row: RawEvent) -> None:
        what = "the clock went back: an event is dated before the one in front of it"
        self._scope.collector.notice(
            "clock_back", what, self._stream_id, row[1] if type(row[1]) is int else None
        )
