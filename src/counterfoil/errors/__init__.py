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

from counterfoil.errors.absences import (
    ContentUnavailable,
    FileMissing,
    KeyMissing,
    KeyStoreMissing,
    KeyWithheld,
    LedgerNotFound,
    NotPermitted,
    ReviewNotFound,
    RunNotFound,
    StreamNotFound,
    ToolNotFound,
)
from counterfoil.errors.alarms import (
    ChainBroken,
    ContentDamaged,
    KeyDamaged,
)
from counterfoil.errors.base import (
    AccessError,
    ConflictError,
    CounterfoilError,
    EffectError,
    InputError,
    IntegrityError,
    InternalError,
    NotFoundError,
    StoreError,
)
from counterfoil.errors.conflicts import (
    AdmissionAbsorbed,
    AdmissionConflict,
    AdmissionRejected,
    EffectInFlight,
    EpochMoved,
    EventIdReused,
    Fenced,
    GuardFailed,
    IdempotencyConflict,
    LeaseHeld,
    PartialDuplicate,
    RunBusy,
    RunStopped,
    SettledAlready,
    StreamExists,
    WrongSequence,
)
from counterfoil.errors.inputs import (
    ConfigInvalid,
    ContentTooLarge,
    Divergence,
    DuplicateMember,
    GenesisInvalid,
    HeaderInvalid,
    HeaderTooLarge,
    IntegerTooLong,
    InvalidForm,
    InvalidId,
    InvalidUnit,
    NoRun,
    NotCanonical,
    NotDecodable,
    NotEncodable,
    PublicFieldRefused,
    RunClosed,
    TooDeep,
    ToolInvalid,
    UnknownEventType,
    UnknownFormat,
    UnknownTranscript,
)
from counterfoil.errors.outcomes import (
    EffectFailed,
    ModelFailed,
    NotDone,
    Rejected,
    ResultNotKept,
    RunWaiting,
    StepFailed,
)
from counterfoil.errors.steering import (
    LeaseLost,
    RunCancelled,
    RunSuspended,
)
from counterfoil.errors.storage import (
    AppendTimeout,
    HandleForked,
    NetworkFileSystem,
    QueueFull,
    SchemaTooNew,
    SchemaUnknown,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreFull,
    StoreIO,
    StoreReadOnly,
)

__all__ = [
    "AccessError",
    "AdmissionAbsorbed",
    "AdmissionConflict",
    "AdmissionRejected",
    "AppendTimeout",
    "ChainBroken",
    "ConfigInvalid",
    "ConflictError",
    "ContentDamaged",
    "ContentTooLarge",
    "ContentUnavailable",
    "CounterfoilError",
    "Divergence",
    "DuplicateMember",
    "EffectError",
    "EffectFailed",
    "EffectInFlight",
    "EpochMoved",
    "EventIdReused",
    "Fenced",
    "FileMissing",
    "GenesisInvalid",
    "GuardFailed",
    "HandleForked",
    "HeaderInvalid",
    "HeaderTooLarge",
    "IdempotencyConflict",
    "InputError",
    "IntegerTooLong",
    "IntegrityError",
    "InternalError",
    "InvalidForm",
    "InvalidId",
    "InvalidUnit",
    "KeyDamaged",
    "KeyMissing",
    "KeyStoreMissing",
    "KeyWithheld",
    "LeaseHeld",
    "LeaseLost",
    "LedgerNotFound",
    "ModelFailed",
    "NetworkFileSystem",
    "NoRun",
    "NotCanonical",
    "NotDecodable",
    "NotDone",
    "NotEncodable",
    "NotFoundError",
    "NotPermitted",
    "PartialDuplicate",
    "PublicFieldRefused",
    "QueueFull",
    "Rejected",
    "ResultNotKept",
    "ReviewNotFound",
    "RunBusy",
    "RunCancelled",
    "RunClosed",
    "RunNotFound",
    "RunStopped",
    "RunSuspended",
    "RunWaiting",
    "SchemaTooNew",
    "SchemaUnknown",
    "SettledAlready",
    "StepFailed",
    "StoreBusy",
    "StoreClosed",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreIO",
    "StoreReadOnly",
    "StreamExists",
    "StreamNotFound",
    "TooDeep",
    "ToolInvalid",
    "ToolNotFound",
    "UnknownEventType",
    "UnknownFormat",
    "UnknownTranscript",
    "WrongSequence",
]
