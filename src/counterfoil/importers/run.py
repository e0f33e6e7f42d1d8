"""Imports one file into a ledger: detect, survey, then map and append in batches, adding only what is new."""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, Generic

from msgspec import Struct, field
from msgspec.structs import replace

from counterfoil.errors import FileMissing, InputError
from counterfoil.importers.detect import detect, named
from counterfoil.importers.entry import Format
from counterfoil.importers.mapping import Mapped, Mapper
from counterfoil.importers.reader import Hashed, read
from counterfoil.importers.stream import Stream, conversation_name
from counterfoil.importers.survey import Session, survey
from counterfoil.importers.target import C, ImportTarget, Parent
from counterfoil.importers.totals import Imported, Totals

BATCH_EVENTS: Final = 256
"""Events of one append; a record's events are never parted."""

BATCH_BYTES: Final = 2 * 1024 * 1024
"""Bytes of transcript in one append."""

PROGRESS_BYTES: Final = 256 * 1024
"""Bytes between two calls of ``progress``."""

Progress = Callable[[int, int], None]
"""Called with the bytes done and the bytes to do; the file is read twice, so the second is twice its size."""


def import_file(
    target: ImportTarget[C],
    path: str | Path,
    *,
    format: str | None = None,
    progress: Progress | None = None,
) -> Totals:
    """Import a transcript; a conversation for each session of it. Importing it again adds only what is new.

    ``format`` is a name of :data:`counterfoil.importers.detect.FORMATS`; None finds out. What other programs append to the file meanwhile is left
    for the next import. An import that was broken off goes on when it is started again.

    Raises FileMissing; UnknownTranscript for a file that is none, with a hint, before anything is written; InputError
    for a file that cannot be read, is beyond the bounds or was changed meanwhile; and whatever the ledger raises.
    """
    wanted = None if format is None else named(format)
    path = Path(path)
    with _open(path) as file:
        return _import(target, file, path, wanted, progress)


def check_file(path: str | Path, *, format: str | None = None) -> str:
    """The name of the format that :func:`import_file` would take the file for; nothing is written anywhere.

    Raises FileMissing, UnknownTranscript or InputError as it does, for files that it refuses without having read all
    of them: so a ledger need not be made for an import that comes to nothing.
    """
    wanted = None if format is None else named(format)
    path = Path(path)
    with _open(path) as file:
        end = file.seek(0, 2)
        file.seek(0)
        return detect(file, str(path), end=end, only=wanted).name


def _open(path: Path) -> BinaryIO:
    """The file, for reading. Only a regular file, or a link to one, is opened: a pipe would wait, a device act."""
    try:
        _check_regular(path, path.stat())
        # Should it become a pipe between the look and the opening, the opening does not wait for a writer.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _check_regular(path, os.fstat(handle))
            return os.fdopen(handle, "rb")
        except BaseException:
            os.close(handle)
            raise
    except FileNotFoundError:
        raise FileMissing(f"there is no file {path}", hint="check the path") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {_reason(error)}", hint="check its permissions") from None


