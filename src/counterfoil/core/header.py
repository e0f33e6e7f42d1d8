"""Reading an event header: the closed list of members, each with its form (FORMAT 5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import orjson
from msgspec import MsgspecError, Raw, Struct
from msgspec.json import Decoder

from counterfoil.core import shape
from counterfoil.core.canonical import fits_header, not_canonical
from counterfoil.core.event_types import CLASSES
from counterfoil.core.fields import holds, is_flat, is_integer
from counterfoil.core.forms import is_digest, is_event_type, is_label, is_tag, is_time
from counterfoil.core.genesis import shown_ctx
from counterfoil.core.ids import ID_FORMS, is_id
from counterfoil.core.limits import ARTIFACT_REFS_MAX, HEADER_BYTES_MAX, PARTS_MAX, SEQUENCE_MAX
from counterfoil.errors import CounterfoilError, HeaderInvalid, UnknownFormat

CTX: Final = "counterfoil/event/v1"
ACTOR_TYPES: Final = ("agent", "user", "human", "worker", "service", "system")
WRITER_MEMBERS: Final = frozenset({"stream_sequence", "recorded_at", "previous_event_hash"})

_PERSONS: Final = frozenset({"user", "human"})
_ACTOR_TYPES: Final = frozenset(ACTOR_TYPES)
_CLASSES: Final = frozenset(CLASSES)
_MEMO_MAX: Final = 4096
_EVENT_ID: Final = ID_FORMS["evt"]
_SHAPES_KEPT_MAX: Final = 1024

Check = Callable[[Any], bool]
T = TypeVar("T")


def _remembered(form: Callable[[str], object]) -> Check:
    """A check of text that remembers what it saw before: most members name the same few streams, runs and types."""
    seen: set[str] = set()

    def check(value: Any) -> bool:
        if type(value) is not str:
            return False
        if value in seen:
            return True
        if not form(value):
            return False
        if len(seen) >= _MEMO_MAX:
            seen.clear()
        seen.add(value)
        return True

    return check


def is_actor(value: Any) -> bool:
    """``{type, id, identity_version?}``; a person is named by the id of their data key and by nothing else."""
    if type(value) is not dict or not 2 <= len(value) <= 3:
        return False
    kind, name, version = value.get("type"), value.get("id"), value.get("identity_version")
    if type(kind) is not str or type(name) is not str:
        return False
    if kind not in _ACTOR_TYPES or not (is_id(name, "dk") if kind in _PERSONS else is_label(name)):
        return False
    return len(value) == 2 if version is None else is_label(version)


def _actor_form() -> Check:
    seen: set[tuple[Any, ...]] = set()

    def check(value: Any) -> bool:
        if type(value) is not dict:
            return False
        key = (*value, *value.values())
        try:
            if key in seen:
                # A subclass of text may equal what was seen; only plain text has one way to be written.
                return set(map(type, key)) == {str}
        except TypeError:
            return False
        if not is_actor(value):
            return False
        if len(seen) >= _MEMO_MAX:
            seen.clear()
        seen.add(key)
        return True

    return check


def _is_positive(value: Any) -> bool:
    return type(value) is int and value >= 1 and is_integer(value)


def _is_sequence(value: Any) -> bool:
    return type(value) is int and 1 <= value <= SEQUENCE_MAX


def is_part(value: Any) -> bool:
    """One entry of ``content``: ``{commitment, sha256, key?, class?}``."""
    if (
        type(value) is not dict
        or not is_digest(value.get("commitment"))
        or not is_digest(value.get("sha256"))
    ):
        return False
    if len(value) == 2:
        return True
    known = 2
    if "key" in value:
        known += 1
        if not is_id(value["key"], "dk"):
            return False
    if "class" in value:
        known += 1
        if value["class"] not in CLASSES:
            return False
    return len(value) == known


def _is_content(value: Any) -> bool:
    return type(value) is list and 1 <= len(value) <= PARTS_MAX and all(map(is_part, value))


def is_artifact_ref(value: Any) -> bool:
    """One entry of ``artifact_refs``: ``{kind, class, sha256, address?, key?}``; public bytes have no address."""
    if type(value) is not dict or not {"kind", "class", "sha256"} <= value.keys() <= _ARTIFACT_MEMBERS:
        return False
    if not is_label(value["kind"]) or value["class"] not in CLASSES or not is_digest(value["sha256"]):
        return False
    if value["class"] == "public":
        return len(value) == 3
    return is_digest(value.get("address", "0" * 64)) and is_id(value.get("key", "dk_" + "0" * 26), "dk")


_ARTIFACT_MEMBERS: Final = frozenset({"kind", "class", "sha256", "address", "key"})


def _is_artifact_refs(value: Any) -> bool:
    return type(value) is list and 1 <= len(value) <= ARTIFACT_REFS_MAX and all(map(is_artifact_ref, value))


def _is_data(value: Any) -> bool:
    return type(value) is dict and is_flat(value)


# Each member: its check, its form in words, whether it must be there.
MEMBERS: Final[dict[str, tuple[Check, str, bool]]] = {
    "actor": (_actor_form(), "{type, id, identity_version?}, with a dk id for user and human", True),
    "artifact_refs": (_is_artifact_refs, "1 to 64 of {kind, class, sha256, address?, key?}", False),
    "attempt": (_is_positive, "an integer from 1 on", False),
    "causation_event_id": (_remembered(ID_FORMS["evt"]), "an id evt_…", False),
    "causation_stream_id": (_remembered(ID_FORMS["str"]), "an id str_…", False),
    "content": (_is_content, "1 to 8 of {commitment, sha256, key?, class?}", False),
    "correlation_id": (is_id, "an id minted by Counterfoil", False),
    "ctx": (lambda value: value == CTX, CTX, True),
    "data": (_is_data, "flat: strings, integers, booleans, lists of at most 64 strings or integers", True),
    "event_id": (lambda value: type(value) is str and _EVENT_ID(value) is not None, "an id evt_…", True),
    "event_schema_version": (_is_positive, "an integer from 1 on", True),
    "event_type": (_remembered(is_event_type), "2 to 5 dotted lower-case words", True),
    "ignorable": (lambda value: value is True, "true, or left out", False),
    "occurred_at": (is_time, "a time YYYY-MM-DDTHH:MM:SS.mmmZ", True),
    "previous_event_hash": (is_digest, "64 hex", True),
    "recorded_at": (is_time, "a time YYYY-MM-DDTHH:MM:SS.mmmZ", True),
    "run_id": (_remembered(ID_FORMS["run"]), "an id run_…", False),
    "step_id": (_remembered(ID_FORMS["stp"]), "an id stp_…", False),
    "stream_id": (_remembered(ID_FORMS["str"]), "an id str_…", True),
    "stream_sequence": (_is_sequence, "an integer from 1 to 2^28", True),
    "trace_id": (is_tag, "32 hex", False),
}
_REQUIRED: Final = frozenset(name for name, (_, _, required) in MEMBERS.items() if required)
_shapes: dict[tuple[str, ...], tuple[Check, ...]] = {}


class ContentRef(Struct, frozen=True, gc=False, rename={"klass": "class"}):
    """One content part as the header lists it; ``key`` None means the stream key, ``klass`` None the type's default."""

    commitment: str
    sha256: str
    key: str | None = None
    klass: str | None = None


