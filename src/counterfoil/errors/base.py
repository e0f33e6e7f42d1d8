"""The base of every error, and the second level that says what the caller should do."""

from __future__ import annotations

from typing import Any, ClassVar, Self


def text_of(value: object) -> str:
    """Plain text of anything, also of what raises when it is asked for its text."""
    try:
        return str.__str__(str(value))
    except Exception as error:  # noqa: BLE001 - whatever it is, what is said about an error must not be another error
        return f"<{type(value).__name__} whose text raised {type(error).__name__}>"


class CounterfoilError(Exception):
    """Base of every ordinary error.

    ``message`` may be given as anything that has a text, such as a provider's exception; without one it is the name
    of the class. ``code`` is stable across releases, ``retryable`` says whether the same call may succeed later, ``hint`` is
    one sentence on the way out and ``fields`` holds header-grade values (ids, sequences, paths), never content.
    """

    code: ClassVar[str] = "error"
    retryable: bool = False
    default_hint: ClassVar[str] = ""

    message: str
    hint: str | None
    fields: dict[str, Any]

    def __new__(cls, *args: Any, **_: Any) -> Self:
        """Message, hint and fields are there also in a subclass of the application that forgets ``super().__init__``."""
        error = super().__new__(cls, *args)
        error.message = text_of(args[0]) if args else cls.__name__
        error.hint = cls.default_hint or None
        error.fields = {}
        return error

    def __init__(self, message: object = "", *, hint: str | None = None, **fields: Any) -> None:
        self.message = text_of(message) or type(self).__name__
        super().__init__(self.message)
        self.hint = text_of(hint) if hint is not None else (self.default_hint or None)
        self.fields = fields

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
