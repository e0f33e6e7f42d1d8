"""What the caller is told whose input did not become a run just now."""

from __future__ import annotations

from typing import assert_never

from counterfoil.core.forms import time_text
from counterfoil.errors import (
    AdmissionAbsorbed,
    AdmissionConflict,
    AdmissionRejected,
    ConflictError,
    RunBusy,
)
from counterfoil.runtime.decide import Absorb, Busy, Defer, Ended, NotYet, OtherMessage, Reject
from counterfoil.runtime.desk import Desk
from counterfoil.runtime.state import ABSORBED, DEFERRED, NEVER_MS, RELEASED, AdmissionState, RunState

Refused = Defer | Absorb | Reject | Busy | Ended | OtherMessage | NotYet


def refusal(desk: Desk, decision: Refused) -> ConflictError:
    """The error for a decision that leads to no run; its fields name the admission and the run in the way."""
    match decision:
        case Defer(_, behind):
            return _deferred(desk.admission_id, behind)
        case Busy(run):
            return _busy(desk, run)
        case Absorb(run):
            return _absorbed(desk.admission_id, run.run_id)
        case Reject(run, why):
            return AdmissionRejected(
                f"the conversation refuses this input: {why}",
                hint="try again later, or open another conversation",
                admission_id=desk.admission_id,
                run_id=_id(run),
            )
        case NotYet(admission):
            return _not_yet(admission)
        case Ended(admission):
            return _ended(admission)
        case OtherMessage(admission):
            return AdmissionConflict(
                f"the dedupe key belongs to admission {admission.admission_id}, which came with another message",
                hint="a dedupe key names one message: use the message's own id",
                admission_id=admission.admission_id,
                run_id=admission.run_id,
            )
        case _:
            assert_never(decision)


def _deferred(admission_id: str, behind: RunState) -> RunBusy:
    return RunBusy(
        f"run {behind.run_id} comes first; this input is kept as {admission_id} and waits",
        hint="ask again with the same dedupe key or with admission=, or give wait_s to wait in line",
        run_id=behind.run_id,
        admission_id=admission_id,
        deferred=True,
    )


def _busy(desk: Desk, run: RunState | None) -> RunBusy:
    """Nothing was recorded; an input that was kept before keeps its place."""
    known = desk.seen.situation.admission
    kept = known is not None and known.state in {DEFERRED, RELEASED}
    lease = desk.seen.lease
    left_ms = None if lease is None else max(0, lease.expires_at_ms - desk.now_ms)
    who = "another worker holds the conversation" if run is None else f"run {run.run_id} is under way"
    return RunBusy(
        who if left_ms is None else f"{who}; its lease has {left_ms / 1000:g} s left unless it is renewed",
        hint="try again when it has ended; a worker that is gone loses its lease by itself",
        run_id=_id(run),
        admission_id=desk.admission_id if kept else None,
        lease_left_ms=left_ms,
    )


def _not_yet(admission: AdmissionState) -> RunBusy:
    """A row of a time that cannot be told is one that waits for a person."""
    timed = admission.due_ms < NEVER_MS
    waits = f"until {time_text(admission.due_ms)}" if timed else "until a person lets it in"
    return RunBusy(
        f"this input is kept as {admission.admission_id} and waits {waits}",
        hint="a worker starts it then" if timed else "ledger.let_in(…) lets it in",
        admission_id=admission.admission_id,
        deferred=True,
    )


def _ended(admission: AdmissionState) -> ConflictError:
    if admission.state == ABSORBED:
        return _absorbed(admission.admission_id, admission.run_id)
    return AdmissionRejected(
        f"this input was {admission.state}",
        hint="a new message gets its own dedupe key",
        admission_id=admission.admission_id,
        run_id=admission.run_id,
    )


def _absorbed(admission_id: str, run_id: str | None) -> AdmissionAbsorbed:
    return AdmissionAbsorbed(
        f"this input joined run {run_id}, which was under way",
        hint="that run reads it with run.inputs()",
        admission_id=admission_id,
        run_id=run_id,
    )


def _id(run: RunState | None) -> str | None:
    return None if run is None else run.run_id
