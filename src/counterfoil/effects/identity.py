"""Which effect a call is: business keys, keys made of the run, and the digests that arguments are compared by."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct

from counterfoil.core import canonical
from counterfoil.core.keyed import KeyMaterial
from counterfoil.core.values import comparable, comparable_text, to_json
from counterfoil.store.rows import Index

Occurrence = tuple[str, int]
"""Path of memoised steps and number in program order, for tools whose every call is an effect of its own."""


class Identity(Struct, frozen=True):
    """The two index values of a call. They stand only in rows, never in a header (FORMAT 3 and 8)."""

    key_index: str
    arguments_index: str


def business_identity(index: Index, key: str, arguments: Mapping[str, Any]) -> Identity:
    """One effect per tenant, however often and from whichever run it is called."""
    text = comparable_text(arguments)
    return Identity(index("effect", key), index("arguments", text.decode("utf-8")))


def content_key(tool: str, arguments: Mapping[str, Any]) -> str:
    """A business key made of all arguments: one effect per tenant and content, however often and wherever called.

    A plain digest, so it stands only where the arguments do, and at the provider who gets both (FORMAT 8).
    """
    text = comparable_text(to_json(dict(arguments), "arguments"))
    return f"{tool}:{hashlib.sha256(text).hexdigest()}"


def run_identity(
    index: Index,
    run_id: str,
    tool: str,
    arguments: Mapping[str, Any],
    occurrence: Occurrence | None = None,
    only: Collection[str] | None = None,
) -> Identity:
    """One effect per run, tool and arguments, or those of them in ``only``; with ``occurrence`` one for each call.

    The tool's version is no part of it: a new version does not make a new effect of the same call.
    """
    plain = comparable(arguments)
    named: list[Any] = [run_id, tool, plain]
    if only is not None:
        named = [run_id, tool, {name: plain[name] for name in only if name in plain}, sorted(only)]
    if occurrence is not None:
        named += [occurrence[0], occurrence[1]]
    return Identity(index("effect-auto", _text(named)), index("arguments", _text(plain)))


def successor_index(index: Index, effect_id: str) -> str:
    """Where the effect stands that takes a business key over from ``effect_id``, which was confirmed not done.

    Each effect has a key row of its own, so rows of one stream never depend on those of another.
    """
    return index("effect-after", effect_id)


def recorded_identity(
    index: Index, effect_id: str, run_id: str, tool: str, content: Mapping[str, Any]
) -> Identity:
    """The identity of a recorded ``effect.intended``, made again from its content."""
    # Where a policy allowed other arguments, the call is known by those that were asked for.
    arguments = content.get("proposed", content["arguments"])
    key = content["idempotency_key"]
    if key != effect_id:
        return business_identity(index, key, arguments)
    occurrence = content.get("occurrence")
    return run_identity(
        index,
        run_id,
        tool,
        arguments,
        None if occurrence is None else (occurrence["path"], occurrence["number"]),
        content.get("identity"),
    )


def binding(
    material: KeyMaterial,
    effect_id: str,
    tool: str,
    tool_version: str,
    arguments: Mapping[str, Any],
    artifacts: Sequence[str] = (),
) -> str:
    """The digest that approval and intention share (FORMAT 8): effect, tool, version, arguments, artifacts."""
    text = canonical.encode(
        {"arguments": arguments, "artifacts": sorted(artifacts), "tool": tool, "tool_version": tool_version}
    )
    return material.digest("binding", [effect_id], text)


def _text(value: Any) -> str:
    # Canonical bytes are UTF-8, with half surrogates written as escapes, so this cannot fail.
    return canonical.encode(value).decode("utf-8")