def parse_event_header(data: bytes) -> dict[str, Any]:
    """The members of a header, checked for form; quicker than :func:`read_header` where no view is needed.

    Raises HeaderInvalid with ``member`` or ``offset``, or UnknownFormat when ``ctx`` names another version.
    """
    try:
        raw: dict[str, Any] = orjson.loads(data)
        if shape.vouches(data, raw):
            return raw
        same = orjson.dumps(raw, option=orjson.OPT_SORT_KEYS) == data
    except (ValueError, TypeError, RecursionError):
        raise _not_a_header(data) from None
    if not same or type(raw) is not dict or not fits_header(data) or len(data) > HEADER_BYTES_MAX:
        raise _not_a_header(data)
    name = _faulty_member(raw)
    if name is not None:
        raise _member_refused(name, raw)
    return raw


def peek_header(data: bytes) -> dict[str, Any]:
    """The members of a stored header, trusted in their form: for folds over many events, which verify has checked.

    Raises HeaderInvalid if the bytes are no JSON object at all.
    """
    try:
        raw: dict[str, Any] = orjson.loads(data)
    except ValueError:
        raise _not_a_header(data) from None
    if type(raw) is not dict:
        raise _not_a_header(data)
    return raw


def _faulty_member(raw: dict[str, Any]) -> str | None:
    names = tuple(raw)
    checks = _shapes.get(names)
    if checks is None:
        for name in names:
            if name not in MEMBERS:
                return name
        for name in sorted(_REQUIRED):
            if name not in raw:
                return name
        if "causation_stream_id" in raw and "causation_event_id" not in raw:
            return "causation_stream_id"
        checks = tuple(MEMBERS[name][0] for name in names)
        if len(_shapes) < _SHAPES_KEPT_MAX:
            _shapes[names] = checks
    if not all(map(holds, checks, raw.values())):
        return next(name for name in names if not MEMBERS[name][0](raw[name]))
    return "causation_stream_id" if raw.get("causation_stream_id") == raw["stream_id"] else None


