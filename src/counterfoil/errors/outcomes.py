"""Errors of external effects, models and steps that did not end well."""

from __future__ import annotations

from counterfoil.errors.base import EffectError


class RunWaiting(EffectError):
    """The run is suspended until an approval, review or time; fields say for what (DESIGN 7)."""

    code = "run_waiting"
    retryable = True


class Rejected(EffectError):
    """Raised by a tool: the provider refused for good. The outcome is final."""

    code = "rejected"


class NotDone(EffectError):
    """Raised by a tool: the effect was confirmed not to have happened and may be tried again."""

    code = "not_done"


class EffectBlocked(EffectError):
    """A rehearsal has no recorded outcome for this call, so it was neither made nor answered. Field ``tool``, ``why``."""

    code = "effect_blocked"
    default_hint = (
        "nothing was sent; a rehearsal answers only what the rehearsed run did with the same arguments"
    )


class EffectFailed(EffectError):
    """A recorded effect ended without success; fields ``effect_id`` and ``outcome``."""

    code = "effect_failed"


class ResultNotKept(EffectError):
    """The effect succeeded and is not sent again, but its result had no form in which it could be recorded."""

    code = "result_not_kept"


class ChildFailed(EffectError):
    """A child did not end as ``success``. Fields ``child_run_id child_stream_id state terminal error_class``."""

    code = "child_failed"


class ModelFailed(EffectError):
    """The model raised, or answered what cannot be recorded; that stands in the ledger as ``provider.failed``."""

    code = "model_failed"


class StepFailed(EffectError):
    """A recorded step ended with this error; raised again by a run that resumes. Field ``error_class``."""

    code = "step_failed"


class PolicyDenied(EffectError):
    """A policy refused the call; it was recorded and the tool was not called. Fields ``policy revision rules``."""

    code = "policy_denied"


class EffectHeld(PolicyDenied):
    """A person holds the tool, the tenant or the ledger; the call was not made. Fields ``tool scope lever``."""

    code = "effect_held"
    retryable = True


class BudgetExceeded(EffectError):
    """A budget leaves no room for another call; the run ends as ``policy_stop``.

    Fields ``budget`` (``tokens money calls wall``), ``limit`` and ``spent`` as decimal text, ``currency``, ``run_id``.
    """

    code = "budget_exceeded"


class PolicyFailed(EffectError):
    """The policy itself failed or ruled what cannot be carried out; the tool was not called, nothing was recorded."""

    code = "policy_failed"


class ApprovalDenied(EffectError):
    """People were asked and did not permit the call. Field ``outcome``: ``denied``, ``revoked`` or ``expired``."""

    code = "approval_denied"


class ApprovalMismatched(EffectError):
    """The call is not the one people were asked about; that was recorded and the tool was not called (case S13)."""

    code = "approval_mismatched"
