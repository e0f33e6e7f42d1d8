"""The state of a conversation's admissions and runs, folded from header data alone (DESIGN 2.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from counterfoil.core.forms import time_ms

ACCEPTED = "accepted"
DEFERRED = "deferred"
RELEASED = "released"
STARTED = "started"
ABSORBED = "absorbed"
SUPERSEDED = "superseded"
REJECTED = "rejected"

NEVER_MS = 2**53 - 1
"""When an input may start that waits for something else than a time."""

RUNNING = "running"
SUSPENDED = "suspended"
FINISHED = "finished"

ADMISSION_STATES: Mapping[str, str] = {
    "admission.accepted": ACCEPTED,
    "admission.deferred": DEFERRED,
    "admission.released": RELEASED,
    "admission.absorbed": ABSORBED,
    "admission.superseded": SUPERSEDED,
    "admission.rejected": REJECTED,
}
"""The state an admission is in after each of its events; ``run.started`` makes it ``started``."""


WAITING_TYPES = frozenset({"admission.deferred", "admission.released"})


def due_of(event_type: str, data: Mapping[str, Any]) -> int:
    """When an input may start, in milliseconds, as one of its events says: 0 at once, ``NEVER_MS`` when told to."""
    if event_type != "admission.deferred":
        return 0
    return time_ms(data["until"]) if data["cause"] == "until" and "until" in data else NEVER_MS


def in_line(admission: AdmissionState) -> bool:
    """Whether a deferred input waits for the slot, and not for a time or a person."""
    return admission.state == DEFERRED and admission.cause not in ("until", "operator")


class AdmissionState(Struct, frozen=True):
    """Where an input stands. ``run_id`` is the run it started, joined or was ended with."""

    admission_id: str
    state: str
    run_id: str | None = None
    cause: str | None = None
    """Why it waits or no longer does, in the words of ``admission.deferred`` and ``.released``."""
    due_ms: int = 0
    """The time at which an input that waits for one may start."""


class RunState(Struct, frozen=True):
    """Where a run stands. ``cause`` and ``waits_for`` are set while it is suspended."""

    run_id: str
    state: str
    admission_id: str | None = None
    token: int = 0
    terminal: str | None = None
    cause: str | None = None
    waits_for: tuple[str, ...] = ()
    resumable: bool = False
    """Whether its input can be delivered again: it came with a dedupe key. Known from rows, not from headers."""


class Conversation(Struct, frozen=True):
    """A conversation as its headers tell it."""

    opened: bool = False
    closed: bool = False
    while_running: str = "queue"
    while_suspended: str = "start"
    admissions: Mapping[str, AdmissionState] = field(default_factory=dict)
    runs: Mapping[str, RunState] = field(default_factory=dict)

    @property
    def running(self) -> tuple[RunState, ...]:
        """The runs that hold the slot or were left in it; at most one is alive."""
        return tuple(run for run in self.runs.values() if run.state == RUNNING)


def evolve(
    state: Conversation, event_type: str, data: Mapping[str, Any], run_id: str | None = None
) -> Conversation:
    """The state after one more event. Events of other features leave it as it is; needs no content."""
    if event_type in ADMISSION_STATES:
        return _admission(state, event_type, data)
    if event_type.startswith("run.") and run_id is not None:
        return _run(state, event_type, data, run_id)
    if event_type == "conversation.opened":
        return replace(
            state, opened=True, while_running=data["while_running"], while_suspended=data["while_suspended"]
        )
    if event_type == "runtime.baseline":
        return replace(state, opened=True)
    return replace(state, closed=True) if event_type == "conversation.closed" else state


def _admission(state: Conversation, event_type: str, data: Mapping[str, Any]) -> Conversation:
    admission_id = data["admission_id"]
    known = state.admissions.get(admission_id)
    run_id = data.get("run_id") or (known.run_id if known else None)
    cause = data["cause"] if event_type in WAITING_TYPES else None
    after = AdmissionState(
        admission_id, ADMISSION_STATES[event_type], run_id, cause, due_of(event_type, data)
    )
    return replace(state, admissions={**state.admissions, admission_id: after})


def _run(state: Conversation, event_type: str, data: Mapping[str, Any], run_id: str) -> Conversation:
    run = state.runs.get(run_id, RunState(run_id, RUNNING))
    match event_type:
        case "run.started":
            run = RunState(run_id, RUNNING, data.get("admission_id"), data["fencing_token"])
        case "run.claimed":
            run = replace(run, token=data["fencing_token"])
        case "run.suspended":
            run = replace(run, state=SUSPENDED, cause=data["cause"], waits_for=tuple(data["waits_for"]))
        case "run.resumed":
            run = replace(run, state=RUNNING, cause=None, waits_for=())
        case "run.finished":
            run = replace(run, state=FINISHED, terminal=data["terminal"], cause=None, waits_for=())
        case _:
            return state
    state = replace(state, runs={**state.runs, run_id: run})
    if event_type == "run.started" and run.admission_id is not None:
        started = AdmissionState(run.admission_id, STARTED, run_id)
        state = replace(state, admissions={**state.admissions, run.admission_id: started})
    return state
