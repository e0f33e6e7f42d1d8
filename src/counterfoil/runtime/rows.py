"""The runtime's rows: conversations, admissions and runs, each a pure function of an event (DESIGN 4, FORMAT 11)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from counterfoil.core import canonical
from counterfoil.runtime import state as is_
from counterfoil.runtime.events import TENANT_SCOPE, about
from counterfoil.store.rows import (
    ROW_INDEX,
    CellSource,
    Column,
    Fact,
    Feature,
    Index,
    Patch,
    Put,
    Row,
    RowChange,
    TableSpec,
)

CONVERSATIONS = "conversations"
NAMES = "conversation_names"
ADMISSIONS = "admissions"
ADMISSION_KEYS = "admission_keys"
RUNS = "runs"

BASELINE = "runtime.baseline"
"""What a conversation of the runtime store of schema 1 begins with (seed 003, amendments)."""

OPEN = "open"
CLOSED = "closed"

ADMISSIONS_TABLE = TableSpec(
    ADMISSIONS,
    (
        Column("admission_id"),
        Column("tenant"),
        Column("stream_id"),
        Column("state"),
        Column("agent", required=False),
        Column("cause", required=False),
        Column("due_ms", "integer"),
        Column("run_id", required=False),
        Column("key_index", required=False),
        Column("message_index", required=False),
        Column("sequence", "integer"),
    ),
    key=("admission_id",),
    indexes={
        "by_state": ("stream_id", "state", "sequence"),
        "by_due": ("tenant", "state", "due_ms"),
        "by_run": ("run_id", "state", "sequence"),
    },
    version=2,
)

_TABLES = (
    TableSpec(
        CONVERSATIONS,
        (
            Column("stream_id"),
            Column("tenant"),
            Column("agent"),
            Column("state"),
            Column("origin"),
            Column("while_running"),
            Column("while_suspended"),
            Column("opened_at_ms", "integer"),
        ),
        key=("stream_id",),
    ),
    # Apart from the conversation, as effect keys are from effects: the name is unique, and an unnamed one has none.
    TableSpec(
        NAMES, (Column("tenant"), Column("name_index"), Column("stream_id")), key=("tenant", "name_index")
    ),
    ADMISSIONS_TABLE,
    TableSpec(
        ADMISSION_KEYS,
        (Column("tenant"), Column("key_index"), Column("admission_id"), Column("stream_id")),
        key=("tenant", "key_index"),
    ),
    TableSpec(
        RUNS,
        (
            Column("run_id"),
            Column("tenant"),
            Column("stream_id"),
            Column("admission_id", required=False),
            Column("agent"),
            Column("agent_version", required=False),
            Column("state"),
            Column("terminal", required=False),
            Column("cause", required=False),
            Column("waits_for", required=False),
            Column("token", "integer"),
            Column("started_sequence", "integer"),
            Column("started_at_ms", "integer"),
            Column("changed_at_ms", "integer"),
            Column("steps", "integer"),
            Column("calls", "integer"),
            Column("input_tokens", "integer"),
            Column("output_tokens", "integer"),
            Column("cost", required=False),
            Column("currency", required=False),
        ),
        key=("run_id",),
        indexes={
            "by_stream": ("stream_id", "run_id"),
            "by_slot": ("stream_id", "state"),
            "by_state": ("tenant", "state", "run_id"),
            "by_tenant": ("tenant", "run_id"),
        },
    ),
)

_TALLY = ("steps", "calls", "input_tokens", "output_tokens", "cost", "currency")


# ---- index values ------------------------------------------------------------------------------------------------


def name_index(index: Index, name: str) -> str:
    """Where a conversation's name is looked up (FORMAT 4)."""
    return index("conversation", name)


def key_index(index: Index, dedupe: str, stream_id: str | None) -> str:
    """Where a dedupe key is looked up: unique in its conversation, or in the tenant when none was named."""
    return index("admission", _text([stream_id, dedupe]))


def message_index(index: Index, admission_id: str, message: Any) -> str:
    """Tells whether an input is the one admitted; made with the admission's id, so equal inputs do not show."""
    return index("message", _text([admission_id, message]))


def _text(value: Any) -> str:
    return canonical.encode(value).decode()


# ---- rows of an event --------------------------------------------------------------------------------------------


def rows(fact: Fact, index: Index) -> Iterable[RowChange]:
    """The row changes that follow from one event of the runtime."""
    event_type = fact.event_type
    if event_type == "conversation.opened":
        return _opened(fact, index)
    if event_type == "admission.accepted":
        return _accepted(fact, index)
    if event_type == "admission.rejected":
        return (_admission(fact, is_.REJECTED, fact.data.get("run_id")),)
    if event_type in is_.ADMISSION_STATES:
        return (_moved(fact, is_.ADMISSION_STATES[event_type]),)
    if event_type == "run.started":
        return _started(fact)
    if event_type == BASELINE:
        return _baseline(fact, index)
    if event_type == "conversation.closed":
        return (Patch(CONVERSATIONS, (fact.stream_id,), {"state": CLOSED}),)
    return _run_changed(fact)


