"""Import: an archive read strictly, line by line, each stream checked as verify checks it (FORMAT 15)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn

from msgspec import Struct, field

from counterfoil.archive.lines import (
    CTX,
    LINE_BYTES_MAX,
    OBJECT_LINE,
    as_bytes,
    parse_line,
    record_bytes,
)
from counterfoil.archive.place import Lines, Source
from counterfoil.core.catalogue import Registry
from counterfoil.core.chain import ChainState, Erasures, Fault
from counterfoil.core.event import Header, event_hash, read_header
from counterfoil.core.forms import is_digest, time_ms
from counterfoil.core.genesis import Genesis, parse_genesis
from counterfoil.errors import ArchiveInvalid, CounterfoilError, InputError, InvalidForm
from counterfoil.store.unit import StoredEvent

STORING: Final = frozenset({"artifact.stored", "artifact.spilled"})
COMPLETED: Final = b"deletion.completed"
FAULTS_MAX: Final = 100

Progress = Callable[[int, int | None], None]


class Place(Struct, frozen=True):
    """Where something stands in ``archive.jsonl``: its line from 1, and the byte that the line begins with."""

    line: int
    offset: int


class Begun(Struct, frozen=True):
    """A stream begins: ``events`` of it follow."""

    genesis: Genesis
    events: int
    place: Place


class Told(Struct, frozen=True):
    """An event as it will lie in the store, with its header where that can be read."""

    event: StoredEvent
    header: Header | None
    place: Place


class Companion(Struct, frozen=True):
    """A sealed row that travels with its stream (FORMAT 15)."""

    stream_id: str
    table: str
    key: str
    commitment: str
    record: bytes
    place: Place


class Ended(Struct, frozen=True):
    """A stream is whole: where it ends, and the ledger that it belongs to now."""

    genesis: Genesis
    up_to_sequence: int
    head: bytes
    home: str
    token: int


class Listed(Struct, frozen=True):
    """An object that comes along."""

    sha256: str
    size: int
    place: Place


Item = Begun | Told | Companion | Ended | Listed


class Damage(Struct):
    """Faults of what was stored, taken in because somebody said so; each with its line."""

    faults: list[tuple[Fault, Place | None]] = field(default_factory=list)
    count: int = 0

    def add(self, fault: Fault, place: Place | None) -> None:
        """Count one, and keep the first hundred."""
        self.count += 1
        if len(self.faults) < FAULTS_MAX:
            self.faults.append((fault, place))


class ArchiveReader:
    """Reads one archive. ``items`` hands out what it holds in order and raises at the first fault.

    With ``accept_damaged`` faults of the chain, of records and of objects are kept in ``damage`` and the reading goes
    on; what is no archive, was cut or changed on its way is refused all the same. After ``items`` has ended, ``sha256``
    is the digest of all lines.
    """

    def __init__(
        self,
        source: Source,
        registry: Registry | None = None,
        *,
        accept_damaged: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self._source = source
        self.registry: Registry = registry or Registry()
        self._accept = accept_damaged
        self._progress = progress
        self._digest = hashlib.sha256()
        self._place = Place(0, 0)
        self._next_offset = 0
        self._before = ""
        self._objects: dict[bytes, tuple[str, int]] = {}
        self.damage: Damage = Damage()
        self.sha256: str = ""
        self.streams: int = 0
        self.events: int = 0
        self.records: int = 0
        self.erased: int = 0

    # ---- the whole -------------------------------------------------------------------------------------------------

    def items(self) -> Iterator[Item]:
        """Everything in order. Raises ArchiveInvalid with the line and the byte offset of the first fault."""
        erasures = self._certificates()
        lines = self._source.lines()
        first = self._line(lines)
        if first.get("ctx") != CTX:
            self._refuse("it does not begin as an archive of this version does")
        self.streams = first["streams"]
        if not self.streams:
            self._refuse("it holds no stream")
        last = ""
        line = self._line(lines)
        for _ in range(self.streams):
            if line.get("record") != "stream":
                self._refuse(f"{self.streams} streams were announced, and another one should begin here")
            genesis, events = self._genesis(line)
            if genesis.stream_id <= last:
                self._refuse("streams do not come in the order of their ids, each once")
            last = genesis.stream_id
            line = yield from self._stream(lines, genesis, events, erasures.get(last, Erasures()))
        listed = 0
        last = ""
        while line.get("record") == "object":
            if line["sha256"] <= last:
                self._refuse("objects do not come in the order of their digests, each once")
            last, listed = line["sha256"], listed + 1
            if self._objects.pop(bytes.fromhex(last), None) is None:
                self._refuse("no event of the archive stored this object")
            yield Listed(last, line["bytes"], self._place)
            line = self._line(lines)
        self._missing_objects()
        self._end(line, lines, listed)

    def _end(self, line: dict[str, Any], lines: Lines, listed: int) -> None:
        if line.get("record") != "end":
            self._refuse("another record stands where the archive should end")
        if line["lines"] != self._place.line - 1:
            self._refuse(f"{self._place.line - 1} lines stand before the end, which says {line['lines']}")
        if line["sha256"] != self._before:
            self._refuse("the lines before the end have another digest than it names")
        if lines.readline(1):
            self._place = Place(self._place.line + 1, self._next_offset)
            self._refuse("something stands behind the end")
        held = sum(1 for _ in self._source.names())
        if held > listed:
            self._refuse(f"{self._unlisted()} lies among its objects, and the archive does not list it")
        if held < listed:
            self._refuse(f"{listed} objects are listed and {held} are there")
        self.sha256 = self._digest.hexdigest()

    def _unlisted(self) -> str:
        """The first file that no line lists; the lines are read once more for it, in place of keeping every name."""
        names = set(self._source.names())
        lines = self._source.lines()
        while line := lines.readline(LINE_BYTES_MAX + 1):
            if line.startswith(OBJECT_LINE):
                names.discard(parse_line(line.rstrip(b"\n"))["sha256"])
        name = min(names, default="")
        return f"object {name}" if is_digest(name) else "a file that is no object"

    # ---- a stream --------------------------------------------------------------------------------------------------

    def _genesis(self, line: dict[str, Any]) -> tuple[Genesis, int]:
        try:
            return parse_genesis(as_bytes(line["genesis"])), line["events"]
        except InputError as error:
            self._refuse(error.message, error)

    def _stream(
        self, lines: Lines, genesis: Genesis, events: int, erasures: Erasures
    ) -> Generator[Item, None, dict[str, Any]]:
        """Everything of one stream; the line behind it is returned."""
        yield Begun(genesis, events, self._place)
        check = _StreamCheck(self, genesis, erasures)
        for _ in range(events):
            line = self._line(lines)
            if line.get("record") != "event":
                self._refuse(
                    f"{events} events of {genesis.stream_id} were announced, and another should stand here"
                )
            yield check.take(line)
        line = self._line(lines)
        before = ("", "")
        while line.get("record") == "row":
            place = (line["table"], line["key"])
            if place <= before:
                self._refuse("rows do not come in the order of table and key, each once")
            before = place
            yield self._companion(genesis, line)
            line = self._line(lines)
        yield check.ended()
        self.events += check.chain.events
        self.records += check.chain.records
        self.erased += check.chain.erased
        return line

    def _companion(self, genesis: Genesis, line: dict[str, Any]) -> Companion:
        if type(line["content"]) is not str:
            self._refuse("the content of a row is one record")
        try:
            record = record_bytes(line["content"])
        except InputError as error:
            self._refuse(error.message, error)
        return Companion(
            genesis.stream_id, line["table"], line["key"], line["commitment"], record, self._place
        )

    def note_objects(self, header: Header, genesis: Genesis, erasures: Erasures) -> None:
        """What an event stored must come along, or a certificate must say why not."""
        for member in header.artifact_refs:
            key, name = member.get("key", genesis.key), member["sha256"]
            gone = erasures.object_certificate(name) or erasures.certificate(
                header.stream_sequence, header.event_type, key
            )
            self._objects.setdefault(
                bytes.fromhex(name), ("" if gone else genesis.stream_id, header.stream_sequence)
            )

    def _missing_objects(self) -> None:
        for name, (stream_id, sequence) in self._objects.items():
            if stream_id:
                what = f"artifact {name.hex()[:12]}… is missing and no certificate says why"
                self.found([Fault("content_missing", stream_id, sequence, what)], None)
        self._objects.clear()

    # ---- lines -----------------------------------------------------------------------------------------------------

    def _line(self, lines: Lines) -> dict[str, Any]:
        data = lines.readline(LINE_BYTES_MAX + 1)
        self._place = Place(self._place.line + 1, self._next_offset)
        self._next_offset += len(data)
        if not data:
            self._refuse("the archive ends without its end record")
        if not data.endswith(b"\n"):
            self._refuse("the line is too long" if len(data) > LINE_BYTES_MAX else "the line is cut off")
        try:
            line = parse_line(data[:-1])
        except InputError as error:
            self._refuse(error.message, error, error.fields.get("offset"))
        self._before = self._digest.hexdigest() if line.get("record") == "end" else ""
        self._digest.update(data)
        return line

    def _certificates(self) -> dict[str, Erasures]:
        """What the certificates in the archive account for, by stream: they stand behind what they explain.

        Read ahead and taken on trust for no longer than it takes to read them again with everything else.
        """
        found: dict[str, Erasures] = {}
        lines = self._source.lines()
        while data := lines.readline(LINE_BYTES_MAX + 1):
            if COMPLETED not in data:
                continue
            try:
                line = parse_line(data.rstrip(b"\n"))
                header = read_header(as_bytes(line["header"]))
            except (CounterfoilError, KeyError, TypeError):
                continue
            if header.event_type == COMPLETED.decode() and header.event_schema_version == 1:
                with suppress(KeyError):
                    found.setdefault(header.stream_id, Erasures()).add(header.data)
        return found

    # ---- faults ----------------------------------------------------------------------------------------------------

    def found(self, faults: Sequence[Fault], place: Place | None) -> None:
        """Refuse the first fault of what was stored, or keep them all where damage is accepted."""
        for fault in faults:
            if not self._accept:
                where = f"{fault.stream_id} {fault.sequence}: " if fault.stream_id else ""
                self._refuse(f"{where}{fault.code}: {fault.what}", None, None, place)
            self.damage.add(fault, place)

    def refuse(self, what: str, cause: InputError | None = None) -> NoReturn:
        """Refuse the archive at the line that was read last."""
        self._refuse(what, cause)

    @property
    def place(self) -> Place:
        """Where the line stands that was read last."""
        return self._place

    def _refuse(
        self, what: str, cause: InputError | None = None, inside: int | None = None, at: Place | None = None
    ) -> NoReturn:
        place = at or self._place
        offset = place.offset + (inside or 0)
        raise ArchiveInvalid(
            f"line {place.line}, byte {offset} of the archive: {what}", line=place.line, offset=offset
        ) from cause

    def told(self) -> None:
        """Tell how far it is."""
        if self._progress is not None:
            self._progress(self._next_offset, None)


class _StreamCheck:
    """One stream on its way through the check that verify uses, and what must be known of it afterwards."""

    def __init__(self, reader: ArchiveReader, genesis: Genesis, erasures: Erasures) -> None:
        self._reader = reader
        self._genesis = genesis
        self._erasures = erasures
        self.chain: ChainState = ChainState(genesis, reader.registry, erasures=erasures)
        self._sequence = 0
        self._head = genesis.hash
        self._token = 0

    def take(self, line: dict[str, Any]) -> Told:
        """Check one event. Its place must be the next; what else is wrong the chain says."""
        reader, place = self._reader, self._reader.place
        try:
            data = as_bytes(line["header"])
            content = _records(line["content"])
        except InputError as error:
            reader.refuse(error.message, error)
        header, unread = _read(data)
        digest = event_hash(data)
        self._link(header, unread, content, place)
        self._sequence = self._sequence + 1 if header is None else header.stream_sequence
        event_id, event_type, run_id, at_ms = _columns(header, self._sequence)
        stored = StoredEvent(
            0,
            self._genesis.stream_id,
            self._sequence,
            event_id,
            event_type,
            run_id,
            at_ms,
            data,
            digest,
            content,
        )
        reader.found(self.chain.step(stored), place)
        self._head = digest
        if header is not None:
            self._token = max(self._token, header.data.get("fencing_token", 0) if _has_token(header) else 0)
            if header.event_type in STORING:
                reader.note_objects(header, self._genesis, self._erasures)
        reader.told()
        return Told(stored, header, place)

    def _link(
        self, header: Header | None, unread: str, content: tuple[bytes | None, ...], place: Place
    ) -> None:
        """What can be said at once, with the line it is said of; a chain may name it only when more has come."""
        stream_id, expected = self._genesis.stream_id, self._sequence + 1
        if header is None:
            self._reader.found([Fault("header_invalid", stream_id, expected, unread)], place)
        elif header.stream_sequence != expected:
            # A store places events without a gap, so this is no damage that could be taken in.
            self._reader.refuse(f"event {header.stream_sequence} stands where {expected} should")
        elif header.previous_event_hash != self._head.hex():
            what = "it does not link to the event before it: one of the two was edited"
            self._reader.found([Fault("edited", stream_id, expected, what)], place)
        elif len(content) != len(header.content):
            self._reader.refuse(
                f"{len(content)} records stand beside a header that names {len(header.content)}"
            )

    def ended(self) -> Ended:
        """After the last event."""
        self._reader.found(self.chain.finish(self._sequence, self._head), self._reader.place)
        return Ended(self._genesis, self._sequence, self._head, self.chain.home, self._token)


def _records(content: Any) -> tuple[bytes | None, ...]:
    if type(content) is not list:
        raise InvalidForm("the content of an event is a list")
    return tuple([None if record is None else record_bytes(record) for record in content])


def _read(data: bytes) -> tuple[Header | None, str]:
    try:
        return read_header(data), ""
    except CounterfoilError as error:
        return None, error.message


def _has_token(header: Header) -> bool:
    return type(header.data.get("fencing_token")) is int


def _columns(header: Header | None, sequence: int) -> tuple[str, str, str | None, int]:
    """The index columns of an event: copies of its header, or words that say that it cannot be read."""
    if header is None:
        return f"unreadable-{sequence}", "unreadable", None, 0
    return header.event_id, header.event_type, header.run_id, time_ms(header.recorded_at)
