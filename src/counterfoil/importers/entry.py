"""What a record says, in terms that no format owns; each format's module makes these from its own records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

Path = tuple[str | int, ...]
"""Where a value stands in its record: member names and positions from the record down."""

Finish = Literal["stop", "length", "tools", "filter", "refusal", "other"]
"""Why a response ended (``provider.responded``, FORMAT 7)."""

UNKNOWN: Final = "unknown"
"""The kind of a record whose type nobody here knows, and the name of a tool that the file does not name."""

MALFORMED: Final = "malformed"
"""The kind of a record of a known type in a shape that the type does not have."""

ITEMS_MAX: Final = 4096
"""Items of one record, each of which becomes an event of one append."""


class Usage(Struct, frozen=True):
    """What a model call used, as far as the file says; None where it does not, or says it in no usable form."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost: Decimal | None = None
    currency: str | None = None


class Prompt(Struct, frozen=True):
    """A user's message, which stands at ``message``."""

    message: Path


class Response(Struct, frozen=True):
    """A model's message. Lines with the same ``message_id`` in a session are one call, whose usage counts once."""

    message: Path
    message_id: str | None
    provider: str | None
    model: str | None
    finish: Finish
    usage: Usage | None


class Call(Struct, frozen=True):
    """A tool call; ``call_id`` is the foreign id, an attribute and never a key.

    ``again`` says that the record of a result repeats its call: it is a call of its own only where none of this id is
    open.
    """

    call_id: str | None
    name: str | None
    input: Path | None
    again: bool = False


class Result(Struct, frozen=True):
    """A tool's result, paired with the call of the same foreign id as far as there is one."""

    call_id: str | None
    name: str | None
    failed: bool
    result: Path | None


class Compaction(Struct, frozen=True):
    """The context was compacted: what stands before ``kept`` was replaced by the summary.

    ``kept`` is the foreign id of the first record kept, or its index among the file's records; None: nothing before
    this record was kept. ``boundary`` is the id of a record that may have said the same before: then this one only
    carries the summary.
    """

    cause: Literal["size", "request", "policy"]
    summary: Path | None
    kept: str | int | None = None
    boundary: str | None = None


class Other(Struct, frozen=True):
    """Any other record: ``kind`` is a label of ours, never text of the file; ``known`` is False for a type unknown.

    ``running`` is what the session has used up to here, where the record tells that: a running total, which counts as
    far as it rises, and anew where it begins again.
    """

    kind: str
    known: bool = True
    running: Usage | None = None


Item = Prompt | Response | Call | Result | Compaction | Other


class Entry(Struct, frozen=True):
    """One record: where it belongs, what it links to, and what it says (at least one item, the carrier first).

    ``session`` is the foreign session id if the record bears one; otherwise ``points_to`` names a record of the same
    session. ``opens`` says that the records after it without session id belong to its session. ``parents`` are the
    records it continues from. ``aside`` marks a sub-agent's record, which is not on the main path.
    ``branched`` marks the header of a session that took over records of an older one. ``called_by`` is the session and
    the call that a sub-agent's record belongs to, where it has a session of its own. ``comes_from`` is a session of another
    file that started this one, or that it was forked from.
    """

    items: tuple[Item, ...]
    session: str | None = None
    opens: bool = False
    points_to: str | None = None
    record_id: str | None = None
    parents: tuple[str, ...] = ()
    linked: bool = False
    aside: bool = False
    branched: bool = False
    called_by: tuple[str, str] | None = None
    comes_from: str | None = None
    time: str | int | None = None
    flags: tuple[str, ...] = ()


class Format(Struct, frozen=True):
    """A kind of transcript: its name (a label), the agent that wrote it, and how to read one record of it."""

    name: str
    agent: str
    recognises: Callable[[Mapping[str, Any]], bool]
    parse: Callable[[Mapping[str, Any]], Entry]

    def entry(self, record: Mapping[str, Any]) -> Entry:
        """What one record says; one with more than :data:`ITEMS_MAX` items is kept whole as malformed."""
        found = self.parse(record)
        return found if len(found.items) <= ITEMS_MAX else replace(found, items=(Other(MALFORMED),))


def text_of(value: object) -> str | None:
    """The value if it is text with something in it."""
    return value if isinstance(value, str) and value else None


def member(value: object, *names: str) -> Any:
    """The value at ``names`` inside nested objects, or None where one is missing or no object."""
    for name in names:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value
