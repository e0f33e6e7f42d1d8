"""Every error Counterfoil raises, in one tree whose second level says what the caller should do.

::

    CounterfoilError
    ├── InputError        your data: mend the call and send it again
    ├── ConflictError     the world moved: read again, decide again
    ├── NotFoundError     there is no such thing here
    ├── AccessError       not permitted, or the key is not at hand
    ├── EffectError       an external effect did not end well
    ├── StoreError        the storage failed; ``retryable`` says whether to try again
    ├── IntegrityError    stored bytes are not what was written: raise the alarm
    └── InternalError     our fault: please report

    RunSuspended, LeaseLost, RunCancelled   (BaseException: they steer a run, no handler may eat them)

Each class has a stable ``code``; each instance a message that names what, where and what next, a ``hint``
and structured ``fields`` that never hold content.
"""

from __future__ import annotations

from typing import Any, ClassVar


class CounterfoilError(Exception):
    """Base of every ordinary error.

    ``code`` is stable across releases, ``retryable`` says whether the same call may succeed later, ``hint`` is
    one sentence on the way out and ``fields`` holds header-grade values (ids, sequences, paths), never content.
    """

    code: ClassVar[str] = "error"
    retryable: bool = False
    default_hint: ClassVar[str | None] = None

    def __init__(self, message: str, *, hint: str | None = None, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint if hint is not None else self.default_hint
        self.fields: dict[str, Any] = fields

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __getattr__(self, name: str) -> Any:
        # Fields read as attributes (`error.sequence`), so callers need no dictionary look-up.
        try:
            return self.__dict__["fields"][name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.hint, self.fields)


def _rebuild(
    kind: type[CounterfoilError], message: str, hint: str | None, fields: dict[str, Any]
) -> CounterfoilError:
    return kind(message, hint=hint, **fields)


# ---- second level: what the caller should do -------------------------------------------------------------------


class InputError(CounterfoilError):
    """The caller's data or call is wrong; nothing was written."""

    code = "input"


class ConflictError(CounterfoilError):
    """The world moved since the caller looked; nothing was written."""

    code = "conflict"


class NotFoundError(CounterfoilError):
    """The named thing does not exist in this ledger."""

    code = "not_found"


class AccessError(CounterfoilError):
    """The caller may not, or cannot for want of a key."""

    code = "access"


class EffectError(CounterfoilError):
    """An external effect did not end as the caller hoped; the ledger says how it stands."""

    code = "effect"


class StoreError(CounterfoilError):
    """The storage failed. ``retryable`` tells whether the same call may succeed later."""

    code = "store"


class IntegrityError(CounterfoilError):
    """Stored bytes are not what was written."""

    code = "integrity"
    default_hint = "stop writing, keep the files, run `counterfoil verify`"


class InternalError(CounterfoilError):
    """A fault of Counterfoil itself."""

    code = "internal"
    default_hint = "please report this with the traceback"


# ---- your data -------------------------------------------------------------------------------------------------


class NotEncodable(InputError):
    """A value has no canonical form. Field ``path`` says where (FORMAT 2)."""

    code = "not_encodable"


class NotDecodable(InputError):
    """Content holds a tag or a registered class that this process does not know. Field ``path`` says where (FORMAT 2)."""

    code = "not_decodable"


class NotCanonical(InputError):
    """Bytes that must be canonical JSON are not. Field ``offset`` or ``path`` says where (FORMAT 2)."""

    code = "not_canonical"


class DuplicateMember(NotCanonical):
    """A JSON object names a member twice (FORMAT 2)."""

    code = "duplicate_member"


class TooDeep(InputError):
    """Nesting beyond the limit of FORMAT 1."""

    code = "too_deep"


class IntegerTooLong(InputError):
    """An integer with more digits than FORMAT 1 allows."""

    code = "integer_too_long"


class ContentTooLarge(InputError):
    """A content part or all parts of an event pass the limit of FORMAT 1."""

    code = "content_too_large"


class HeaderTooLarge(InputError):
    """An event header passes 16 KiB (FORMAT 1)."""

    code = "header_too_large"


class InvalidId(InputError):
    """An identifier has not the form of FORMAT 1."""

    code = "invalid_id"


class InvalidForm(InputError):
    """A label, time, decimal or other header value has not the form of FORMAT 1."""

    code = "invalid_form"


class HeaderInvalid(InputError):
    """An event header is not of the closed form of FORMAT 5."""

    code = "header_invalid"


class GenesisInvalid(InputError):
    """A genesis text is not of the closed form of FORMAT 4."""

    code = "genesis_invalid"


class UnknownFormat(InputError):
    """A record's ``ctx`` names a version this build does not know (FORMAT 19)."""

    code = "unknown_format"
    default_hint = "open it with a newer Counterfoil"


class UnknownEventType(InputError):
    """Replay or projection met a type or version it does not know and that is not ignorable (FORMAT 7)."""

    code = "unknown_event_type"


class PublicFieldRefused(InputError):
    """A public field is unknown, missing or of the wrong form for its event type (FORMAT 7)."""

    code = "public_field_refused"


class InvalidUnit(InputError):
    """An append unit contradicts itself (empty, stream twice, undeclared table or column)."""

    code = "invalid_unit"


class NoRun(InputError):
    """A decorated tool was called outside a run."""

    code = "no_run"


class RunClosed(InputError):
    """A call came to a run whose block has ended."""

    code = "run_closed"


class ToolInvalid(InputError):
    """A tool declaration or its arguments are wrong."""

    code = "tool_invalid"


class ConfigInvalid(InputError):
    """``counterfoil.toml`` or an option is wrong."""

    code = "config_invalid"


class UnknownTranscript(InputError):
    """A file is not a transcript an importer knows."""

    code = "unknown_transcript"


class Divergence(InputError):
    """The code took another way than the record it resumes from; fields show both sides (DESIGN 6)."""

    code = "divergence"


# ---- the world moved -------------------------------------------------------------------------------------------


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


class RunStopped(ConflictError):
    """The run was cancelled while it was under way: what leaves the block of a cancelled run (DESIGN 11)."""

    code = "run_stopped"


class SettledAlready(ConflictError):
    """The review was settled before, with another outcome."""

    code = "settled_already"


# ---- not here ----------------------------------------------------------------------------------------------------


class LedgerNotFound(NotFoundError):
    """There is no ledger at this place."""

    code = "ledger_not_found"
    default_hint = "make one with `counterfoil init DIR`"


class StreamNotFound(NotFoundError):
    """There is no such stream or conversation."""

    code = "stream_not_found"


class RunNotFound(NotFoundError):
    """There is no such run."""

    code = "run_not_found"


class ReviewNotFound(NotFoundError):
    """There is no such review."""

    code = "review_not_found"


class ToolNotFound(NotFoundError):
    """No declared tool of this name is loaded, so its doubt cannot be ended here."""

    code = "tool_not_found"
    default_hint = "name the module that declares it as `app` in counterfoil.toml"


class FileMissing(NotFoundError):
    """A file named by the caller does not exist."""

    code = "file_missing"


# ---- keys and access ---------------------------------------------------------------------------------------------


class KeyStoreMissing(AccessError):
    """The ledger's key store is not found; headers can be read and verified, content is withheld (FORMAT 12)."""

    code = "key_store_missing"
    default_hint = "put keys.db and kek/ back beside the ledger; nothing new is created silently"


class KeyMissing(AccessError):
    """A data key is absent and no certificate says why (FORMAT 12)."""

    code = "key_missing"


class KeyWithheld(AccessError):
    """A data key exists, but its key-encryption key is not at hand (FORMAT 12)."""

    code = "key_withheld"


class ContentUnavailable(AccessError):
    """Content was asked for that is withheld, missing or erased. Field ``state`` says which (FORMAT 6)."""

    code = "content_unavailable"


# ---- effects -----------------------------------------------------------------------------------------------------


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


class EffectFailed(EffectError):
    """A recorded effect ended without success; fields ``effect_id`` and ``outcome``."""

    code = "effect_failed"


class ResultNotKept(EffectError):
    """The effect succeeded and is not sent again, but its result had no form in which it could be recorded."""

    code = "result_not_kept"


class ModelFailed(EffectError):
    """The model call raised; the failure is recorded as ``provider.failed``."""

    code = "model_failed"


class StepFailed(EffectError):
    """A recorded step ended with this error; raised again by a run that resumes. Field ``error_class``."""

    code = "step_failed"


# ---- storage -----------------------------------------------------------------------------------------------------


class StoreClosed(StoreError):
    """The handle is closed."""

    code = "store_closed"


class StoreBusy(StoreError):
    """Another process holds the store longer than the deadline."""

    code = "store_busy"
    retryable = True
    default_hint = "try again; if it stays, see which process holds the ledger"


class StoreFull(StoreError):
    """No space is left on the device. Nothing of the append was recorded, or it was looked up and found absent."""

    code = "store_full"
    retryable = True
    default_hint = "free space, then try again with the same event ids"


class StoreIO(StoreError):
    """The device or the network answered with an input/output error."""

    code = "store_io"
    retryable = True


class StoreReadOnly(StoreError):
    """The ledger or its directory cannot be written."""

    code = "store_read_only"


class StoreCorrupt(StoreError):
    """The database file is damaged below the level of records."""

    code = "store_corrupt"
    default_hint = "keep the files and restore the last backup"


class SchemaTooNew(StoreError):
    """The ledger was written by a newer Counterfoil."""

    code = "schema_too_new"
    default_hint = "use the version that wrote it, or a newer one"


class SchemaUnknown(StoreError):
    """The database is not a ledger, or its schema is half made."""

    code = "schema_unknown"


class NetworkFileSystem(StoreError):
    """The directory lies on a network file system, where locks and fsync cannot be trusted."""

    code = "network_file_system"
    default_hint = "use a local disk, or PostgreSQL for many machines"


class HandleForked(StoreError):
    """The handle was opened in a parent process."""

    code = "handle_forked"
    default_hint = "open the ledger again in the child"


class QueueFull(StoreError):
    """Writers are faster than the disk: the bounded queue stayed full until the deadline."""

    code = "queue_full"
    retryable = True
    default_hint = "slow the producer down or append in larger units"


class AppendTimeout(StoreError):
    """The append was not answered within the deadline; its outcome is unknown until looked up by id."""

    code = "append_timeout"
    retryable = True
    default_hint = "send the same events with the same ids again; they land once"


# ---- alarm -------------------------------------------------------------------------------------------------------


class ContentDamaged(IntegrityError):
    """A sealed record fails its digest, tag, commitment or unpacking (FORMAT 6)."""

    code = "content_damaged"


class KeyDamaged(IntegrityError):
    """A data key does not pass its check (FORMAT 12)."""

    code = "key_damaged"


class ChainBroken(IntegrityError):
    """An append met a head that its own stream does not support."""

    code = "chain_broken"


# ---- control flow of a run -----------------------------------------------------------------------------------------


class RunSuspended(BaseException):
    """Steers a run that must wait; sticky, raised again by every later call of the run (DESIGN 7)."""

    def __init__(self, message: str, *, cause: str, waits_for: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.cause = cause
        self.waits_for = waits_for


class LeaseLost(BaseException):
    """This worker no longer owns the conversation; whatever it still does is not recorded as the run's."""

    def __init__(self, message: str, *, token: int) -> None:
        super().__init__(message)
        self.token = token


class RunCancelled(BaseException):
    """The run was cancelled from outside, or its deadline has passed; ``terminal`` says which."""

    def __init__(self, message: str = "the run was cancelled", *, terminal: str = "cancelled") -> None:
        super().__init__(message)
        self.terminal = terminal