def _check_regular(path: Path, found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise InputError(f"{path} is a directory", hint="name the transcripts in it one by one")
    if not stat.S_ISREG(found.st_mode):
        raise InputError(
            f"{path} is not a regular file", hint="a transcript is read twice: save it to a file first"
        )


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__


def _import(
    target: ImportTarget[C], file: BinaryIO, path: Path, wanted: Format | None, progress: Progress | None
) -> Totals:
    # Both readings end where the file ended when the first began: it may be growing.
    end = file.seek(0, 2)
    tell = _Teller(progress, 2 * end)
    file.seek(0)
    kind = detect(file, str(path), end=end, only=wanted)
    file.seek(0)
    found = survey(file, kind, end=end, progress=tell.at)
    file.seek(0)
    importing = _Importing(target)
    mapper = Mapper(found, lambda session, caller, line: importing.open(kind, session, caller, line))
    source = Hashed(file)
    for record in read(source, end):
        importing.take(mapper.take(record))
        tell.at(end + record.line.offset + record.line.size)
    if source.digest() != found.digest:
        raise InputError(
            f"{path} was changed while it was imported", hint="import it again; nothing is added twice"
        )
    sessions = tuple(importing.finish(stream, str(path), found.digest) for stream in mapper.streams.values())
    tell.end()
    return mapper.tally.totals(kind.name, sessions)


_ELSEWHERE: Final = "\x00"
"""Before the name of a session of another file, which no session's name begins with."""


class _Teller:
    """Calls ``progress`` now and then."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._told = -PROGRESS_BYTES

    def at(self, done: int) -> None:
        if self._progress is not None and done - self._told >= PROGRESS_BYTES:
            self._told = done
            self._progress(min(done, self._total), self._total)

    def end(self) -> None:
        if self._progress is not None:
            self._progress(self._total, self._total)


class _Batch(Struct):
    """What waits to be appended to one stream, and where the lines before it came to stand."""

    waiting: list[Mapped] = field(default_factory=list)
    events: int = 0
    size: int = 0
    added: int = 0
    lines: list[int] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)
    lasts: list[int] = field(default_factory=list)

    def range(self, start: int, stop: int) -> tuple[int, int]:
        """The sequences of the events of lines ``start`` up to and without ``stop``; none is (n + 1, n)."""
        begin, end = bisect_left(self.lines, start), bisect_left(self.lines, stop)
        if begin == end:
            before = self.lasts[end - 1] if end else 1
            return before + 1, before
        return self.firsts[begin], self.lasts[end - 1]


class _Importing(Generic[C]):
    """Appends what the mapper makes, stream by stream, in batches."""

    def __init__(self, target: ImportTarget[C]) -> None:
        self._target = target
        self._conversations: dict[str, C] = {}
        self._batches: dict[str, _Batch] = {}

    def open(self, kind: Format, session: Session, caller: Stream | None, line: int) -> Stream:
        """The conversation of a session, found or opened; the one that started it is told of a sub-agent's."""
        name = conversation_name(kind, session.name)
        elsewhere = self._elsewhere(kind, session)
        above = _parent(session, caller)
        if above is None and elsewhere is not None:
            above = (elsewhere.conversation.stream_id, None)
        conversation = self._target.conversation(name, kind.agent, above)
        self._conversations[session.name] = conversation
        self._batches[session.name] = _Batch()
        stream = Stream(kind, session, conversation)
        if caller is not None and session.called_by is not None:
            self._flush(caller, self._batches[caller.session.name])
            self._target.append(self._conversations[caller.session.name], [caller.started(stream, line)])
            self._target.append(conversation, [stream.begun(caller, line)])
        elif elsewhere is not None and session.comes_from is not None:
            self._target.append(
                self._conversations[_ELSEWHERE + session.comes_from], [elsewhere.began(stream, line)]
            )
        return stream

    def _elsewhere(self, kind: Format, session: Session) -> Stream | None:
        """The conversation of the session, told in another file, that this one comes from; opened if it is not there."""
        if session.comes_from is None:
            return None
        name = conversation_name(kind, session.comes_from)
        conversation = self._target.conversation(name, kind.agent)
        self._conversations[_ELSEWHERE + session.comes_from] = conversation
        return Stream(kind, Session(session.comes_from, session.time), conversation)

    def take(self, mapped: Mapped) -> None:
        """Queue the drafts of a line."""
        batch = self._batches[mapped.stream.session.name]
        if mapped.compaction is not None:
            # Which sequences it covers is known once the records before it stand in the stream.
            self._flush(mapped.stream, batch)
            first, last = batch.range(*mapped.covers)
            at = mapped.drafts.index(mapped.compaction)
            data = {**mapped.compaction.data, "from_sequence": first, "to_sequence": last}
            mapped.drafts[at] = replace(mapped.compaction, data=data)
        batch.waiting.append(mapped)
        batch.events += len(mapped.drafts)
        batch.size += mapped.size
        if batch.events >= BATCH_EVENTS or batch.size >= BATCH_BYTES:
            self._flush(mapped.stream, batch)

    def _flush(self, stream: Stream, batch: _Batch) -> None:
        if not batch.waiting:
            return
        drafts = [draft for mapped in batch.waiting for draft in mapped.drafts]
        placed = iter(self._target.append(self._conversations[stream.session.name], drafts))
        for mapped in batch.waiting:
            found = [next(placed) for _ in mapped.drafts]
            batch.added += found[0].added
            batch.lines.append(mapped.line)
            batch.firsts.append(found[0].sequence)
            batch.lasts.append(found[-1].sequence)
        batch.waiting.clear()
        batch.events = batch.size = 0

    def finish(self, stream: Stream, path: str, digest: bytes) -> Imported:
        """Append what is left, and the fact of the import."""
        batch = self._batches[stream.session.name]
        self._flush(stream, batch)
        conversation = self._conversations[stream.session.name]
        self._target.append(conversation, [stream.imported(path, digest, self._target.now_ms())])
        return Imported(
            stream.session.name,
            stream.name,
            conversation.stream_id,
            stream.records,
            batch.added,
            stream.refused,
            stream.session.parent,
        )


def _parent(session: Session, caller: Stream | None) -> Parent | None:
    """The conversation and the call that started a sub-agent, as far as the file tells."""
    if caller is None or session.called_by is None:
        return None
    call = caller.callers.get(session.called_by[1])
    return caller.conversation.stream_id, None if call is None else call.event_id
