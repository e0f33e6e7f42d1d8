"""What recovery does for children: stops that broke off are finished, ends that were not told are told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.abc import ChildHost
from counterfoil.errors import CounterfoilError, StoreError
from counterfoil.flow.drive import drive
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import Append, Entry, Events, Flow, HeadOf, Read, RowOf, Rows, UnitDraft
from counterfoil.runtime import rows as runtime_rows
from counterfoil.runtime.children.decide import STOPPING
from counterfoil.runtime.children.events import child_settled, stop_asked
from counterfoil.runtime.children.kin import said_by, stopped_by_parent
from counterfoil.runtime.children.rows import CHILDREN, END, OPEN
from counterfoil.runtime.children.settle import parent_terminal, settle_finished, settle_flow
from counterfoil.runtime.children.state import takes_more
from counterfoil.runtime.children.stop import Stopper, stop_child
from counterfoil.runtime.state import FINISHED
from counterfoil.store.rows import Key, Row

PAGE_ROWS: Final = 500
RECOVERY: Final[Mapping[str, str]] = {"type": "worker", "id": "recovery"}


Done = Literal["stopped", "lost", "settled", "left", "asked"]


class ChildReport(Struct, frozen=True):
    """What recovery did for one child: ``stopped``, ``lost``, ``settled``, ``left``, or ``asked`` (it is told, and ends itself).

    ``failed``: ``why`` says what kept it.
    """

    child_run_id: str
    child_stream_id: str
    parent_run_id: str
    done: Done | Literal["failed"]
    why: str = ""


def recover_children(
    ports: Ports, owner: str, host: ChildHost, wanted: frozenset[str] | None = None
) -> list[ChildReport]:
    """Look at every child of the tenant that has not been settled; those for which nothing is to be done are left out.

    ``wanted`` limits it to children and parents of these runs and conversations. May run anywhere at the same time.
    Raises ``StoreError`` when the store fails.
    """
    by = Stopper(host, ports, owner, RECOVERY)
    # As they are now: what is settled leaves the page.
    found = [row for row in unsettled_rows(ports) if wanted is None or wanted & _names(row)]
    return [report for row in found if (report := recover_child(row, by)) is not None]


def recover_child(row: Row, by: Stopper) -> ChildReport | None:
    """Do for one child what is to be done; None for nothing."""
    told = ChildReport(
        str(row["child_run_id"]), str(row["child_stream_id"]), str(row["parent_run_id"]), "failed"
    )
    if is_foreign(row, by.ports):
        return None
    try:
        done = drive(_recover(row, by), by.ports)
    except StoreError:
        raise
    except CounterfoilError as error:
        return replace(told, why=error.message)
    return None if done is None else replace(told, done=done)


def is_foreign(row: Row, ports: Ports) -> bool:
    """Whether either conversation came from another ledger and nobody has gone on with it here: it is left as it came."""
    for column in ("parent_stream_id", "child_stream_id"):
        stream_id = str(row[column])
        if ports.read(HeadOf(stream_id)) is not None and not ports.is_home(stream_id):
            return True
    return False


def unsettled_rows(ports: Ports) -> Iterator[Row]:
    """Rows of the tenant's children that have not ended on record, a page in memory at a time."""
    after: Key | None = None
    while page := ports.read(Rows(CHILDREN.name, "by_awaits", (ports.tenant, END), PAGE_ROWS, after)):
        yield from page
        after = CHILDREN.place_in("by_awaits", page[-1])


def _recover(row: Row, by: Stopper) -> Flow[Done | None]:
    if not (yield from takes_more(str(row["child_stream_id"]), by.ports)):
        return (yield from _stopped(row, by))
    run: Row | None = yield Read(RowOf(runtime_rows.RUNS, (row["child_run_id"],)))
    if run is not None and run["state"] == FINISHED:
        return "settled" if (yield from settle_finished(row, by.ports)) else None
    if (yield from stopped_by_parent(row)) is not None:
        return (yield from _stopped(row, by))
    return (yield from _decide_late(row, by))


def _decide_late(row: Row, by: Stopper) -> Flow[Done | None]:
    """The run above ended and said nothing of this child: it had more of them than one append decides about."""
    terminal = yield from parent_terminal(row)
    if terminal is None or row["state"] != OPEN:
        return None
    stream_id, parent_run_id = str(row["child_stream_id"]), str(row["parent_run_id"])
    if terminal not in STOPPING:
        said = child_settled(stream_id, "left", "parent", terminal)
        return "left" if (yield from settle_flow(row, said, by.actor, by.ports)) else None
    cause = yield from _end_of(str(row["parent_stream_id"]), parent_run_id)
    asked = yield from said_by(
        by.actor, stop_asked(), str(row["child_run_id"]), cause, str(row["parent_stream_id"])
    )
    yield Append(UnitDraft((Entry(stream_id, (asked,)),)))
    return (yield from _stopped(row, by))


def _stopped(row: Row, by: Stopper) -> Flow[Done | None]:
    done = yield from stop_child(row, by)
    return None if done == "kept" else done


def _end_of(stream_id: str, run_id: str) -> Flow[str | None]:
    ended = yield Read(Events(stream_id, types=frozenset({"run.finished"}), run_id=run_id, limit=1))
    return str(ended[0].event_id) if ended else None


def _names(row: Row) -> frozenset[object]:
    return frozenset(
        (row["child_run_id"], row["child_stream_id"], row["parent_run_id"], row["parent_stream_id"])
    )
