"""One session on its way into its conversation: what the second reading remembers from line to line."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any, Final

from msgspec import Struct

from counterfoil.core.canonical import encode
from counterfoil.core.event import Draft, Part
from counterfoil.core.forms import parse_outside_time, time_text
from counterfoil.core.limits import NESTING_MAX
from counterfoil.core.strict import nesting_of
from counterfoil.errors import InvalidForm
from counterfoil.importers.entry import Entry, Format
from counterfoil.importers.identity import Source
from counterfoil.importers.reader import Line
from counterfoil.importers.survey import Place, Session
from counterfoil.importers.target import ImportedConversation

EPOCH: Final = "1970-01-01T00:00:00.000Z"
"""``occurred_at`` in a session that names no time at all; the content then says ``time_assumed``."""

IMPORTER: Final = {"type": "system", "id": "importer"}
"""The actor of what no agent or user did: records kept for their own sake, refusals, the import itself."""


SUB_AGENT: Final = "sub_agent"
"""Kind of the record in a session that names the conversation of a sub-agent which it started."""

SUB_AGENT_INPUT: Final = "sub_agent_input"
"""Kind of the record with which a sub-agent's conversation begins: what it was given, and by which call."""

INPUT_BYTES_MAX: Final = 1024 * 1024
"""Bytes of a call's input that stand in the sub-agent's conversation too."""


class Caller(Struct, frozen=True):
    """A call that started a sub-agent: its event, and what it gave it, in content form."""

    event_id: str
    input: Any


class Step(Struct, frozen=True):
    """A tool call or result seen first, waiting for the other."""

    step_id: str
    memo: str
    name: str | None
    event_id: str


class Stream:
    """The state of one session while its lines go by in order."""

    def __init__(self, kind: Format, session: Session, conversation: ImportedConversation) -> None:
        self.format = kind
        self.session = session
        self.conversation = conversation
        self.name: str = conversation_name(kind, session.name)
        self.agent: dict[str, str] = {"type": "agent", "id": kind.agent}
        # A user whom nobody has named yet is the stream key (FORMAT 3).
        self.user: dict[str, str] = {"type": "user", "id": conversation.material.key_id}
        self.records: int = 0
        self.refused = 0
        self.responded: set[str] = set()
        self.steps: dict[Place, Step] = {}
        self.compacted_line = 0
        self.callers: dict[str, Caller] = {}
        self._occurrences: Counter[bytes] = Counter()
        self._digest = hashlib.sha256()
        self._time = outside_time(session.time)
        self._branched_at = outside_time(session.branched_at)

    def source(self, line: Line) -> Source:
        """What the ids of this line's events are derived from."""
        self.records += 1
        self._digest.update(line.digest)
        occurrence = self._occurrences[line.digest]
        self._occurrences[line.digest] += 1
        data = line.data if line.whole else b"sha256:" + line.digest
        return Source(self.conversation.material, self.name, occurrence, data)

    def time(self, entry: Entry | None) -> tuple[str, tuple[str, ...]]:
        """When the record was made, with the flags that go with it; without a time of its own, that of the last."""
        own = outside_time(entry.time) if entry is not None else None
        if own is None:
            return self._time or EPOCH, ("time_assumed",)
        self._time = own
        inherited = self._branched_at is not None and own < self._branched_at
        return own, (("inherited",) if inherited else ())

    def began(self, child: Stream, line: int) -> Draft:
        """That a session of another file was started or forked by this one (case X7)."""
        told = {"stream_id": child.conversation.stream_id, "session": child.session.name}
        return self._linked(SUB_AGENT, child.session.name, line, {"child": told}, None)

    def started(self, child: Stream, line: int) -> Draft:
        """That a call of this session started a sub-agent, whose conversation is the child's (case X7)."""
        found = self.callers.get(_call_of(child))
        told = {"stream_id": child.conversation.stream_id, "session": child.session.name}
        content = {"call_id": _call_of(child), "child": told}
        return self._linked(SUB_AGENT, _call_of(child), line, content, found.event_id if found else None)

    def begun(self, parent: Stream, line: int) -> Draft:
        """What this sub-agent was given, whole, and by which call of which conversation (case X7)."""
        found = parent.callers.get(_call_of(self))
        told = {"stream_id": parent.conversation.stream_id, "session": parent.session.name}
        content: dict[str, Any] = {"call_id": _call_of(self), "parent": told}
        if found is not None:
            told["event_id"] = found.event_id
            if _is_small(found.input):
                content["input"] = found.input
            else:
                content["note"] = "what it was given is too large to stand here too: see the call"
        return self._linked(SUB_AGENT_INPUT, _call_of(self), line, content, None)

    def _linked(
        self, kind: str, call_id: str, line: int, content: dict[str, Any], cause: str | None
    ) -> Draft:
        source = Source(self.conversation.material, self.name, 0, f"{kind} {call_id}".encode())
        return Draft(
            event_id=source.id("evt", kind),
            event_type="record.imported",
            occurred_at=self._time or EPOCH,
            actor=IMPORTER,
            data={"kind": kind},
            parts=(Part({"source": {"format": self.format.name, "line": line}, **content}),),
            causation_event_id=cause,
        )

    def imported(self, path: str, digest: bytes, now_ms: int) -> Draft:
        """The fact that this session was imported from this file; the same lines again make the same id."""
        source = Source(self.conversation.material, self.name, 0, self._digest.digest())
        content = {
            "source": {"format": self.format.name},
            "path": path,
            "session": self.session.name,
            "sha256": digest.hex(),
        }
        return Draft(
            event_id=source.id("evt", "transcript"),
            event_type="transcript.imported",
            occurred_at=time_text(now_ms),
            actor=IMPORTER,
            data={"format": self.format.name, "records": self.records, "refused": self.refused},
            parts=(Part(content),),
        )


def conversation_name(kind: Format, session: str) -> str:
    """The conversation's name: the session id behind the format's name, apart from the application's own names."""
    return f"{kind.name}:{session}"


def outside_time(time: str | int | None) -> str | None:
    """A time of FORMAT 1 for text with zone or milliseconds since the epoch; None for anything else."""
    try:
        if isinstance(time, str):
            return parse_outside_time(time)[0]
        return None if time is None else time_text(time)
    except InvalidForm:
        return None


def _call_of(child: Stream) -> str:
    assert child.session.called_by is not None
    return child.session.called_by[1]


def _is_small(value: Any) -> bool:
    # Two levels stand above it in the content.
    return nesting_of(value) <= NESTING_MAX - 2 and len(encode(value)) <= INPUT_BYTES_MAX
