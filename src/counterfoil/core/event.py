"""An event on its way in and out: draft, preparation, the three slots the writer fills, hash and reading (FORMAT 5)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson
from msgspec import Struct, field

from counterfoil.core.canonical import JSON, encode, fits_header
from counterfoil.core.catalogue import CLASSES, DEFAULT_CLASS, Registry
from counterfoil.core.fields import holds
from counterfoil.core.genesis import LEAF, Genesis
from counterfoil.core.header import (
    CTX,
    MEMBERS,
    ContentRef,
    Header,
    parse_event_header,
    read_header,
    same_event,
)
from counterfoil.core.keyed import KeyMaterial
from counterfoil.core.limits import (
    BYTES_INLINE_MAX,
    HEADER_BYTES_MAX,
    PARTS_BYTES_MAX,
    PARTS_MAX,
    SEQUENCE_MAX,
    SPILL_BYTES,
)
from counterfoil.core.records import Pack, Sealed, seal_in_context
from counterfoil.core.references import MARK, check_references
from counterfoil.errors import ContentTooLarge, HeaderTooLarge, InternalError, InvalidForm, InvalidId

__all__ = [
    "ContentRef",
    "Draft",
    "Header",
    "Part",
    "Prepared",
    "SpillDue",
    "event_hash",
    "parse_event_header",
    "prepare",
    "read_header",
    "same_event",
    "splice",
]

_RECORDED_AT: Final = b'","recorded_at":"'
_WRITER_BYTES: Final = 64 + len(_RECORDED_AT) + 24 + len(str(SEQUENCE_MAX))
_OPTIONS: Final = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS

_sha256 = hashlib.sha256

_LONG_BYTES: Final = b'{"$bytes":"'
_HANDLE: Final = b'{"$type":"artifact"'


_PACKED_SMALL: Final = "provider."
"""Beginning of the types whose content is packed from small sizes on."""


class SpillDue(Exception):
    """A draft holds what may have to move to artifacts, or names artifacts (FORMAT 10); nothing was made of it."""


class Part(Struct):
    """One content part for one data key: a JSON object (``values.to_json`` made it), its key and its class.

    ``key`` None is the stream key; ``klass`` None is the type's default class.
    """

    value: Mapping[str, JSON]
    key: KeyMaterial | None = None
    klass: str | None = None


class Draft(Struct):
    """An event as a caller describes it; :func:`prepare` checks it.

    ``occurred_at`` is a time of FORMAT 1, ``data`` the public fields, ``parts`` the content. ``hint`` is no part of the
    event: what its maker has worked out for the rows that follow from it, and they would work out again.
    """

    event_id: str
    event_type: str
    occurred_at: str
    actor: Mapping[str, str]
    data: Mapping[str, JSON] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    event_schema_version: int = 1
    run_id: str | None = None
    step_id: str | None = None
    attempt: int | None = None
    causation_event_id: str | None = None
    causation_stream_id: str | None = None
    correlation_id: str | None = None
    trace_id: str | None = None
    ignorable: bool = False
    artifact_refs: tuple[Mapping[str, str], ...] = ()
    hint: object = None


class Prepared(Struct):
    """An event ready for the writer: the header around three slots, and the sealed records.

    Preparing the same draft again gives the same bytes; no lock and no random number is needed (FORMAT, rule 4).
    """

    stream_id: str
    event_id: str
    event_type: str
    run_id: str | None
    head: bytes
    middle: bytes
    tail: bytes
    records: tuple[bytes, ...]
    draft: Draft


def prepare(
    genesis: Genesis,
    material: KeyMaterial | None,
    draft: Draft,
    registry: Registry,
    *,
    pack: Pack = "auto",
    spill: bool = False,
) -> Prepared:
    """Check, encode and seal an event; everything FORMAT 5 to 7 refuses is refused here, before anything is written.

    ``material`` is the stream key's; None where that is missing, which does for an event without content. Raises an InputError that names the member, field or path; with ``spill``, SpillDue
    instead where a part has to be looked through for artifacts first.
    """
    if material is not None and (material.key_id != genesis.key or material.stream_id != genesis.stream_id):
        raise InternalError(f"the key material given is not the stream key of {genesis.stream_id}")
    members = _caller_members(draft)
    _check_members(members, genesis)
    members["data"] = data = _plain("data", draft.data)
    spec = registry.check(draft.event_type, draft.event_schema_version, data, draft.ignorable)
    records: tuple[bytes, ...] = ()
    if draft.parts:
        if material is None:
            raise InternalError(f"content for {genesis.stream_id} without its stream key")
        default_class = spec.default_class if spec is not None else DEFAULT_CLASS
        members["content"], records = _seal_parts(genesis, material, draft, default_class, pack, spill=spill)
    head = orjson.dumps(members, option=_OPTIONS)
    if not fits_header(head):
        raise InternalError("a header passed its checks with a character that no header holds")
    run_id, step_id, trace_id = draft.run_id, draft.step_id, draft.trace_id
    run = f',"run_id":"{run_id}"' if run_id is not None else ""
    step = f',"step_id":"{step_id}"' if step_id is not None else ""
    middle = f'"{run}{step},"stream_id":"{genesis.stream_id}","stream_sequence":'.encode()
    tail = f',"trace_id":"{trace_id}"}}'.encode() if trace_id is not None else b"}"
    head = head[:-1] + b',"previous_event_hash":"'
    size = len(head) + len(middle) + len(tail) + _WRITER_BYTES
    if size > HEADER_BYTES_MAX:
        raise HeaderTooLarge(
            f"the header of this {draft.event_type} takes {size} bytes; at most {HEADER_BYTES_MAX} are allowed",
            hint="shorten lists in data, or split the event",
            bytes=size,
        )
    return Prepared(
        genesis.stream_id, draft.event_id, draft.event_type, run_id, head, middle, tail, records, draft
    )


def _caller_members(draft: Draft) -> dict[str, Any]:
    """The members that stand before the writer's, apart from data and content."""
    members: dict[str, Any] = {"actor": _plain("actor", draft.actor)}
    if draft.artifact_refs:
        members["artifact_refs"] = [_plain("artifact_refs", reference) for reference in draft.artifact_refs]
    if draft.attempt is not None:
        members["attempt"] = draft.attempt
    if draft.causation_event_id is not None:
        members["causation_event_id"] = draft.causation_event_id
    if draft.causation_stream_id is not None:
        members["causation_stream_id"] = draft.causation_stream_id
    if draft.correlation_id is not None:
        members["correlation_id"] = draft.correlation_id
    members["ctx"] = CTX
    members["event_id"] = draft.event_id
    members["event_schema_version"] = draft.event_schema_version
    members["event_type"] = draft.event_type
    if draft.ignorable:
        members["ignorable"] = True
    members["occurred_at"] = draft.occurred_at
    # Written after the writer's members, checked here with the others.
    if draft.run_id is not None:
        members["run_id"] = draft.run_id
    if draft.step_id is not None:
        members["step_id"] = draft.step_id
    if draft.trace_id is not None:
        members["trace_id"] = draft.trace_id
    return members


