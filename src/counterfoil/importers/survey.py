"""The first reading of a transcript: sessions, pairs of call and result, usage by message, what is out of reach."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from counterfoil.errors import InputError
from counterfoil.importers.entry import Call, Compaction, Entry, Format, Item, Response, Result
from counterfoil.importers.links import Node, orphans, unreachable
from counterfoil.importers.reader import Hashed, Record, Refused, Source, read

RECORDS_MAX: Final = 2_000_000
"""Lines of one file that are not blank; about 1 KB of memory each is needed to pair and link them."""

SESSIONS_MAX: Final = 10_000
"""Sessions of one file, each of which becomes a conversation with a key of its own."""

SESSION_CHARACTERS_MAX: Final = 256
"""Characters of a session id; anything longer is not taken for one."""

Place = tuple[int, int]
"""A line number and the position of an item in its entry."""


class Session(Struct):
    """What the first reading found of one session.

    ``time`` is the first one that a record of it bears; ``branched_at`` the time of a header that says the session
    took over records of an older one. A sub-agent's names the session and the call it was ``called_by``, and its
    ``parent`` is the session that holds the call: that one, or another sub-agent's of it. ``comes_from`` is a session of
    another file.
    """

    name: str
    time: str | int | None = None
    branched_at: str | int | None = None
    called_by: tuple[str, str] | None = None
    parent: str | None = None
    comes_from: str | None = None


class Survey(Struct):
    """The file as the first reading found it; the second one makes events with it.

    ``digest`` is the SHA-256 of the bytes read. ``partners`` pairs a call with its result, both ways. ``repeats`` are calls that an earlier line of the same
    message has brought. ``folded`` are lines whose compaction a boundary record before them has told.
    ``record_lines`` are the lines that hold records, in order; ``lines_of`` finds lines by the records' foreign ids.
    ``calls_made`` are the calls, by session and foreign id, that sub-agents were started by.
    """

    format: Format
    end: int
    digest: bytes = b""
    first: str = ""
    sessions: dict[str, Session] = field(default_factory=dict)
    elsewhere: dict[int, str] = field(default_factory=dict)
    partners: dict[Place, Place] = field(default_factory=dict)
    repeats: set[Place] = field(default_factory=set)
    folded: set[int] = field(default_factory=set)
    responses: dict[tuple[str, str], Response] = field(default_factory=dict)
    record_lines: list[int] = field(default_factory=list)
    lines_of: dict[str, list[int]] = field(default_factory=dict)
    calls_made: set[tuple[str, str]] = field(default_factory=set)
    orphans: set[int] = field(default_factory=set)
    unreachable: set[int] = field(default_factory=set)

    def session_of(self, line: int, entry: Entry | None) -> Session:
        """The session of a line: its own, else that of the record it points to, else the file's first."""
        own = usable(entry.session) if entry is not None else None
        found = self.sessions.get(own or self.elsewhere.get(line) or self.first)
        if found is None:
            raise InputError(
                f"line {line} names a session that was not there a moment ago: the file is being changed",
                hint="import it again when it is left alone; nothing is added twice",
                line=line,
            )
        return found


def usable(session: str | None) -> str | None:
    """The session id, if it can name a conversation: not too long, and of printable characters."""
    if session and len(session) <= SESSION_CHARACTERS_MAX and session.isprintable():
        return session
    return None


def survey(file: Source, kind: Format, *, end: int, progress: Callable[[int], None] | None = None) -> Survey:
    """Read the file once, up to byte ``end``. Raises InputError for a file beyond the bounds of this module."""
    source = Hashed(file)
    reading = _Reading(Survey(kind, end))
    for record in read(source, end):
        reading.take(record)
        if progress is not None:
            progress(record.line.offset + record.line.size)
    return reading.settle(source.digest())


class _Note(Struct):
    """What is kept of one line until all have been seen."""

    line: int
    session: str | None
    points_to: str | None = None
    message_id: str | None = None
    items: tuple[tuple[int, Item], ...] = ()
    node: Node | None = None


