"""Inputs that wait for a run and can have one now: released, due, or next in line of a conversation that is free."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from counterfoil.flow.drive import drive
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import Flow, Read, RowOf, Rows
from counterfoil.runtime import rows
from counterfoil.runtime.line import next_in_line
from counterfoil.runtime.recover import is_held
from counterfoil.runtime.state import DEFERRED, NEVER_MS, RELEASED, SUSPENDED, in_line
from counterfoil.store.rows import Key, Row

_PAGE_ROWS: Final = 100


class ReadyInput(Struct, frozen=True):
    """An input that can have its run: ``ledger.run(ready.agent, admission=ready.admission_id)`` starts it.

    ``agent`` is whom it was for. ``why`` is what it waited for (``live_run until approval operator``).
    """

    admission_id: str
    stream_id: str
    agent: str
    why: str
    due_ms: int | None = None
    """The time it waited for, if it waited for one."""


def ready_inputs(ports: Ports) -> Iterator[ReadyInput]:
    """Inputs of the tenant that can have their run now, a page in memory at a time."""
    for row in _pages(ports, RELEASED, 0):
        if drive(_is_first(row, RELEASED), ports):
            yield from _free(ports, row)
    now_ms = ports.now_ms()
    for row in _pages(ports, DEFERRED, None):
        if int(row["due_ms"] or 0) > now_ms:
            break
        yield from _free(ports, row)
    for row in _pages(ports, DEFERRED, NEVER_MS):
        if in_line(rows.admission_of_row(row)) and drive(_comes_next(row), ports):
            yield from _free(ports, row)


def _pages(ports: Ports, state: str, due_ms: int | None) -> Iterator[Row]:
    after: Key | None = None
    prefix: Key = (ports.tenant, state) if due_ms is None else (ports.tenant, state, due_ms)
    while True:
        page: list[Row] = ports.read(Rows(rows.ADMISSIONS, "by_due", prefix, _PAGE_ROWS, after))
        yield from page
        if len(page) < _PAGE_ROWS:
            return
        after = rows.ADMISSIONS_TABLE.place_in("by_due", page[-1])


def _free(ports: Ports, row: Row) -> Iterator[ReadyInput]:
    """The input, unless somebody who may be alive holds its conversation."""
    stream_id = str(row["stream_id"])
    if is_held(ports, stream_id):
        return
    agent = row["agent"]
    if agent is None:
        # Taken in before rows said whose it is: the conversation's own agent.
        conversation: Row | None = ports.read(RowOf(rows.CONVERSATIONS, (stream_id,)))
        agent = None if conversation is None else conversation["agent"]
    if agent is not None:
        admission = rows.admission_of_row(row)
        due_ms = admission.due_ms if admission.cause == "until" and admission.due_ms else None
        yield ReadyInput(admission.admission_id, stream_id, str(agent), admission.cause or "live_run", due_ms)


def _is_first(row: Row, state: str) -> Flow[bool]:
    """Whether it is the first of its conversation in this state: earlier inputs have their run first."""
    found: list[Row] = yield Read(Rows(rows.ADMISSIONS, "by_state", (row["stream_id"], state), 1))
    return bool(found) and found[0]["admission_id"] == row["admission_id"]


def _comes_next(row: Row) -> Flow[bool]:
    """Whether an input in line has its turn though nobody released it: the run before it was left by its worker."""
    stream_id = str(row["stream_id"])
    released: list[Row] = yield Read(Rows(rows.ADMISSIONS, "by_state", (stream_id, RELEASED), 1))
    first = yield from next_in_line(stream_id)
    if released or first is None or first["admission_id"] != row["admission_id"]:
        return False
    conversation: Row | None = yield Read(RowOf(rows.CONVERSATIONS, (stream_id,)))
    if conversation is None or conversation["while_suspended"] == "start":
        return True
    waiting: list[Row] = yield Read(Rows(rows.RUNS, "by_slot", (stream_id, SUSPENDED), 1))
    return not waiting
