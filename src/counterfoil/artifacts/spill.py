"""Values that move out of an event by themselves: what is large, and bytes; and how they are put back (FORMAT 10).

Nothing here reads or writes. The objects are a pure function of key and bytes, so preparing an event again, on another
thread or after a crash, makes the same objects, the same references and the same events.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.artifacts import events
from counterfoil.artifacts.events import Authority
from counterfoil.artifacts.handle import REGISTERED, handle_of
from counterfoil.core.artifact import PERSONAL_CLASSES, Reference, seal_artifact
from counterfoil.core.canonical import JSON, decode, encode
from counterfoil.core.catalogue import EVENT_TYPES
from counterfoil.core.context import TEXT_FORM
from counterfoil.core.event import Draft, Part
from counterfoil.core.ids import derived_id
from counterfoil.core.keyed import KeyMaterial
from counterfoil.core.limits import BYTES_INLINE_MAX, SPILL_BYTES
from counterfoil.core.values import decode_base64
from counterfoil.errors import ArtifactDamaged, NotDecodable
from counterfoil.store.rows import ROW_INDEX

KIND: Final = "spill"
"""The kind of references to spilled values."""

TAG: Final = "$spilled"
BYTES_FORM: Final = "bytes"
JSON_FORM: Final = "json"

OBJECTS_MAX: Final = 24
"""Objects that one event spills; where it holds more long bytes, whole members move out instead. Bounds the header."""

HANDLES_MAX: Final = 32
"""Artifacts named in content that one header lists; each has an event of its own anyway. Bounds the header too."""

CLASS: Final = "confidential"
"""The class of what spills out of a part that is not of a narrower one: it lies under the part's own key anyway."""

MEMBERS: Final[Mapping[str, frozenset[str]]] = {
    "admission.accepted": frozenset({"message"}),
    "admission.rejected": frozenset({"message"}),
    "run.started": frozenset({"configuration", "input"}),
    "step.started": frozenset({"input"}),
    "step.finished": frozenset({"result"}),
    "decision.proposed": frozenset({"arguments", "evidence"}),
    "policy.evaluated": frozenset({"allowed", "evidence", "snapshot"}),
    "approval.requested": frozenset({"arguments"}),
    "approval.mismatched": frozenset({"arguments"}),
    "effect.intended": frozenset({"arguments", "proposed"}),
    "effect.observed": frozenset({"result"}),
    "effect.late_observed": frozenset({"result"}),
    "effect.looked_up": frozenset({"answer"}),
    "provider.requested": frozenset({"segments"}),
    "provider.responded": frozenset({"body", "chunks"}),
    "provider.failed": frozenset({"partial"}),
    "run.finished": frozenset({"output"}),
    "state.set": frozenset({"value"}),
    "checkpoint.created": frozenset({"state"}),
}
"""What may spill. What rows need of it stays in the event (``Feature.stands_in``). Of an application's type all may."""


TEXTS: Final[Mapping[str, str]] = {"provider.message_recorded": "bodies"}
"""Members whose long texts move one by one, each as an object of its own bytes: its address is the body's (FORMAT 9)."""


class Moved(NamedTuple):
    """A value that moved out: its object, its reference, how it is to be read back."""

    data: bytes
    reference: Reference
    form: str
    size: int


class Outcome(Struct):
    """A draft made ready: what stands before it, itself, and the objects to store first."""

    drafts: list[Draft]
    objects: list[bytes]


