"""Checkpoints: a state sealed as a record, and judged before it is believed (FORMAT 6, DESIGN 6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from counterfoil.core import canonical
from counterfoil.core.genesis import Genesis
from counterfoil.core.keyed import KeyMaterial
from counterfoil.core.records import open_record, seal
from counterfoil.errors import CounterfoilError
from counterfoil.projections.declare import Projection
from counterfoil.projections.events import Cause
from counterfoil.store.unit import Checkpoint

PURPOSE: Final = "checkpoint"
DIGEST: Final = "checkpoint-state"


class Kept(Struct, frozen=True):
    """A checkpoint that may be used: the canonical bytes of the state as of ``sequence``.

    ``cursor`` is the place in the feed, of a projection over a tenant, and ``events`` how many it was told of so far.
    """

    sequence: int
    state: bytes
    cursor: bytes = b""
    events: int = 0


class Refused(Struct, frozen=True):
    """A checkpoint that is not used, and why; ``detail`` holds no word of its content."""

    version: int
    sequence: int
    cause: Cause
    detail: str


def state_digest(material: KeyMaterial, projection: str, version: int, sequence: int, state: bytes) -> str:
    """The ``state`` field of ``checkpoint.created``: keyed, so that it says nothing and dies with the key."""
    return material.digest(DIGEST, [projection, version, sequence], state)


def sealed(genesis: Genesis, material: KeyMaterial, projection: Projection, kept: Kept) -> Checkpoint:
    """The checkpoint as the store's table keeps it. Raises ContentTooLarge for a state over 4 MiB."""
    state = canonical.decode(kept.state)
    members: dict[str, canonical.JSON] = {"state": state}
    if kept.cursor:
        members |= {"cursor": kept.cursor.hex(), "events": kept.events}
    ids: list[str | int] = [projection.name, projection.version, kept.sequence]
    record = seal(material, PURPOSE, ids, canonical.encode(members), mode=genesis.content)
    return Checkpoint(
        genesis.stream_id,
        projection.name,
        projection.version,
        kept.sequence,
        record.commitment,
        record.record,
    )


def judged(
    genesis: Genesis, material: KeyMaterial, projection: Projection, found: Checkpoint, head: int
) -> Kept | Refused:
    """Whether a stored checkpoint may be used. ``head`` is the sequence that the ledger holds."""
    place = (found.version, found.up_to_sequence)
    if found.up_to_sequence > head:
        return Refused(
            *place, "ahead", f"it claims sequence {found.up_to_sequence}, and the ledger holds {head}"
        )
    ids: list[str | int] = [found.projection, found.version, found.up_to_sequence]
    try:
        content = canonical.decode(
            open_record(material, PURPOSE, ids, found.record, found.commitment, mode=genesis.content)
        )
    except CounterfoilError as error:
        return Refused(*place, "damaged", error.message)
    return _of_form(projection, place, content)


def judged_content(
    material: KeyMaterial,
    projection: Projection,
    data: Mapping[str, Any],
    content: Mapping[str, Any],
    head: int,
) -> Kept | Refused:
    """The same for the content of a ``checkpoint.created`` with these public fields."""
    place = (int(data["version"]), int(data["up_to_sequence"]))
    if place[1] > head:
        return Refused(*place, "ahead", f"it claims sequence {place[1]}, and stands at {head + 1}")
    kept = _of_form(projection, place, content)
    if isinstance(kept, Kept):
        digest = state_digest(material, projection.name, *place, kept.state)
        if digest != data["state"]:
            return Refused(*place, "damaged", "the state has not the digest that the event names")
    return kept


def _of_form(projection: Projection, place: tuple[int, int], content: Any) -> Kept | Refused:
    if not isinstance(content, Mapping) or "state" not in content:
        return Refused(*place, "unsupported", "it is not of a form that this build knows")
    wrong = projection.misfit(content["state"])
    if wrong is not None:
        return Refused(*place, "unsupported", f"its state does not fit the schema: {wrong[1]}")
    try:
        state = canonical.encode(content["state"])
        projection.decoded(state)
        cursor = bytes.fromhex(str(content.get("cursor", "")))
        events = int(content.get("events", 0))
    except (CounterfoilError, TypeError, ValueError) as error:
        return Refused(*place, "unsupported", f"its state cannot be read: {type(error).__name__}")
    return Kept(place[1], state, cursor, events)
