"""The second reading of a transcript: each record becomes event drafts of its session's conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import Struct

from counterfoil.core.event import Draft, Part
from counterfoil.importers.content import Misfit, Pieces, as_found, misfit, shortened
from counterfoil.importers.entry import Compaction, Entry, Item
from counterfoil.importers.events import Planned, Planner, wanted
from counterfoil.importers.identity import Source
from counterfoil.importers.reader import Cause, Line, Record, Refused
from counterfoil.importers.stream import IMPORTER, Stream
from counterfoil.importers.survey import Place, Session, Survey
from counterfoil.importers.totals import Tally

_MISFITS: Final[dict[Misfit, str]] = {
    "size": "the record is larger than content may be",
    "depth": "the record is nested deeper than content may be",
}


class Mapped(Struct):
    """The drafts that one line became, the one that holds the record first.

    The sequences that draft ``compaction`` covers are still open: those of this session's lines from ``covers[0]``
    up to and without ``covers[1]``.
    """

    stream: Stream
    line: int
    size: int
    drafts: list[Draft]
    compaction: Draft | None = None
    covers: tuple[int, int] = (0, 0)


class Mapper:
    """Turns lines into drafts, in the order of the file, and counts as it goes."""

    def __init__(self, survey: Survey, open_stream: Callable[[Session, Stream | None, int], Stream]) -> None:
        self.streams: dict[str, Stream] = {}
        self._survey = survey
        self._open_stream = open_stream
        self._planner = Planner(survey)

    @property
    def tally(self) -> Tally:
        """The counts up to here."""
        return self._planner.tally

    def take(self, record: Record | Refused) -> Mapped:
        """The drafts of one line."""
        line = record.line
        entry = self._survey.format.entry(record.value) if isinstance(record, Record) else None
        stream = self._stream(self._survey.session_of(line.number, entry), line.number)
        source = stream.source(line)
        self.tally.records += 1
        if isinstance(record, Record) and entry is not None:
            return self._record(stream, source, record, entry)
        assert isinstance(record, Refused)
        self.tally.not_object += record.cause == "shape"
        refusal = self._refusal(stream, line, source.id("evt", "0"), record.cause, record.note)
        return Mapped(stream, line.number, line.size, [refusal])

    def _stream(self, session: Session, line: int) -> Stream:
        """The session's stream; the one that started it is opened before it."""
        found = self.streams.get(session.name)
        if found is not None:
            return found
        above = [session]
        while (parent := above[-1].parent) is not None and parent not in self.streams:
            above.append(self._survey.sessions[parent])
        for one in reversed(above):
            caller = None if one.parent is None else self.streams[one.parent]
            found = self.streams[one.name] = self._open_stream(one, caller, line)
        assert found is not None
        return found

    def _record(self, stream: Stream, source: Source, record: Record, entry: Entry) -> Mapped:
        line = record.line
        time, flags = stream.time(entry)
        flags = (*entry.flags, *flags, *self._reach(line.number))
        items = self._items(line.number, entry)
        pieces = Pieces(record.value)
        taken = _take_all(pieces, items)
        planned = [self._planner.plan(stream, source, place, item, taken[place[1]]) for place, item in items]
        contents = [
            _content(stream, line, event, item, taken[place[1]], planned[0].event_id)
            for event, (place, item) in zip(planned, items, strict=True)
        ]
        contents[0]["record"] = pieces.rest
        _flag(contents[0], flags)
        mapped = Mapped(stream, line.number, line.size, [])
        cause: Misfit | None = next((found for content in contents if (found := misfit(content, line))), None)
        if cause is not None:
            refused_id = source.id("evt", "refused")
            mapped.drafts.append(self._refusal(stream, line, refused_id, cause, _MISFITS[cause]))
            contents = [_stand_in(content, refused_id, _MISFITS[cause]) for content in contents]
        drafts = [_draft(event, time, content) for event, content in zip(planned, contents, strict=True)]
        mapped.drafts += drafts
        if isinstance(entry.items[0], Compaction) and drafts[0].event_type == "compaction.recorded":
            mapped.compaction = drafts[0]
            mapped.covers = self._covers(stream, line.number, entry.items[0], contents[0])
        return mapped

    def _items(self, line: int, entry: Entry) -> list[tuple[Place, Item]]:
        """The items that become events; a call that an earlier line of its message has brought does not again."""
        places = [((line, at), item) for at, item in enumerate(entry.items)]
        return [(place, item) for place, item in places if place not in self._survey.repeats]

    def _reach(self, line: int) -> list[str]:
        flags = {"parent_missing": self._survey.orphans, "unreachable": self._survey.unreachable}
        return [flag for flag, lines in flags.items() if line in lines]

    def _covers(
        self, stream: Stream, line: int, item: Compaction, content: dict[str, Any]
    ) -> tuple[int, int]:
        """The lines whose events a compaction replaced: from where the last one ended to the first record kept."""
        start, stop = stream.compacted_line, self._kept_line(item)
        if stop is None or not start <= stop <= line:
            if item.kept is not None:
                _flag(content, ("kept_unknown",))
            stop = line
        stream.compacted_line = stop
        return start, stop

    def _kept_line(self, item: Compaction) -> int | None:
        if isinstance(item.kept, str):
            return next(iter(self._survey.lines_of.get(item.kept, ())), None)
        if item.kept is None or item.kept >= len(self._survey.record_lines):
            return None
        return self._survey.record_lines[item.kept]

    def _refusal(self, stream: Stream, line: Line, event_id: str, cause: Cause, note: str) -> Draft:
        stream.refused += 1
        self.tally.refused += 1
        time, flags = stream.time(None)
        content = {"source": _source(stream, line), **as_found(line, note)}
        _flag(content, flags)
        data = {"line": line.number, "offset": line.offset, "cause": cause}
        return _draft(Planned(event_id, "record.refused", IMPORTER, data), time, content)