def _not_a_header(data: bytes) -> CounterfoilError:
    if len(data) > HEADER_BYTES_MAX:
        return HeaderInvalid(f"an event header of {len(data)} bytes; at most {HEADER_BYTES_MAX} are allowed")
    reason = not_canonical(data)
    fields = dict(reason.fields)
    if "path" in fields:
        fields["member"] = fields["path"].removeprefix("$.").partition(".")[0].partition("[")[0]
    return HeaderInvalid(f"event header: {reason.message}", **fields)


def _member_refused(name: str, raw: dict[str, Any]) -> CounterfoilError:
    ctx = raw.get("ctx")
    if ctx != CTX and type(ctx) is str:
        return UnknownFormat("the event header is of a version this build does not know", ctx=shown_ctx(ctx))
    if name not in MEMBERS:
        shown = name if name.isidentifier() and len(name) <= 64 else "of an odd name"
        return HeaderInvalid(f"event header: a member {shown} that its version does not know", member=shown)
    if name not in raw:
        return HeaderInvalid(f"event header: the member {name} is missing", member=name)
    if name == "causation_stream_id" and MEMBERS[name][0](raw[name]):
        return HeaderInvalid(
            "event header: causation_stream_id stands only beside causation_event_id, and only for another stream",
            member=name,
        )
    return HeaderInvalid(f"event header: {name} must be {MEMBERS[name][1]}", member=name)


class _Member(Generic[T]):
    """A member of the header read as an attribute."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, header: Header, _owner: type[Header]) -> T:
        value: T = header.raw[self._name]
        return value


class _Optional(Generic[T]):
    """A member that may be left out; None then."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, header: Header, _owner: type[Header]) -> T | None:
        value: T | None = header.raw.get(self._name)
        return value