def _plain(name: str, value: Any) -> dict[str, Any]:
    """The mapping as the exact type that the encoder takes."""
    if type(value) is dict:
        return value
    if not isinstance(value, Mapping):
        raise InvalidForm(f"{name} is made of mappings, not of {type(value).__name__}", member=name)
    return dict(value)


_checks: Final[dict[tuple[str, ...], tuple[Callable[[Any], bool], ...]]] = {}
"""The checks of members that stand together, in their order; of the few that :func:`_caller_members` makes."""


def _check_members(members: dict[str, Any], genesis: Genesis) -> None:
    names = tuple(members)
    checks = _checks.get(names)
    if checks is None:
        checks = _checks[names] = tuple([MEMBERS[name][0] for name in names])
    if not all(map(holds, checks, members.values())):
        raise _refused(next(name for name, value in members.items() if not MEMBERS[name][0](value)))
    cause_stream = members.get("causation_stream_id")
    if cause_stream is not None and (
        "causation_event_id" not in members or cause_stream == genesis.stream_id
    ):
        raise InvalidForm(
            "causation_stream_id is given only beside causation_event_id, and only for another stream",
            member="causation_stream_id",
        )
    for name in ("run_id", "step_id", "trace_id"):
        members.pop(name, None)


def _refused(name: str) -> InvalidForm | InvalidId:
    form = MEMBERS[name][1]
    if name.endswith("_id") and name != "trace_id":
        return InvalidId(
            f"{name} must be {form}", hint="ids from outside are content (FORMAT 1)", member=name
        )
    return InvalidForm(f"{name} must be {form}", member=name)


