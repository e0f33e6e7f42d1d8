"""The recorder of one turn: what each stage writes, once and for all depths, without ever reaching the turn (seed 000)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final, Literal, ParamSpec, Self, TypeVar, cast, get_args

from msgspec import Struct, field

from counterfoil.core.forms import is_label
from counterfoil.core.ids import is_id
from counterfoil.errors import PolicyDenied, RunCancelled, TurnRefused
from counterfoil.journal.digests import payload_hash, result_digest
from counterfoil.journal.event import Stage, TurnNote
from counterfoil.journal.hooks import run_hooks
from counterfoil.journal.markers import ResultMarkers
from counterfoil.journal.redaction import MASK, redact_name
from counterfoil.journal.streams import AsyncTurnStream, TurnStream
from counterfoil.journal.summary import Fields, Own, Said, Value, shown_name, summary
from counterfoil.journal.writer import JournalWriter, TurnLane, report

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

Route = Literal["primary", "tools_disabled", "fallback"]
Decided = Literal["completed", "failed", "denied"]
ToolStatus = Literal["ok", "error", "blocked", "parked"]

COMPLETED: Final = "completed"
CANCELLED: Final = "cancelled"
REFUSED: Final = "refused"


_REFUSALS: Final = (TurnRefused, PolicyDenied)
_CANCELLATIONS: Final = (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit, SystemExit, RunCancelled)

_current: ContextVar[TurnRecorder | None] = ContextVar("counterfoil_turn", default=None)


def current_turn() -> TurnRecorder | None:
    """The journaled turn that this code is inside of; None when there is none, or the journal is off."""
    return _current.get()


def enter_turn(turn: TurnRecorder) -> Token[TurnRecorder | None]:
    """Make this the current turn of the context."""
    return _current.set(turn)


def leave_turn(token: Token[TurnRecorder | None]) -> None:
    """The other end of :func:`enter_turn`; also when this end runs in another context than the first."""
    try:
        _current.reset(token)
    except ValueError:
        _current.set(None)


def status_of(error: BaseException | None) -> str:
    """The status of a turn that this left: ``completed``, ``cancelled``, ``refused`` or ``error:CLASS``."""
    if error is None:
        return COMPLETED
    # By its type alone: ``isinstance`` may ask the error itself, which is the application's code and may raise.
    if issubclass(type(error), _REFUSALS):
        return REFUSED
    if issubclass(type(error), _CANCELLATIONS) or _is_trio_cancel(type(error)):
        return CANCELLED
    name = _class_of(error)
    return f"error:{name}" if is_label(name) else "error:error"


def _is_trio_cancel(kind: type[BaseException]) -> bool:
    """Whether this is how trio cancels, which is not asyncio's class; trio is not imported to find out."""
    cancelled = getattr(sys.modules.get("trio"), "Cancelled", None)
    return isinstance(cancelled, type) and issubclass(kind, cancelled)


class TurnPlace(Struct, frozen=True):
    """Whose turn it is and where its events go."""

    turn_id: str
    agent_id: str
    tenant: str
    session_hash: str
    writer: JournalWriter
    markers: ResultMarkers
    now_ms: Callable[[], int]
    lane: TurnLane = field(default_factory=TurnLane)