class Header:
    """A header as attributes, absent members None; ``raw`` holds the members as parsed, ``content`` the parts.

    Times and hashes are text as they stand in the header.
    """

    __slots__ = ("_content", "raw")

    stream_id: _Member[str] = _Member("stream_id")
    stream_sequence: _Member[int] = _Member("stream_sequence")
    event_id: _Member[str] = _Member("event_id")
    event_type: _Member[str] = _Member("event_type")
    event_schema_version: _Member[int] = _Member("event_schema_version")
    occurred_at: _Member[str] = _Member("occurred_at")
    recorded_at: _Member[str] = _Member("recorded_at")
    previous_event_hash: _Member[str] = _Member("previous_event_hash")
    actor: _Member[dict[str, str]] = _Member("actor")
    data: _Member[dict[str, Any]] = _Member("data")
    run_id: _Optional[str] = _Optional("run_id")
    step_id: _Optional[str] = _Optional("step_id")
    attempt: _Optional[int] = _Optional("attempt")
    causation_event_id: _Optional[str] = _Optional("causation_event_id")
    causation_stream_id: _Optional[str] = _Optional("causation_stream_id")
    correlation_id: _Optional[str] = _Optional("correlation_id")
    trace_id: _Optional[str] = _Optional("trace_id")

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw: dict[str, Any] = raw
        self._content: tuple[ContentRef, ...] | None = None

    def __repr__(self) -> str:
        return f"<Header {self.event_type} {self.event_id} at {self.stream_sequence}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Header) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw["event_id"])

    @property
    def ignorable(self) -> bool:
        """Whether a reader that does not know the type may pass over the event."""
        return "ignorable" in self.raw

    @property
    def artifact_refs(self) -> list[dict[str, str]]:
        """The artifact references, empty if there are none."""
        refs: list[dict[str, str]] = self.raw.get("artifact_refs", [])
        return refs

    @property
    def content(self) -> tuple[ContentRef, ...]:
        """The content parts in order, empty if the event has none."""
        if self._content is None:
            self._content = tuple(content_ref(part) for part in self.raw.get("content", ()))
        return self._content


def content_ref(part: dict[str, str]) -> ContentRef:
    """One entry of a parsed header's ``content``."""
    return ContentRef(part["commitment"], part["sha256"], part.get("key"), part.get("class"))


def read_header(data: bytes) -> Header:
    """The header as a view, read strictly. Raises HeaderInvalid or UnknownFormat."""
    return Header(parse_event_header(data))


class Skimmed(Struct, frozen=True, gc=False):
    """What a run asks of thousands of its own headers when it is resumed. Of the other members only their being there."""

    ctx: str
    stream_id: Raw
    stream_sequence: Raw
    event_id: str
    event_type: str
    event_schema_version: int
    occurred_at: Raw
    recorded_at: Raw
    previous_event_hash: Raw
    actor: Raw
    data: dict[str, Any]
    content: tuple[ContentRef, ...] = ()
    artifact_refs: tuple[dict[str, str], ...] = ()


_skim: Final = Decoder(Skimmed).decode


def skim_header(data: bytes) -> Skimmed:
    """Some members of a header, in a quarter of the time that all take: the version is looked at, and that each is there.

    What fails in that is read strictly, and refused by name.
    """
    try:
        skimmed = _skim(data)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        skimmed = None
    if skimmed is None or skimmed.ctx != CTX:
        read_header(data)
        raise HeaderInvalid("event header: a member has not the form that its name asks for")
    return skimmed


def same_event(one: Header | bytes, other: Header | bytes) -> list[str]:
    """The members in which two headers differ as events, in order; empty: the same event (FORMAT 5).

    The writer's members and the digests of the records as packed do not count.
    """
    left = _comparable(one)
    right = _comparable(other)
    if left == right:
        return []
    return sorted(name for name in {*left, *right} if left.get(name) != right.get(name))


def _comparable(header: Header | bytes) -> dict[str, Any]:
    raw = header.raw if isinstance(header, Header) else parse_event_header(header)
    members = {name: value for name, value in raw.items() if name not in WRITER_MEMBERS and name != "data"}
    if "content" in members:
        members["content"] = [{**part, "sha256": ""} for part in raw["content"]]
    for name, value in raw["data"].items():
        members[f"data.{name}"] = value
    return members