class _Reading:
    """Takes notes while the file streams by, and draws the conclusions at its end."""

    def __init__(self, found: Survey) -> None:
        self._found = found
        self._notes: list[_Note] = []
        self._lines = 0
        self._current: str | None = None
        self._unnamed = ""
        self._boundaries: set[str] = set()

    def take(self, record: Record | Refused) -> None:
        """Note what the end will need to know of this line."""
        self._lines += 1
        if self._lines > RECORDS_MAX:
            raise InputError(
                f"more than {RECORDS_MAX} lines in one file", hint="split it and import the parts"
            )
        if isinstance(record, Refused):
            self._notes.append(_Note(record.line.number, self._current))
            return
        self._unnamed = self._unnamed or record.line.digest.hex()[:32]
        entry = self._found.format.entry(record.value)
        self._index(record.line.number, entry)
        self._note(record.line.number, entry)

    def _index(self, line: int, entry: Entry) -> None:
        found = self._found
        found.record_lines.append(line)
        if entry.record_id is not None:
            found.lines_of.setdefault(entry.record_id, []).append(line)
        for item in entry.items:
            if isinstance(item, Compaction):
                if item.boundary is not None and item.boundary in self._boundaries:
                    found.folded.add(line)
                elif entry.record_id is not None:
                    self._boundaries.add(entry.record_id)

    def _note(self, line: int, entry: Entry) -> None:
        own = self._own_session(entry)
        items = tuple(
            (at, item) for at, item in enumerate(entry.items) if isinstance(item, Call | Result | Response)
        )
        message_id = next((item.message_id for _, item in items if isinstance(item, Response)), None)
        node = Node.of(line, entry) if entry.linked or entry.record_id is not None else None
        if own is None:
            self._notes.append(_Note(line, self._current, entry.points_to, message_id, items, node))
        elif items or node is not None:
            self._notes.append(_Note(line, own, None, message_id, items, node))

    def _own_session(self, entry: Entry) -> str | None:
        """The session that the record itself names, met for the first time or again."""
        own = usable(entry.session)
        if own is None:
            return None
        found = self._found
        if own not in found.sessions:
            if len(found.sessions) >= SESSIONS_MAX:
                raise InputError(
                    f"more than {SESSIONS_MAX} sessions in one file", hint="split it and import the parts"
                )
            found.sessions[own] = Session(own)
            found.first = found.first or own
        session = found.sessions[own]
        if session.called_by is None:
            session.called_by = entry.called_by
        if session.comes_from is None and usable(entry.comes_from) != own:
            session.comes_from = usable(entry.comes_from)
        if session.time is None:
            session.time = entry.time
        if entry.opens:
            self._current = own
            session.branched_at = entry.time if entry.branched else None
        return own

    # ---- at the end ------------------------------------------------------------------------------------------------

    def settle(self, digest: bytes) -> Survey:
        """Give every line its session, then pair calls with results, gather usage and find what is out of reach."""
        found = self._found
        found.digest = digest
        if not found.first:
            # A session without a name is told by its first record, which stays when the file grows.
            found.first = self._unnamed
            found.sessions[found.first] = Session(found.first)
        sessions = self._by_session()
        self._adopt(sessions)
        for name, notes in sessions.items():
            self._pair(name, notes)
        answers: dict[int, list[int]] = {}
        for (line, _), (other, _) in found.partners.items():
            answers.setdefault(line, []).append(other)
        for notes in sessions.values():
            nodes = [note.node for note in notes if note.node is not None]
            found.orphans |= orphans(nodes, found.lines_of)
            found.unreachable |= unreachable(nodes, found.lines_of, answers)
        return found

    def _adopt(self, sessions: dict[str, list[_Note]]) -> None:
        """Find the session that holds the call which started each sub-agent (case X7)."""
        called = {session.called_by for session in self._found.sessions.values() if session.called_by}
        wanted = {call for _, call in called}
        holders: dict[tuple[str, str], str] = {}
        for name, notes in sessions.items() if wanted else ():
            root = (self._found.sessions[name].called_by or (name, ""))[0]
            for _, _, item in _placed(notes):
                if isinstance(item, Call) and item.call_id in wanted:
                    holders.setdefault((root, str(item.call_id)), name)
                    self._found.calls_made.add((name, str(item.call_id)))
        for session in list(self._found.sessions.values()):
            if session.called_by is None:
                continue
            root = session.called_by[0]
            session.parent = holders.get(session.called_by, root)
            if root not in self._found.sessions:
                self._found.sessions[root] = Session(root, session.time)
        for session in self._found.sessions.values():
            self._straighten(session)

    def _straighten(self, session: Session) -> None:
        """A file may claim that two sub-agents started each other; then both were started by the session."""
        seen, above = {session.name}, session.parent
        while above is not None and session.called_by is not None:
            if above in seen:
                session.parent = session.called_by[0]
                return
            seen.add(above)
            above = self._found.sessions[above].parent

    def _by_session(self) -> dict[str, list[_Note]]:
        found = self._found
        sessions: dict[str, list[_Note]] = {name: [] for name in found.sessions}
        named = {note.line: note.session for note in self._notes if note.session is not None}
        for note in self._notes:
            if note.session is None:
                targets = found.lines_of.get(note.points_to, ()) if note.points_to is not None else ()
                note.session = next((named[line] for line in targets if line in named), found.first)
                named[note.line] = note.session
            if note.session != found.first:
                found.elsewhere[note.line] = note.session
            sessions[note.session].append(note)
        return sessions

    def _pair(self, session: str, notes: list[_Note]) -> None:
        """Pair calls and results of one session in order: the first open call of an id takes the next result of it.

        What is left over is paired backwards, a result that stands before its call. Ids only ever pair inside a
        session and never name anything.
        """
        calls: defaultdict[str, deque[Place]] = defaultdict(deque)
        results: defaultdict[str, deque[Place]] = defaultdict(deque)
        seen: set[tuple[str, str]] = set()
        for place, message_id, item in _placed(notes):
            if isinstance(item, Response):
                self._respond(session, item)
            elif isinstance(item, Call) and item.call_id is not None:
                if item.again and calls[item.call_id]:
                    self._found.repeats.add(place)
                    continue
                if message_id is not None and (message_id, item.call_id) in seen:
                    self._found.repeats.add(place)
                    continue
                if message_id is not None:
                    seen.add((message_id, item.call_id))
                calls[item.call_id].append(place)
            elif isinstance(item, Result) and item.call_id is not None:
                if calls[item.call_id]:
                    self._marry(calls[item.call_id].popleft(), place)
                else:
                    results[item.call_id].append(place)
        for call_id, early in results.items():
            while early and calls[call_id]:
                self._marry(calls[call_id].popleft(), early.popleft())

    def _marry(self, call: Place, result: Place) -> None:
        self._found.partners[call] = result
        self._found.partners[result] = call

    def _respond(self, session: str, response: Response) -> None:
        """Lines of one message repeat its usage, at first with a count that is still running: the highest is taken."""
        if response.message_id is None:
            return
        key = session, response.message_id
        known = self._found.responses.get(key)
        if known is not None:
            response = replace(
                known,
                usage=response.usage if _output(response) >= _output(known) else known.usage,
                finish=known.finish if response.finish == "other" else response.finish,
            )
        self._found.responses[key] = response


def _placed(notes: list[_Note]) -> Iterator[tuple[Place, str | None, Item]]:
    for note in notes:
        for at, item in note.items:
            yield (note.line, at), note.message_id, item


def _output(response: Response) -> int:
    if response.usage is None:
        return -1
    return response.usage.output_tokens or 0