def spill(
    draft: Draft,
    material: KeyMaterial,
    *,
    usable: bool,
    authority: Callable[[], Authority] = Authority,
    stands_in: Callable[[], Mapping[str, JSON]] = dict,
) -> Outcome:
    """Move out of a draft what is too large for an event, and list the artifacts that its content names.

    ``material`` is the stream key's; ``usable`` says whether there is a store for objects at all. ``authority`` is
    asked where something moved, and ``stands_in`` for what stays in the part that it moved out of. A draft that needs
    neither comes back as it is.
    """
    parts: list[Part] = []
    moved: list[tuple[Moved, Part]] = []
    handles: list[Reference] = []
    for part in draft.parts:
        work = _Part(part, part.key or material, OBJECTS_MAX - len(moved))
        value = part.value
        if usable:
            texts = TEXTS.get(draft.event_type)
            value = work.lightened(_members(draft)) if texts is None else work.without_texts(texts)
            if work.moved and (left := stands_in()):
                value = {**value, ROW_INDEX: dict(left)}
        parts.append(part if value is part.value else replace(part, value=value))
        moved += [(one, part) for one in work.moved]
        handles += handles_in(value)
    needed = authority() if moved else Authority()
    before = [
        events.spilled(
            spilled_id(material, draft.event_id, number, one.reference.sha256),
            draft,
            one.reference,
            one.size,
            one.form,
            material.key_id,
            part,
            needed,
        )
        for number, (one, part) in enumerate(moved)
    ]
    named = [one.reference for one, _ in moved] + handles[:HANDLES_MAX]
    known = {member["sha256"]: dict(member) for member in draft.artifact_refs}
    for reference in named:
        known.setdefault(reference.sha256, reference.member(material.key_id))
    itself = replace(draft, parts=tuple(parts), artifact_refs=tuple(known.values())) if known else draft
    return Outcome([*before, itself], [one.data for one, _ in moved])


def _members(draft: Draft) -> Callable[[str], bool]:
    own = MEMBERS.get(draft.event_type)
    if own is not None:
        return own.__contains__
    declared = draft.event_type not in EVENT_TYPES
    return lambda _: declared


def spilled_id(material: KeyMaterial, event_id: str, number: int, sha256: str) -> str:
    """The id of the event that tells of the ``number``-th value that moved out of an event.

    The same each time the draft is made ready: the append of a retry then has the same events.
    """
    place: list[str | int] = ["spill", event_id, number]
    return derived_id("evt", material.keyed("derived-id", place, bytes.fromhex(sha256)))


class _Part:
    """One content part on its way to being lighter."""

    def __init__(self, part: Part, material: KeyMaterial, room: int) -> None:
        self._part = part
        self._material = material
        self._room = room
        self.moved: list[Moved] = []

    def lightened(self, may_move: Callable[[str], bool]) -> Mapping[str, JSON]:
        """The part's value without what moved out: long bytes first, then the largest members."""
        value = self._part.value
        movable = [name for name in value if may_move(name)]
        if not movable:
            return value
        found: dict[str, JSON] = dict(value)
        if 0 < sum(_long_bytes(value[name]) for name in movable) <= self._room:
            for name in movable:
                found[name] = self._without_bytes(value[name])
        sizes = {name: len(encode(found[name])) for name in movable}
        total = len(encode(found))
        for name in sorted(movable, key=lambda name: (-sizes[name], name)):
            if total <= SPILL_BYTES or len(self.moved) >= self._room or sizes[name] <= BYTES_INLINE_MAX:
                break
            text = encode(found[name])
            found[name] = self._move(text, JSON_FORM)
            total -= len(text) - len(encode(found[name]))
        return found if self.moved else value

    def without_texts(self, name: str) -> Mapping[str, JSON]:
        """The part's value without the long texts of this list."""
        value = self._part.value
        listed = value.get(name)
        if type(listed) is not list or len(encode(dict(value))) <= SPILL_BYTES:
            return value
        return {**value, name: [self._without_text(item) for item in listed]}

    def _without_text(self, item: JSON) -> JSON:
        if type(item) is not str or len(self.moved) >= self._room:
            return item
        data = item.encode()
        return self._move(data, TEXT_FORM) if len(data) > BYTES_INLINE_MAX else item

    def _without_bytes(self, value: JSON) -> JSON:
        if _is_long_bytes(value):
            return self._move(decode_base64(value["$bytes"]), BYTES_FORM)
        return _with_each(value, self._without_bytes)

    def _move(self, data: bytes, form: str) -> JSON:
        stored, address = seal_artifact(self._material, data)
        klass = self._part.klass if self._part.klass in PERSONAL_CLASSES else CLASS
        name = hashlib.sha256(stored).hexdigest()
        if name not in {one.reference.sha256 for one in self.moved}:
            reference = Reference(KIND, klass, name, address, self._material.key_id)
            self.moved.append(Moved(stored, reference, form, len(data)))
        return {TAG: {"sha256": name, "form": form, "bytes": len(data)}}


