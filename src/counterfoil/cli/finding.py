"""What a word on the command line names: a conversation, a run, an effect or an event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from counterfoil.cli.render.cells import text
from counterfoil.client.reading import conversation, view
from counterfoil.core.ids import is_id
from counterfoil.effects.rows import EFFECTS
from counterfoil.errors import NotFoundError, StreamNotFound
from counterfoil.flow.event import Event
from counterfoil.store.rows import Row
from counterfoil.store.unit import StoredEvent

if TYPE_CHECKING:
    from counterfoil.client.ledger import Ledger

PAGE_STREAMS: Final = 500


class Named(Struct, frozen=True):
    """What was named. ``run`` and ``effect`` are rows; ``stored`` is one event with its exact bytes."""

    stream_id: str
    run: Row | None = None
    effect: Row | None = None
    stored: StoredEvent | None = None


def find(ledger: Ledger, words: tuple[str, ...]) -> Named:
    """What these words name: a name or an id, and perhaps the sequence of an event. Raises NotFoundError."""
    name, *rest = words
    named = _find(ledger, name)
    return (
        named if not rest else Named(named.stream_id, stored=event_at(ledger, named.stream_id, int(rest[0])))
    )


def _find(ledger: Ledger, name: str) -> Named:
    if is_id(name, "run"):
        run = ledger.run_row(name)
        return Named(text(run, "stream_id"), run=run)
    if is_id(name, "eff", "rev"):
        return _effect(ledger, f"eff_{name.partition('_')[2]}")
    if is_id(name, "evt"):
        stored = event_of(ledger, name)
        return Named(stored.stream_id, stored=stored)
    return Named(_stream(ledger, name))


def _stream(ledger: Ledger, name: str) -> str:
    """A conversation, or a system stream by its kind."""
    try:
        return ledger.stream_of(name)
    except StreamNotFound:
        kind = name.removeprefix("system/")
        if name.startswith("system/") and ledger.streams.exists(kind):
            return ledger.streams.id_of(kind)
        raise


def _effect(ledger: Ledger, effect_id: str) -> Named:
    row = ledger.store.get(EFFECTS.name, (effect_id,))
    if row is None or row["tenant"] != ledger.tenant:
        raise NotFoundError(
            f"there is no effect {effect_id} in {ledger.place}", hint="`counterfoil ls effects` lists them"
        )
    return Named(text(row, "stream_id"), effect=row)


def event_at(ledger: Ledger, stream_id: str, sequence: int) -> StoredEvent:
    """The stored event at a sequence. Raises NotFoundError that names the last one there is."""
    found = ledger.store.read(stream_id, sequence - 1, 1) if sequence > 0 else []
    if not found or found[0].sequence != sequence:
        last = conversation(ledger.ports, stream_id).head_sequence
        raise NotFoundError(
            f"there is no event {sequence} in {stream_id}",
            hint=f"its events are 1 to {last}"
            if last is not None
            else "its head row is damaged: see `counterfoil verify`",
            sequence=sequence,
        )
    return found[0]


def event_of(ledger: Ledger, event_id: str) -> StoredEvent:
    """A stored event by its id, looked for in every stream of the tenant; ids are unique inside a stream."""
    after = ""
    while page := ledger.store.streams(ledger.tenant, after, PAGE_STREAMS):
        for stream in page:
            if found := ledger.store.find(stream.stream_id, [event_id]):
                return found[0]
        after = page[-1].stream_id
    raise NotFoundError(
        f"there is no event {event_id} in {ledger.place}",
        hint="`counterfoil show CONVERSATION --events` lists them",
    )


def opened(ledger: Ledger, stored: StoredEvent) -> Event:
    """A stored event for reading; one that cannot be read says why."""
    return view(ledger.ports, stored)
