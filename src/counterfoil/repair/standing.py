"""Repairs as the flows read them: the row with names and types, and the case that its opening tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct

from counterfoil.errors import RepairNotFound, RowsDiffer
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Events, Flow, Read, RowOf
from counterfoil.repair.rows import REPAIR_SUBJECTS, REPAIRS
from counterfoil.repair.state import RepairState
from counterfoil.store.rows import Absent, Guard, Row, RowIs


class RepairStanding(Struct, frozen=True):
    """How a repair stands (a row of ``repairs``)."""

    repair_id: str
    tenant: str
    stream_id: str
    subject: str
    supersedes: str
    effect_id: str | None
    state: RepairState
    opened_event_id: str
    opened_sequence: int
    row_version: int

    @property
    def unchanged(self) -> RowIs:
        """Guard: nothing has happened to it since."""
        return RowIs(REPAIRS.name, (self.repair_id,), version=self.row_version)


def standing_of(row: Row) -> RepairStanding:
    """The typed view of a row."""
    given: dict[str, Any] = {name: row[name] for name in RepairStanding.__struct_fields__}
    return RepairStanding(**cast("Any", given))


def repair_now(repair_id: str) -> Flow[RepairStanding]:
    """The repair as it stands in the ledger. Raises ``RepairNotFound``."""
    row: Row | None = yield Read(RowOf(REPAIRS.name, (repair_id,)))
    if row is None:
        raise RepairNotFound(f"there is no repair {repair_id}", repair_id=repair_id)
    return standing_of(row)


class Last(Struct, frozen=True):
    """The last repair of an effect or event, if there was one; ``guards`` hold while there is no later one."""

    repair: RepairStanding | None
    guards: tuple[Guard, ...]


def last_repair(subject: str) -> Flow[Last]:
    """The last repair of this effect or event."""
    row: Row | None = yield Read(RowOf(REPAIR_SUBJECTS.name, (subject,)))
    if row is None:
        return Last(None, (Absent(REPAIR_SUBJECTS.name, (subject,)),))
    repair = yield from repair_now(str(row["repair_id"]))
    still = RowIs(REPAIR_SUBJECTS.name, (subject,), version=int(row["row_version"] or 0))
    return Last(repair, (still, repair.unchanged))


class Told(Struct, frozen=True):
    """What ``repair.opened`` says in content; empty where that is gone."""

    event: Event

    @property
    def content(self) -> Mapping[str, Any]:
        """Part 0. Raises :class:`counterfoil.errors.ContentUnavailable`."""
        return self.event.content

    @property
    def readable(self) -> bool:
        """Whether its content can be read."""
        return self.event.content_or_none() is not None

    def _member(self, name: str) -> Any:
        return (self.event.content_or_none() or {}).get(name)

    @property
    def opener(self) -> str | None:
        """The name of who opened it; None when that cannot be read."""
        return self._person("by")

    @property
    def owner(self) -> str | None:
        """The name of who is in charge."""
        return self._person("owner")

    def _person(self, name: str) -> str | None:
        by = self._member(name)
        found = by.get("name") if isinstance(by, Mapping) else None
        return found if isinstance(found, str) else None

    @property
    def reason(self) -> Any:
        """Why, in its recorded form."""
        return self._member("reason")

    @property
    def residual_impact(self) -> Any:
        """What nothing undoes, in its recorded form: as the person said, else as the tool's declaration does."""
        said = self._member("residual_impact")
        return self._member("irreversible") if said is None else said

    @property
    def irreversible(self) -> bool:
        """Whether the tool says of itself that nothing undoes its effects."""
        return self._member("irreversible") is not None


def told(repair: RepairStanding) -> Flow[Told]:
    """The event that opened a repair. Raises ``RowsDiffer`` when the row points to anything else."""
    found: list[Event] = yield Read(Events(repair.stream_id, after=repair.opened_sequence - 1, limit=1))
    if not found or found[0].type != "repair.opened" or found[0].data.get("repair_id") != repair.repair_id:
        raise RowsDiffer(
            f"the row of repair {repair.repair_id} points to event {repair.opened_sequence}, which is another one",
            repair_id=repair.repair_id,
            stream_id=repair.stream_id,
            sequence=repair.opened_sequence,
        )
    return Told(found[0])