def _is_long_bytes(value: JSON) -> bool:
    if type(value) is not dict or len(value) != 1:
        return False
    text = value.get("$bytes")
    # As long as the bytes behind it: four letters stand for three, less the padding.
    return type(text) is str and len(text) // 4 * 3 - text[-2:].count("=") > BYTES_INLINE_MAX


def _long_bytes(value: JSON) -> int:
    """How many bytes values of more than 4 KiB there are."""
    return 1 if _is_long_bytes(value) else sum(map(_long_bytes, _each(value)))


def _each(value: Any) -> Collection[Any]:
    """The values inside a value. Under ``$literal`` the names of one object mean nothing, so it is stepped over."""
    if type(value) is list:
        return value
    if not isinstance(value, Mapping):
        return ()
    literal = value.get("$literal")
    return literal.values() if len(value) == 1 and type(literal) is dict else value.values()


def _with_each(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value with the values inside it changed; see :func:`_each`."""
    if type(value) is list:
        return [change(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    literal = value.get("$literal")
    if len(value) == 1 and type(literal) is dict:
        return {"$literal": {name: change(item) for name, item in literal.items()}}
    return {name: change(item) for name, item in value.items()}


# ---- handles in content ----------------------------------------------------------------------------------------------


def handles_in(value: Any) -> list[Reference]:
    """References of the artifacts that stand in content by themselves, each once, in order."""
    found: dict[str, Reference] = {}
    for handle in _handles(value):
        found.setdefault(handle.sha256, handle)
    return list(found.values())


def _handles(value: Any) -> Iterator[Reference]:
    if isinstance(value, Mapping) and value.keys() == {"$type", "value"} and value["$type"] == REGISTERED:
        with suppress(NotDecodable):
            yield handle_of(value["value"]).reference
        return
    for item in _each(value):
        yield from _handles(item)


# ---- back ------------------------------------------------------------------------------------------------------------


def restored(value: Any, read: Callable[[str], bytes]) -> Any:
    """Content with every spilled value in its place again; ``read`` gives the plain bytes of an object by its name.

    Raises what ``read`` raises, and ArtifactDamaged for bytes that are not what was moved out.
    """
    inner = value.get(TAG) if isinstance(value, Mapping) and len(value) == 1 else None
    if isinstance(inner, Mapping):
        return _put_back(inner, read)
    return _with_each(value, lambda item: restored(item, read))


def _put_back(inner: Mapping[str, Any], read: Callable[[str], bytes]) -> Any:
    data = read(str(inner.get("sha256")))
    if len(data) != inner.get("bytes"):
        raise ArtifactDamaged("the artifact has not the length that the event names", check="bytes")
    if inner.get("form") == BYTES_FORM:
        return {"$bytes": base64.b64encode(data).decode("ascii")}
    if inner.get("form") == TEXT_FORM:
        return _text(data)
    if inner.get("form") != JSON_FORM:
        raise ArtifactDamaged("the artifact is of a form that this version does not know", check="form")
    # Long bytes move before the member that holds them does.
    return restored(decode(data), read)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ArtifactDamaged("the artifact is no text", check="form") from None


def spilled_references(members: Sequence[Mapping[str, str]]) -> bool:
    """Whether a header's references name a spilled value."""
    return any(member["kind"] == KIND for member in members)