class TurnRecorder:
    """Writes the events of one turn; made by :meth:`TurnJournals.begin`, used as a ``with`` or ``async with`` block.

    Leaving the block commits the turn: ``completed``, or what the exception says. Nothing that a method does can
    raise into the turn or change what it returns; only the hooks of a turn may refuse something, with ``TurnRefused``.
    All methods may be called from any thread.
    """

    enabled: bool = True
    abandoned: bool = False
    """Whether somebody gave the turn up in the meantime; what it writes all the same says ``late=1``."""

    def __init__(self, place: TurnPlace) -> None:
        self._place = place
        # One token for each COMMIT that is still to come: taking it is one step, for threads and for the collector.
        self._to_commit = [None]
        self._streamed = False
        self._answer: Any = None
        self._tokens: list[Token[TurnRecorder | None]] = []

    def __repr__(self) -> str:
        return f"<Turn {self.turn_id} of {self._place.agent_id}>"

    @property
    def turn_id(self) -> str:
        """``trn_…``, made when the turn began and never taken from the caller."""
        return self._place.turn_id

    @property
    def committed(self) -> bool:
        """Whether the turn's COMMIT was handed over."""
        return not self._to_commit

    # ---- the block ----

    def __enter__(self) -> Self:
        self._tokens.append(enter_turn(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._tokens:
            leave_turn(self._tokens.pop())
        if error is not None or not self._streamed:
            self.commit(status_of(error), self._answer)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    # ---- the stages ----

    def intake(self, message: Any, *, parent: str | None = None, attempt: int = 1) -> None:
        """The turn begins with this message, of which only the digest is kept."""

        def fields() -> Fields:
            again = attempt if attempt > 1 else None
            return {"session": Own(self._place.session_hash), "parent": parent, "attempt": again}

        self._write("INTAKE", fields, payload=message)

    def guard(self, name: str, outcome: str, *, reason: str | None = None, side: str | None = None) -> None:
        """A guard looked at something: its name, and what it said."""
        self._write(
            "GUARD", lambda: {"guard": name, "outcome": outcome, "side": side, "reason": _said(reason)}
        )

    def model_call(
        self,
        provider: str,
        model: str,
        *,
        route: Route = "primary",
        status: str = "ok",
        ms: int | None = None,
        error: BaseException | None = None,
    ) -> None:
        """A model was asked: the primary call, the retry with tools disabled, or the fallback to another provider."""

        def fields() -> Fields:
            said = {"status": status if error is None else "error", "error": _class_of(error), "ms": ms}
            return {"provider": provider, "model": model, "route": route, **said}

        self._write("MODEL_CALL", fields)

    def tool_call(
        self,
        name: str,
        status: ToolStatus,
        *,
        arguments: str | None = None,
        result: str | None = None,
        kind: str | None = None,
        error: BaseException | None = None,
        ms: int | None = None,
    ) -> None:
        """A tool was called. ``arguments`` and ``result`` are digests: of the result, its first 12 digits."""

        def fields() -> Fields:
            by = None if kind is None else Own(kind)
            digest = None if result is None else Own(result)
            told = {"error": _class_of(error), "resultSha": digest, "ms": ms}
            return {"tool": name, "status": Own(status), "by": by, **told}

        self._write("TOOL_CALL", fields, hashed=arguments)

    def approval_pending(self, request: str | None, *, tool: str | None = None) -> None:
        """A call is held for a human, under this approval request."""
        self._write(
            "APPROVAL", lambda: {"decision": Own("pending"), "request": _request(request), "tool": tool}
        )

    def approval_decided(self, request: str | None, outcome: Decided) -> None:
        """What became of a call that an earlier turn was held for."""
        if not issubclass(type(outcome), str) or outcome not in get_args(Decided):
            self._misused("what became of an approval is none of completed, failed, denied")
            return
        self._write("APPROVAL", lambda: {"decision": Own(f"decided:{outcome}"), "request": _request(request)})

    def verify(self, name: str, ok: bool, *, found: int | None = None) -> None:
        """A check of the answer, such as for addresses that nobody generated; ``found`` counts what it found."""
        self._write(
            "VERIFY", lambda: {"check": name, "outcome": Own("ok" if ok else "failed"), "found": found}
        )

    def answer(self, answer: Any) -> Any:
        """Keep the final answer, whose digest the COMMIT carries; returns it as it is."""
        self._answer = answer
        return answer

    def commit(self, status: str = COMPLETED, answer: Any = None) -> None:
        """End the turn, once: ``completed``, ``error:…``, ``cancelled`` or ``refused``. Later calls change nothing."""
        said = _status(status)
        try:
            self._to_commit.pop()
        except IndexError:
            return
        self._write("COMMIT", lambda: {"status": said}, payload=answer)

    def failed_over(self, error: BaseException, message: Any, *, attempt: int = 2) -> None:
        """The turn runs again on the next provider: the first attempt ends with its error, and another INTAKE follows."""
        self.commit(status_of(error))
        self._to_commit.append(None)
        self._streamed = False
        self.intake(message, attempt=attempt)

    # ---- around code ----

    def tool(self, fn: Callable[P, R], *, name: str | None = None) -> Callable[P, R]:
        """``fn``, sync or async, with a TOOL_CALL for each call; what it gives and raises stays the same."""
        from counterfoil.journal.tools import journaled

        return journaled(fn, name=name, turn=self)

    def tools(self, fns: Iterable[Callable[..., Any]]) -> list[Callable[..., Any]]:
        """Each of these as :meth:`tool` gives it."""
        return [self.tool(fn) for fn in fns]

    def model(
        self, fn: Callable[P, R], *, provider: str, model: str, route: Route = "primary"
    ) -> Callable[P, R]:
        """``fn``, sync or async, with a MODEL_CALL for each call."""
        from counterfoil.journal.tools import journaled_model

        return journaled_model(fn, self, provider=provider, model=model, route=route)

    def stream(self, chunks: Iterable[T], *, text: Callable[[T], str] | None = None) -> Iterator[T]:
        """The chunks of a streamed answer; the turn commits on the last one, on an error, or when it is given up."""
        stream = TurnStream(chunks, self, text)
        self._streamed = True
        return stream

    def astream(
        self, chunks: AsyncIterable[T], *, text: Callable[[T], str] | None = None
    ) -> AsyncIterator[T]:
        """As :meth:`stream`, for async code."""
        stream = AsyncTurnStream(chunks, self, text)
        self._streamed = True
        return stream

    def screen(self, message: Any) -> None:
        """Run the inbound hooks on a message. Raises ``TurnRefused``."""
        run_hooks("inbound", message, self._hooked)

    def release(self, answer: Any) -> None:
        """Run the outbound hooks on an answer. Raises ``TurnRefused``."""
        run_hooks("outbound", answer, self._hooked)

    def before_model(self, request: Any) -> None:
        """Run the model hooks on a request. Raises ``TurnRefused``."""
        run_hooks("model", request, self._hooked)

    def _hooked(self, name: str, side: str, passed: bool) -> None:
        self.guard(name, "pass" if passed else "refused", side=side)

    # ---- writing ----

    @property
    def markers(self) -> ResultMarkers:
        """How an answer of the platform is told from a tool's."""
        return self._place.markers

    @property
    def now_ms(self) -> Callable[[], int]:
        """The clock of this journal."""
        return self._place.now_ms

    def _is_late(self, stage: Stage) -> bool:
        """Whether this comes after the turn's end: a tool that went on in a thread, a turn that was given up."""
        return self.abandoned or (stage != "COMMIT" and self.committed)

    def _write(
        self, stage: Stage, made: Callable[[], Fields], *, payload: Any = None, hashed: str | None = None
    ) -> None:
        """Hand an event over; ``made`` gives its fields, here where nothing that they raise reaches the turn."""
        place = self._place
        try:
            digest = hashed if payload is None else payload_hash(payload)
            fields = made()
            note = TurnNote(
                place.tenant,
                place.turn_id,
                place.agent_id,
                stage,
                summary({"late": 1, **fields} if self._is_late(stage) else fields),
                place.now_ms(),
                digest,
                place.session_hash,
            )
            place.writer.put(place.lane, note)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong here, no turn may feel it
            self.missed(error)

    def missed(self, error: BaseException) -> None:
        """An event of this turn could not be made: it is counted, and the next one says that one is missing."""
        self._place.lane.drop()
        self._place.writer.miss(error)

    def _misused(self, what: str) -> None:
        """An event that nobody can write was asked for: the next one says that one is missing."""
        self._place.lane.drop()
        report(what, ValueError())


def _said(text: str | None) -> Said | None:
    return None if text is None else Said(text)


def _request(request: str | None) -> Value:
    """An approval request's id as it is where a summary may show it, else the beginning of its digest.

    Either way both turns show the same, and whoever has the id finds them.
    """
    if request is None:
        return None
    text = str(request)
    if is_id(text) or shown_name(text) == text:
        return Own(text)
    return Own(f"sha:{result_digest(text)}")


def _class_of(error: BaseException | None) -> str | None:
    """The name of an error's class; of one that will not even tell it, that it is an error."""
    if error is None:
        return None
    try:
        # As the class itself holds it, whatever its metaclass makes of the question.
        return str(type.__dict__["__name__"].__get__(type(error)))
    except Exception:  # noqa: BLE001 - no turn may feel it
        return "error"


def _status(status: object) -> str:
    """The four forms that the ADR has; any other word is an error's, and what is no word too."""
    if not issubclass(type(status), str):
        return Own("error:error")
    status = str.__str__(cast("str", status))
    if status in (COMPLETED, CANCELLED, REFUSED):
        return Own(status)
    name = status.removeprefix("error:")
    if not is_label(name):
        return Own("error:error")
    return Own(f"error:{name if redact_name(name) == name else MASK}")