def _take_all(pieces: Pieces, items: list[tuple[Place, Item]]) -> dict[int, dict[str, Any]]:
    """The values that the events want out of the record, by position of their item; the deepest are taken first."""
    taken: dict[int, dict[str, Any]] = {place[1]: {} for place, _ in items}
    wants = [(path, place[1], name) for place, item in items for name, path in wanted(item).items()]
    for path, at, name in sorted(wants, key=lambda want: -len(want[0])):
        taken[at][name] = pieces.take(path)
    return taken


def _source(stream: Stream, line: Line, record: str | None = None) -> dict[str, Any]:
    """Where the event comes from; ``record`` is the event that holds the rest of the record, if another does."""
    source = {"format": stream.format.name, "line": line.number}
    return source if record is None else {**source, "record": record}


def _content(
    stream: Stream, line: Line, event: Planned, item: Item, taken: dict[str, Any], carrier: str
) -> dict[str, Any]:
    content: dict[str, Any] = {
        "source": _source(stream, line, None if event.event_id == carrier else carrier),
        **event.fields,
        **taken,
    }
    moved = {name: list(path) for name, path in wanted(item).items()}
    if moved:
        content["moved"] = moved
    _flag(content, event.flags)
    return content


def _flag(content: dict[str, Any], flags: Iterable[str]) -> None:
    """Add to the content's flags; one without any has no such member."""
    if found := [*content.get("flags", ()), *flags]:
        content["flags"] = found


def _stand_in(content: dict[str, Any], refused_id: str, note: str) -> dict[str, Any]:
    small = shortened(content, note)
    return {**small, "source": {**small["source"], "record": refused_id}}


def _draft(event: Planned, time: str, content: dict[str, Any]) -> Draft:
    return Draft(
        event_id=event.event_id,
        event_type=event.event_type,
        occurred_at=time,
        actor=event.actor,
        data=event.data,
        parts=(Part(content),),
        step_id=event.step_id,
        causation_event_id=event.cause,
    )