def _opened(fact: Fact, index: Index) -> list[RowChange]:
    data = fact.data
    row: dict[str, CellSource] = {
        "stream_id": fact.stream_id,
        "tenant": fact.tenant,
        "agent": data["agent"],
        "state": OPEN,
        "origin": data["origin"],
        "while_running": data["while_running"],
        "while_suspended": data["while_suspended"],
        "opened_at_ms": fact.recorded_at_ms,
    }
    changes: list[RowChange] = [Put(CONVERSATIONS, row)]
    name = (fact.content or {}).get("name")
    if isinstance(name, str):
        found = {"tenant": fact.tenant, "name_index": name_index(index, name), "stream_id": fact.stream_id}
        changes.append(Put(NAMES, found))
    return changes


def _baseline(fact: Fact, index: Index) -> Iterator[RowChange]:
    """What stood in the runtime store before the ledger: the conversation, its runs, and the inputs that began them."""
    content = fact.content or {}
    row: dict[str, CellSource] = {
        "stream_id": fact.stream_id,
        "tenant": fact.tenant,
        "agent": _told(content, "agent"),
        "state": CLOSED if content.get("state") == CLOSED else OPEN,
        "origin": "import",
        "while_running": "queue",
        "while_suspended": "start",
        "opened_at_ms": fact.recorded_at_ms,
    }
    yield Put(CONVERSATIONS, row)
    name = content.get("name")
    if isinstance(name, str):
        found = {"tenant": fact.tenant, "name_index": name_index(index, name), "stream_id": fact.stream_id}
        yield Put(NAMES, found)
    for run in _listed(content, "runs"):
        yield _old_run(fact, run)
    for admission in _listed(content, "admissions"):
        yield from _old_admission(fact, index, admission)


def _old_run(fact: Fact, run: Mapping[str, Any]) -> Put:
    row = _run_row(fact, run["run_id"], run.get("admission_id"), run["agent"], None, run["token"])
    ended: dict[str, CellSource] = {
        "state": is_.FINISHED,
        "terminal": run["terminal"],
        "started_at_ms": run["started_at_ms"],
        "changed_at_ms": run["changed_at_ms"],
    }
    return Put(RUNS, row | ended)


def _old_admission(fact: Fact, index: Index, admission: Mapping[str, Any]) -> Iterator[RowChange]:
    """An input that began a run is known by its dedupe key, so that delivered again it does not begin another."""
    if admission.get("run_id") is None:
        return
    admission_id, dedupe = admission["admission_id"], admission.get("dedupe")
    key = message = None
    if isinstance(dedupe, str):
        key = key_index(index, dedupe, fact.stream_id)
        if "message" in admission:
            message = message_index(index, admission_id, admission["message"])
        row = {"tenant": fact.tenant, "key_index": key, "admission_id": admission_id}
        yield Put(ADMISSION_KEYS, {**row, "stream_id": fact.stream_id})
    yield _admission_row(fact, admission_id, is_.STARTED, admission["run_id"], key, message)


