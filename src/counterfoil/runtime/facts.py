"""Facts of the application inside a run, and the run's own input read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from counterfoil.companions.seal import sealed
from counterfoil.companions.table import Change
from counterfoil.core import canonical
from counterfoil.core.catalogue import EVENT_TYPES, Registry
from counterfoil.core.event import Draft, Header, Part
from counterfoil.core.event_types import CLASSES, DEFAULT_CLASS
from counterfoil.core.forms import time_text
from counterfoil.core.ids import derived_id
from counterfoil.core.values import from_json, to_json
from counterfoil.errors import EventIdReused, InvalidForm, RunNotFound, StoreError
from counterfoil.flow.context import RunScope, step_path
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Events, Flow, Read, RowOf
from counterfoil.runtime import rows
from counterfoil.runtime.events import about
from counterfoil.runtime.recording import record
from counterfoil.store.rows import Row, RowChange

_NOTHING: Final[Mapping[str, Any]] = {}


class Facts:
    """Ids of the application's events that this run recorded in earlier entries, by type (``scope.part(Facts)``)."""

    def __init__(self, scope: RunScope) -> None:
        self._fresh = not scope.history
        self._ids: dict[str, set[str]] = {}

    def recorded(self, scope: RunScope, event_type: str, event_id: str) -> Flow[bool]:
        """Whether an earlier entry recorded this one."""
        return event_id in (yield from self._of_type(scope, event_type))

    def _of_type(self, scope: RunScope, event_type: str) -> Flow[set[str]]:
        """The ids of this type; read once."""
        if self._fresh:
            return set()
        if event_type not in self._ids:
            found: list[Event] = yield Read(
                Events(scope.stream_id, types=frozenset({event_type}), run_id=scope.run_id)
            )
            self._ids[event_type] = {event.event_id for event in found}
        return self._ids[event_type]


def own_type(event_type: str) -> str:
    """Refuse a type of the product with InvalidForm: rows, recovery and readers of decisions believe such events."""
    if event_type in EVENT_TYPES:
        raise InvalidForm(
            f"{event_type} is a type of Counterfoil itself, and recorded by it alone",
            hint="choose a name of your own",
            argument="event_type",
        )
    return event_type


def record_flow(
    scope: RunScope,
    registry: Registry,
    event_type: str,
    data: Mapping[str, Any],
    version: int,
    ignorable: bool,
    changes: Sequence[Change] = (),
) -> Flow[None]:
    """Append one event of the application, companions with it; the same call of a resumed run adds nothing.

    Its id is made from what it says and which time it says it, so that a second entry finds it.
    """
    if not isinstance(data, Mapping):
        raise InvalidForm(f"data is a mapping of names to values, not {type(data).__name__}", argument="data")
    scope.check()
    public, content = _split(registry, event_type, version, data)
    digest, occurrence, event_id = _identity(scope, event_type, version, data, _checked(changes))
    if (yield from scope.part(Facts).recorded(scope, event_type, event_id)):
        return
    scope.frontier(f"another {event_type}")
    spec = registry.spec(event_type, version)
    parts, beside = _parts(scope, event_id, content, changes)
    draft = Draft(
        event_id=event_id,
        event_type=event_type,
        occurred_at=time_text(scope.ports.now_ms()),
        actor=scope.actor,
        data=public,
        parts=parts,
        event_schema_version=version,
        run_id=scope.run_id,
        ignorable=ignorable if spec is None else spec.ignorable,
    )
    with scope.in_flight(event_id):
        try:
            yield from record(scope, draft, beside=beside)
        except EventIdReused:
            # An append whose answer was lost had recorded it: the id says what it says.
            return
        except StoreError:
            scope.give_back(f"fact:{event_type}", digest, occurrence, step_path())
            raise


def _split(
    registry: Registry, event_type: str, version: int, data: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    spec = registry.spec(event_type, version)
    fields: Mapping[str, Any] = _NOTHING if spec is None else spec.fields
    public = {name: value for name, value in data.items() if name in fields}
    private = {name: value for name, value in data.items() if name not in fields}
    encoded = to_json(private, "data")
    assert isinstance(encoded, dict), "a mapping stays one"
    return public, encoded


def _checked(changes: object) -> Sequence[Change]:
    if not isinstance(changes, list | tuple):
        raise InvalidForm(
            f"rows is a list of changes, not {type(changes).__name__}",
            hint="rows=[orders.put({…})]",
            argument="rows",
        )
    for change in changes:
        if not isinstance(change, Change):
            raise InvalidForm(
                f"rows are made by a declared table, not {type(change).__name__}",
                hint="orders = ledger.declare_table(…), then rows=[orders.put({…})]",
                argument="rows",
            )
    return changes


def _parts(
    scope: RunScope, event_id: str, content: dict[str, Any], changes: Sequence[Change]
) -> tuple[tuple[Part, ...], tuple[RowChange, ...]]:
    """The content parts: what the event says, and what it commits to where it has companions; and their rows."""
    if not changes:
        return (Part(content),) if content else (), ()
    ports, stream_id = scope.ports, scope.stream_id
    rows, part = sealed(ports.genesis(stream_id), ports.material(stream_id), event_id, changes)
    return (Part(content), part), rows


def _identity(
    scope: RunScope, event_type: str, version: int, data: Mapping[str, Any], changes: Sequence[Change]
) -> tuple[str, int, str]:
    """Digest of what is said, which time it is said, and the event id made of both."""
    material = scope.ports.material(scope.stream_id)
    what = [event_type, version, to_json(dict(data), "data")]
    if changes:
        what.append([[one.table, one.version, list(one.key), _row(one)] for one in changes])
    digest = material.digest("arguments", [], canonical.encode(what))
    occurrence = scope.occurrence(f"fact:{event_type}", digest)
    place = canonical.encode([step_path(), digest])
    event_id = derived_id("evt", material.keyed("derived-id", [scope.run_id, occurrence], place))
    return digest, occurrence, event_id


def _row(change: Change) -> Any:
    return None if change.row is None else dict(change.row)


def message_flow(admission_id: str | None) -> Flow[Any]:
    """The message of an admission as Python values, or None if there is none."""
    return from_json((yield from admitted_message(admission_id)))


def admitted_message(admission_id: str | None) -> Flow[Any]:
    """The message of an admission in its JSON form, or None if there is none."""
    row: Row | None = None if admission_id is None else (yield Read(RowOf(rows.ADMISSIONS, (admission_id,))))
    if row is None:
        raise RunNotFound(
            "this run has no admission, so it has no message", hint="it was not started by an input"
        )
    accepted: list[Event] = yield Read(
        Events(str(row["stream_id"]), after=int(row["sequence"] or 1) - 1, limit=1)
    )
    return about(accepted[0].content).get("message") if accepted else None


def admitted_class(admission_id: str | None) -> Flow[str]:
    """What an input was classified as when it was taken in."""
    row: Row | None = None if admission_id is None else (yield Read(RowOf(rows.ADMISSIONS, (admission_id,))))
    if row is None:
        return DEFAULT_CLASS
    place = Events(str(row["stream_id"]), after=int(row["sequence"] or 1) - 1, limit=1)
    accepted: list[Event] = yield Read(place)
    return class_of(accepted[0].header) if accepted else DEFAULT_CLASS


def class_of(header: Header) -> str:
    """The class of an event's content; where the header names none, it is that of most types."""
    return next((part.klass for part in header.content if part.klass is not None), DEFAULT_CLASS)


def higher(one: str, other: str) -> str:
    """The higher of two classes."""
    return max(one, other, key=CLASSES.index)
