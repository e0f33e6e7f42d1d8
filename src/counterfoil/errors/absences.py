"""Errors of things that are not here, and of what may not or cannot be seen."""

from __future__ import annotations

from counterfoil.errors.base import AccessError, NotFoundError


class LedgerNotFound(NotFoundError):
    """There is no ledger at this place."""

    code = "ledger_not_found"
    default_hint = "make one with `counterfoil init DIR`"


class LedgerLost(NotFoundError):
    """The database is missing or empty, but its keys are there: there was a ledger, and none is made in its place.

    What it held would be sent again, because a new ledger knows of nothing (DESIGN 2.3).
    """

    code = "ledger_lost"
    default_hint = "restore the backup of ledger.db, or move keys.db and kek/ away to begin anew"


class StreamNotFound(NotFoundError):
    """There is no such stream or conversation."""

    code = "stream_not_found"


class RunNotFound(NotFoundError):
    """There is no such run."""

    code = "run_not_found"


class ReviewNotFound(NotFoundError):
    """There is no such review."""

    code = "review_not_found"


class EffectNotFound(NotFoundError):
    """There is no effect with this id or key."""

    code = "effect_not_found"


class ApprovalNotFound(NotFoundError):
    """There is no such approval."""

    code = "approval_not_found"


class ArtifactNotFound(NotFoundError):
    """No event of this ledger names such an artifact."""

    code = "artifact_not_found"
    default_hint = "`counterfoil artifacts ls` lists them"


class RepairNotFound(NotFoundError):
    """There is no such repair."""

    code = "repair_not_found"


class ToolNotFound(NotFoundError):
    """No declared tool of this name is loaded, so its doubt cannot be ended here."""

    code = "tool_not_found"
    default_hint = "name the module that declares it as `app` in counterfoil.toml"


class AdmissionNotFound(NotFoundError):
    """There is no input with this id in the ledger."""

    code = "admission_not_found"


class ScheduleNotFound(NotFoundError):
    """There is no schedule with this id in the ledger."""

    code = "schedule_not_found"
    default_hint = "`counterfoil schedule ls` lists them"


class AgentNotFound(NotFoundError):
    """No agent of this name is registered in this process, so its code cannot be run here."""

    code = "agent_not_found"
    default_hint = (
        "name the module that registers it with counterfoil.agent as `app` in counterfoil.toml, or import it"
    )


class FileMissing(NotFoundError):
    """A file named by the caller does not exist."""

    code = "file_missing"


class KeyStoreMissing(AccessError):
    """The ledger's key store is not found; headers can be read and verified, content is withheld (FORMAT 12)."""

    code = "key_store_missing"
    default_hint = "put keys.db and kek/ back beside the ledger; nothing new is created silently"


class KeyStoreStale(AccessError):
    """The key store is older than the ledger, or holds a destroyed key: read with it, and write nothing (FORMAT 12)."""

    code = "key_store_stale"
    default_hint = "put the newest backup of the key store back; reading goes on"


class KeyMissing(AccessError):
    """A data key is absent and no certificate says why (FORMAT 12)."""

    code = "key_missing"


class KeyWithheld(AccessError):
    """A data key exists, but its key-encryption key is not at hand (FORMAT 12)."""

    code = "key_withheld"


class NotPermitted(AccessError):
    """The database refused: the login may not do this, or may not connect at all (DESIGN 9)."""

    code = "not_permitted"


class AccessRefused(AccessError):
    """The authorizer does not allow to see this, for this purpose; the refusal is on record (DESIGN 9)."""

    code = "access_refused"


class PolicyMissing(AccessError):
    """What was judged by a policy is not repeated or undone where none is in force (DESIGN 7)."""

    code = "policy_missing"


class ApproverRefused(AccessError):
    """This person may not answer: who asked may not approve, and assignees are named by the policy (DESIGN 7)."""

    code = "approver_refused"


class TurnRefused(AccessError):
    """A hook around a turn refused what came in, what goes out or what a model was to be asked (seed 000)."""

    code = "turn_refused"


class TurnNotFound(NotFoundError):
    """There is no such turn."""

    code = "turn_not_found"


class ContentUnavailable(AccessError):
    """Content was asked for that is withheld, missing or erased. Field ``state`` says which (FORMAT 6)."""

    code = "content_unavailable"


class ArtifactUnavailable(AccessError):
    """An artifact was asked for whose bytes are missing, withheld or erased. Field ``state`` says which (FORMAT 6)."""

    code = "artifact_unavailable"
