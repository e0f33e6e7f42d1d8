"""Errors of a world that moved: read again, decide again."""

from __future__ import annotations

from counterfoil.errors.base import ConflictError


class WrongSequence(ConflictError):
    """The stream's head is not where the caller expected it. Field ``head`` is the actual head."""

    code = "wrong_sequence"
    default_hint = "read the new events and decide again"


class Fenced(ConflictError):
    """The fencing token is stale: somebody else has claimed the conversation. Field ``lease`` is the current one."""

    code = "fenced"


class LeaseHeld(ConflictError):
    """The lease is held by another owner and has not expired. Field ``lease`` is the current one."""

    code = "lease_held"
    retryable = True


class GuardFailed(ConflictError):
    """A guard of the unit does not hold. Fields ``table``, ``key`` and ``row`` (the current row or None)."""

    code = "guard_failed"


class EventIdReused(ConflictError):
    """An event id is already used for other content. Field ``members`` names what differs (FORMAT 5)."""

    code = "event_id_reused"


class PartialDuplicate(ConflictError):
    """Only some events of an append are already recorded (FORMAT 5)."""

    code = "partial_duplicate"


class StreamExists(ConflictError):
    """A stream with this id exists with another genesis."""

    code = "stream_exists"


class ArchiveRefused(ConflictError):
    """An archive would bring back what was erased here, or takes a name or key that is taken (FORMAT 13, 14)."""

    code = "archive_refused"


class LedgerMoved(ConflictError):
    """The ledger was copied to another place and goes on there; nothing is appended here any more (FORMAT 14)."""

    code = "ledger_moved"
    default_hint = "open the copy; reading and verifying go on here"


class LossNotAccepted(ConflictError):
    """The ledger came out of a backup: what was recorded since is lost, and somebody must accept that first."""

    code = "loss_not_accepted"
    default_hint = "look at it, then: counterfoil restore LEDGER --accept-loss --by NAME --reason TEXT"


class CopyUnfinished(ConflictError):
    """The ledger is a copy that is not whole yet; nothing is appended before it is (FORMAT 14)."""

    code = "copy_unfinished"
    default_hint = "run the same `counterfoil copy` again; it goes on where it ended"


class IdempotencyConflict(ConflictError):
    """The same effect key came with another tool or other arguments (DESIGN 7)."""

    code = "idempotency_conflict"


class EffectInFlight(ConflictError):
    """The same effect is being performed right now (DESIGN 7)."""

    code = "effect_in_flight"
    retryable = True


class RunBusy(ConflictError):
    """The conversation's running slot is taken by another live run."""

    code = "run_busy"
    retryable = True


class AdmissionConflict(ConflictError):
    """The same dedupe key came with another message (DESIGN 6)."""

    code = "admission_conflict"


class AdmissionRejected(ConflictError):
    """The conversation's policy refused or superseded this input (DESIGN 6)."""

    code = "admission_rejected"


class EpochMoved(ConflictError):
    """The key store was rotated, or added to during a rotation, since the caller looked (FORMAT 12)."""

    code = "epoch_moved"
    retryable = True
    default_hint = "read the current epoch and wrap again"


class AdmissionAbsorbed(ConflictError):
    """This input joined the run that is under way, as the conversation's policy says (DESIGN 6)."""

    code = "admission_absorbed"


class RehearsalOnly(ConflictError):
    """The run is a rehearsal: entered as any other run its effects would be real. Field ``rehearsal_of``."""

    code = "rehearsal_only"
    default_hint = "rehearse the original once more; `counterfoil cancel` ends a rehearsal that was left open"


class RunStopped(ConflictError):
    """The run was cancelled while it was under way: what leaves the block of a cancelled run (DESIGN 11)."""

    code = "run_stopped"


class RunEnded(ConflictError):
    """The run had ended before it was cancelled. Field ``terminal``."""

    code = "run_ended"


class SettledAlready(ConflictError):
    """The review was settled before, with another outcome."""

    code = "settled_already"


class AnsweredAlready(ConflictError):
    """The approval was answered before, has expired, was used, or its run has ended. Field ``state``."""

    code = "answered_already"


class NotRepairable(ConflictError):
    """The effect is in doubt or in review, or was not carried out: there is nothing to undo, or not yet (DESIGN 7)."""

    code = "not_repairable"


class RepairedAlready(ConflictError):
    """The same thing is being repaired or was repaired. Fields ``repair_id`` and ``state``."""

    code = "repaired_already"


class RepairClosed(ConflictError):
    """The repair was closed, with another result than the one asked for. Field ``state``."""

    code = "repair_closed"


class RepairUnsettled(ConflictError):
    """The repair cannot be closed: a compensation of it has no outcome yet, or its run is open."""

    code = "repair_unsettled"


class SlotMoved(ConflictError):
    """Another run has changed the state slot since this run looked at it. Field ``slot``; nothing was recorded."""

    code = "slot_moved"
    default_hint = "call run.state.refresh(), look at the slot and decide again"


class AdmissionTaken(ConflictError):
    """The input waits no more: it has a run, joined one, or was refused. Field ``state``."""

    code = "admission_taken"
    default_hint = "`counterfoil show` tells what became of it"


class NotWaiting(ConflictError):
    """The run does not wait, so another one cannot absorb it. Field ``run_id``; nothing was recorded."""

    code = "not_waiting"


class ScheduleConflict(ConflictError):
    """The key belongs to a schedule with another plan, message or agent. Field ``schedule_id``; nothing was recorded."""

    code = "schedule_conflict"
    default_hint = "cancel that one and give the new one a key of its own"