def _listed(content: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = content.get(name)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _told(content: Mapping[str, Any], name: str) -> str:
    value = content.get(name)
    return value if isinstance(value, str) else ""


def _accepted(fact: Fact, index: Index) -> list[RowChange]:
    content = about(fact.content or {})
    dedupe = content.get("dedupe")
    if not isinstance(dedupe, str):
        return [_admission(fact, is_.ACCEPTED, None)]
    scope = None if content.get("scope") == TENANT_SCOPE else fact.stream_id
    key = key_index(index, dedupe, scope)
    message = _message_index(fact, index)
    row = {
        "tenant": fact.tenant,
        "key_index": key,
        "admission_id": fact.data["admission_id"],
        "stream_id": fact.stream_id,
    }
    return [_admission(fact, is_.ACCEPTED, None, key, message), Put(ADMISSION_KEYS, row)]


def _message_index(fact: Fact, index: Index) -> str:
    content = about(fact.content or {})
    left = content.get(ROW_INDEX)
    if isinstance(left, Mapping):
        return str(left["message_index"])
    return message_index(index, fact.data["admission_id"], content.get("message"))


def stands_in(fact: Fact, index: Index) -> Mapping[str, str]:
    """What rows need of an input whose message moves to artifacts."""
    accepted = fact.event_type == "admission.accepted" and fact.content is not None
    return {"message_index": _message_index(fact, index)} if accepted else {}


def _admission(
    fact: Fact, state: str, run_id: str | None, key: str | None = None, message: str | None = None
) -> Put:
    return _admission_row(fact, fact.data["admission_id"], state, run_id, key, message)


def _admission_row(
    fact: Fact, admission_id: str, state: str, run_id: str | None, key: str | None, message: str | None
) -> Put:
    row: dict[str, CellSource] = {
        "admission_id": admission_id,
        "tenant": fact.tenant,
        "stream_id": fact.stream_id,
        "state": state,
        "due_ms": 0,
        "run_id": run_id,
        "key_index": key,
        "message_index": message,
        "sequence": fact.sequence,
    }
    return Put(ADMISSIONS, row)


def _moved(fact: Fact, state: str) -> Patch:
    values: dict[str, CellSource] = {"state": state, "due_ms": is_.due_of(fact.event_type, fact.data)}
    values["cause"] = fact.data["cause"] if fact.event_type in is_.WAITING_TYPES else None
    if "run_id" in fact.data:
        values["run_id"] = fact.data["run_id"]
    # Whose input it is says the actor, unless a run of another agent makes way for it.
    told = fact.event_type in is_.WAITING_TYPES or state == is_.ABSORBED
    if told and fact.actor["type"] == "agent" and fact.run_id is None:
        values["agent"] = fact.actor["id"]
    return Patch(ADMISSIONS, (fact.data["admission_id"],), values)


def _started(fact: Fact) -> list[RowChange]:
    data = fact.data
    admission_id = data.get("admission_id")
    assert fact.run_id is not None, "a run that starts has an id"
    agent_version = data.get("agent_version")
    row = _run_row(fact, fact.run_id, admission_id, data["agent"], agent_version, data["fencing_token"])
    changes: list[RowChange] = [Put(RUNS, row)]
    if admission_id is not None:
        started: dict[str, CellSource] = {
            "state": is_.STARTED,
            "run_id": fact.run_id,
            "cause": None,
            "due_ms": 0,
        }
        changes.append(Patch(ADMISSIONS, (admission_id,), started))
    return changes


def _run_row(
    fact: Fact, run_id: str, admission_id: str | None, agent: str, agent_version: str | None, token: int
) -> dict[str, CellSource]:
    """The row of a run that has just begun."""
    return {
        "run_id": run_id,
        "tenant": fact.tenant,
        "stream_id": fact.stream_id,
        "admission_id": admission_id,
        "agent": agent,
        "agent_version": agent_version,
        "state": is_.RUNNING,
        "token": token,
        "started_sequence": fact.sequence,
        "started_at_ms": fact.recorded_at_ms,
        "changed_at_ms": fact.recorded_at_ms,
        "steps": 0,
        "calls": 0,
        "input_tokens": 0,
        "output_tokens": 0,
    }


def _run_changed(fact: Fact) -> list[RowChange]:
    data = fact.data
    values: dict[str, CellSource]
    match fact.event_type:
        case "run.claimed":
            values = {"token": data["fencing_token"]}
        case "run.suspended":
            waits = " ".join(data["waits_for"])
            values = {"state": is_.SUSPENDED, "cause": data["cause"], "waits_for": waits}
        case "run.resumed":
            values = {"state": is_.RUNNING, "cause": None, "waits_for": None}
        case "run.finished":
            values = {"state": is_.FINISHED, "terminal": data["terminal"], "cause": None, "waits_for": None}
            values.update({name: data[name] for name in _TALLY if name in data})
        case _:
            return []
    values["changed_at_ms"] = fact.recorded_at_ms
    return [Patch(RUNS, (fact.run_id,), values)]


FEATURE = Feature(
    "runtime",
    _TABLES,
    frozenset(
        {
            "conversation.opened",
            "conversation.closed",
            *is_.ADMISSION_STATES,
            "run.started",
            "run.claimed",
            "run.suspended",
            "run.resumed",
            "run.finished",
            BASELINE,
        }
    ),
    rows,
    stands_in,
)


# ---- reading rows ------------------------------------------------------------------------------------------------


def run_of_row(row: Row, *, resumable: bool = False) -> is_.RunState:
    """A row of ``runs`` as state."""
    waits = row["waits_for"]
    return is_.RunState(
        run_id=str(row["run_id"]),
        state=str(row["state"]),
        admission_id=_optional(row, "admission_id"),
        token=int(row["token"] or 0),
        terminal=_optional(row, "terminal"),
        cause=_optional(row, "cause"),
        waits_for=tuple(str(waits).split()) if waits else (),
        resumable=resumable,
    )


def admission_of_row(row: Row) -> is_.AdmissionState:
    """A row of ``admissions`` as state."""
    return is_.AdmissionState(
        str(row["admission_id"]),
        str(row["state"]),
        _optional(row, "run_id"),
        _optional(row, "cause"),
        int(row["due_ms"] or 0),
    )


def _optional(row: Mapping[str, Any], column: str) -> str | None:
    value = row[column]
    return None if value is None else str(value)
