"""The base of every error, and the second level that says what the caller should do."""

from __future__ import annotations

from typing import Any, ClassVar


class CounterfoilError(Exception):
    """Base of every ordinary error.

    ``code`` is stable across releases, ``retryable`` says whether the same call may succeed later, ``hint`` is
    one sentence on the way out and ``fields`` holds header-grade values (ids, sequences, paths), never content.
    """

    code: ClassVar[str] = "error"
    retryable: bool = False
    default_hint: ClassVar[str] = ""

    def __init__(self, message: str, *, hint: str | None = None, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint: str | None = hint if hint is not None else (self.default_hint or None)
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
