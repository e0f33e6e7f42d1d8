"""The one table of exit codes, and how an error is told to people and to programs."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final

from msgspec import Struct, field

from counterfoil.errors import (
    AccessError,
    ConfigInvalid,
    ConflictError,
    CounterfoilError,
    EffectError,
    InputError,
    IntegrityError,
    InternalError,
    NotFoundError,
    StoreError,
)


class Exit(IntEnum):
    """What the shell is told. 64 to 77 have the meaning that sysexits.h gives them."""

    DONE = 0
    BROKEN = 1
    BELOW_GRADE = 2
    UNDECIDED = 3
    CONFLICT = 4
    USAGE = 64
    BAD_INPUT = 65
    NOT_FOUND = 66
    STORE = 69
    INTERNAL = 70
    TRY_AGAIN = 75
    ACCESS = 77
    INTERRUPTED = 130


MEANINGS: Final[Mapping[Exit, str]] = {
    Exit.DONE: "done; verify: intact at the required grade",
    Exit.BROKEN: "what is stored is not what was written",
    Exit.BELOW_GRADE: "intact, but below the required grade",
    Exit.UNDECIDED: "an effect is undecided, or waits for a person",
    Exit.CONFLICT: "the world moved: look again, decide again",
    Exit.USAGE: "the command line is wrong",
    Exit.BAD_INPUT: "the data is wrong",
    Exit.NOT_FOUND: "there is no such thing here",
    Exit.STORE: "the store failed, and trying again does not help",
    Exit.INTERNAL: "a fault of Counterfoil: please report it",
    Exit.TRY_AGAIN: "did not work this time: try again",
    Exit.ACCESS: "not permitted, or a key is not at hand",
    Exit.INTERRUPTED: "interrupted",
}
"""Every code with what it means; printed in docs/commands.md."""

_BY_ERROR: Final[tuple[tuple[type[CounterfoilError], Exit], ...]] = (
    (ConfigInvalid, Exit.USAGE),
    (InputError, Exit.BAD_INPUT),
    (ConflictError, Exit.CONFLICT),
    (NotFoundError, Exit.NOT_FOUND),
    (AccessError, Exit.ACCESS),
    (EffectError, Exit.UNDECIDED),
    (StoreError, Exit.STORE),
    (IntegrityError, Exit.BROKEN),
    (InternalError, Exit.INTERNAL),
)


class Failure(Struct, frozen=True):
    """An error as it leaves the program."""

    exit: Exit
    code: str
    message: str
    retryable: bool = False
    hint: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The object that ``--json`` prints in place of a result."""
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "retryable": self.retryable,
                "hint": self.hint,
                "exit_code": int(self.exit),
                "fields": {name: _plain(value) for name, value in self.fields.items()},
            }
        }


def failure_of(error: BaseException, exit_code: Exit | None = None) -> Failure:
    """What to say about an error, and the code to leave with; ``exit_code`` where the command knows better."""
    match error:
        case CounterfoilError():
            exit_code = exit_code or _exit_of(error)
            return Failure(exit_code, error.code, error.message, error.retryable, error.hint, error.fields)
        case KeyboardInterrupt():
            return Failure(Exit.INTERRUPTED, "interrupted", "interrupted")
        case OSError():
            return _system_failure(error)
        case _:
            hint = (
                "please report this with the command and what it printed; COUNTERFOIL_TRACEBACK=1 shows where"
            )
            return Failure(Exit.INTERNAL, "internal", f"{type(error).__name__}: {error}", hint=hint)


def usage_failure(message: str, hint: str | None = None) -> Failure:
    """A command line that cannot be understood."""
    return Failure(Exit.USAGE, "usage", message, hint=hint)


def _exit_of(error: CounterfoilError) -> Exit:
    # A run that waits for a person is told apart from a store that is busy: only the second is helped by trying again.
    if error.retryable and not isinstance(error, EffectError):
        return Exit.TRY_AGAIN
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), Exit.INTERNAL)


_SYSTEM: Final[Mapping[int, tuple[Exit, str]]] = {
    errno.ENOENT: (Exit.NOT_FOUND, "file_missing"),
    errno.ENOTDIR: (Exit.NOT_FOUND, "file_missing"),
    errno.EACCES: (Exit.ACCESS, "permission"),
    errno.EPERM: (Exit.ACCESS, "permission"),
    errno.EROFS: (Exit.ACCESS, "read_only"),
    errno.ENOSPC: (Exit.TRY_AGAIN, "disk_full"),
    errno.EDQUOT: (Exit.TRY_AGAIN, "disk_full"),
}


def _system_failure(error: OSError) -> Failure:
    exit_code, code = _SYSTEM.get(error.errno or 0, (Exit.STORE, "system"))
    where = f"{error.filename}: " if error.filename is not None else ""
    message = f"{where}{error.strerror or error}"
    return Failure(exit_code, code, message, retryable=exit_code is Exit.TRY_AGAIN)


def _plain(value: Any) -> Any:
    """A field of an error in a form that JSON has."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return value.hex()
        case Mapping():
            return {str(name): _plain(inner) for name, inner in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(inner) for inner in value]
        case _:
            return str(value)
