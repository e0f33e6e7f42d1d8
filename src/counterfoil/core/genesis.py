"""Genesis: the stored text that opens a stream and binds ledger, tenant, key and suite (FORMAT 4)."""

from __future__ import annotations

import hashlib
from typing import Any, Final, Literal

from msgspec import Struct

from counterfoil.core.canonical import encode_header, parse_header
from counterfoil.core.forms import is_digest, is_label
from counterfoil.core.ids import is_id
from counterfoil.core.limits import HEADER_BYTES_MAX, SEQUENCE_MAX
from counterfoil.errors import CounterfoilError, GenesisInvalid, UnknownFormat

CTX: Final = "counterfoil/genesis/v1"
SUITE: Final = "CF1"
LEAF: Final = b"\x00"
"""Put before genesis and header when they are hashed: the RFC 6962 prefix of a leaf."""

ContentMode = Literal["sealed", "clear"]
Continues = tuple[str, int, str]

_REQUIRED: Final = frozenset({"ctx", "ledger", "tenant", "stream_id", "kind", "key", "content", "suite"})
_KIND_PREFIX: Final = "system/"


class Genesis(Struct, frozen=True):
    """A stream's genesis: the exact stored text, its hash (the head of the empty stream) and its members.

    ``content`` says whether records are encrypted (``sealed``) or not (``clear``); ``continues`` names the stream
    that this one goes on from, as (stream id, sequence, hash in hex).
    """

    text: bytes
    hash: bytes
    ledger: str
    tenant: str
    stream_id: str
    kind: str
    key: str
    content: ContentMode
    continues: Continues | None = None


def genesis_hash(text: bytes) -> bytes:
    """``SHA-256(0x00 || genesis)``: the previous hash of sequence 1."""
    return hashlib.sha256(LEAF + text).digest()


def make_genesis(
    *,
    ledger: str,
    tenant: str,
    stream_id: str,
    kind: str,
    key: str,
    content: ContentMode = "sealed",
    continues: Continues | None = None,
) -> Genesis:
    """Make the genesis of a new stream. Raises GenesisInvalid naming the member that has the wrong form."""
    members: dict[str, Any] = {
        "ctx": CTX,
        "ledger": ledger,
        "tenant": tenant,
        "stream_id": stream_id,
        "kind": kind,
        "key": key,
        "content": content,
        "suite": SUITE,
    }
    if continues is not None:
        members["continues"] = list(continues)
    _check_members(members)
    return _genesis(encode_header(members), members)


def parse_genesis(text: bytes) -> Genesis:
    """Read a stored genesis text strictly. Raises GenesisInvalid, or UnknownFormat for another version or suite."""
    if len(text) > HEADER_BYTES_MAX:
        raise GenesisInvalid(f"a genesis text of {len(text)} bytes; at most {HEADER_BYTES_MAX} are allowed")
    try:
        members = parse_header(text)
    except CounterfoilError as refused:
        raise GenesisInvalid(f"genesis: {refused.message}", **refused.fields) from None
    if members.get("ctx") != CTX:
        raise UnknownFormat(
            "the genesis is of a version this build does not know", ctx=shown_ctx(members.get("ctx"))
        )
    if members.get("suite") != SUITE:
        raise UnknownFormat("the genesis names a suite this build does not know")
    _check_members(members)
    return _genesis(text, members)


def shown_ctx(ctx: object) -> str:
    """A ``ctx`` as an error may show it: only one that reads like ours."""
    return ctx if isinstance(ctx, str) and ctx.startswith("counterfoil/") and is_label(ctx) else "?"


def _genesis(text: bytes, members: dict[str, Any]) -> Genesis:
    continues = members.get("continues")
    return Genesis(
        text=text,
        hash=genesis_hash(text),
        ledger=members["ledger"],
        tenant=members["tenant"],
        stream_id=members["stream_id"],
        kind=members["kind"],
        key=members["key"],
        content=members["content"],
        continues=None if continues is None else (continues[0], continues[1], continues[2]),
    )


def _check_members(members: dict[str, Any]) -> None:
    names = set(members)
    if missing := _REQUIRED - names:
        raise GenesisInvalid(f"the genesis lacks {', '.join(sorted(missing))}")
    if extra := names - _REQUIRED - {"continues"}:
        raise GenesisInvalid(f"the genesis holds {len(extra)} members that its version does not know")
    forms = (
        ("ledger", is_id(members["ledger"], "ldg"), "an id ldg_…"),
        ("tenant", is_label(members["tenant"]), "a label"),
        ("stream_id", is_id(members["stream_id"], "str"), "an id str_…"),
        ("kind", _is_kind(members["kind"]), "conversation or system/<name>"),
        ("key", is_id(members["key"], "dk"), "an id dk_…"),
        ("content", members["content"] in ("sealed", "clear"), "sealed or clear"),
        (
            "continues",
            "continues" not in members or _is_continues(members["continues"]),
            "[stream id, sequence, hash]",
        ),
    )
    for name, fits, form in forms:
        if not fits:
            raise GenesisInvalid(f"genesis member {name} must be {form}", member=name)


def _is_kind(kind: object) -> bool:
    if kind == "conversation":
        return True
    return (
        isinstance(kind, str)
        and is_label(kind)
        and kind.startswith(_KIND_PREFIX)
        and len(kind) > len(_KIND_PREFIX)
    )


def _is_continues(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 3
        and is_id(value[0], "str")
        and type(value[1]) is int
        and 0 <= value[1] <= SEQUENCE_MAX
        and is_digest(value[2])
    )