def _seal_parts(
    genesis: Genesis, material: KeyMaterial, draft: Draft, default_class: str, pack: Pack, *, spill: bool
) -> tuple[list[dict[str, str]], tuple[bytes, ...]]:
    if len(draft.parts) > PARTS_MAX:
        raise ContentTooLarge(
            f"{len(draft.parts)} content parts; an event has at most {PARTS_MAX}",
            hint="record several events",
        )
    references: list[dict[str, str]] = []
    records: list[bytes] = []
    total = 0
    for number, part in enumerate(draft.parts):
        content = _encode_part(part, number)
        if MARK in content:
            check_references(part.value, number, len(draft.parts))
        size = len(content)
        # Looked at here, where the bytes are made anyway: an event without artifacts pays for no call.
        if spill and (
            _HANDLE in content or (size > BYTES_INLINE_MAX and (size > SPILL_BYTES or _LONG_BYTES in content))
        ):
            raise SpillDue
        total += size
        if total > PARTS_BYTES_MAX:
            raise ContentTooLarge(
                f"content parts 0 to {number} take {total} bytes; an event holds at most {PARTS_BYTES_MAX}",
                hint="keep it as an artifact (run.artifact) and record that, or split it over several events",
                bytes=total,
            )
        key = part.key or material
        if key.stream_id != genesis.stream_id:
            raise InvalidForm(f"content part {number} has the key of another stream", part=number)
        context = key.content_context(draft.event_id, number)
        if pack == "auto" and draft.event_type.startswith(_PACKED_SMALL):
            pack = "small"
        sealed = seal_in_context(key, context, content, genesis.content, pack)
        references.append(_reference(sealed, part, number, key.key_id, genesis.key, default_class))
        records.append(sealed.record)
    return references, tuple(records)


def _encode_part(part: Part, number: int) -> bytes:
    value = part.value
    if type(value) is not dict:
        if not isinstance(value, Mapping):
            raise InvalidForm(
                f"content part {number} is a JSON object, not {type(value).__name__}", part=number
            )
        value = dict(value)
    return encode(value)


def _reference(
    sealed: Sealed, part: Part, number: int, key_id: str, stream_key: str, default_class: str
) -> dict[str, str]:
    reference = {"commitment": sealed.commitment, "sha256": sealed.sha256}
    if part.klass is not None and part.klass != default_class:
        if part.klass not in CLASSES:
            raise InvalidForm(
                f"the class of content part {number} is one of {', '.join(CLASSES)}", part=number
            )
        reference["class"] = part.klass
    if key_id != stream_key:
        reference["key"] = key_id
    return reference


def splice(prepared: Prepared, sequence: int, recorded_at_text: str, previous_hash_hex: str) -> bytes:
    """The header: the writer's three members put into their slots. The caller vouches for their form."""
    return b"%b%b%b%b%b%d%b" % (
        prepared.head,
        previous_hash_hex.encode(),
        _RECORDED_AT,
        recorded_at_text.encode(),
        prepared.middle,
        sequence,
        prepared.tail,
    )


def event_hash(header: bytes) -> bytes:
    """``SHA-256(0x00 || header)``: chain link, and leaf of the stream's tree."""
    return _sha256(LEAF + header).digest()
