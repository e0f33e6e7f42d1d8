"""Tools and models with the journal around them, for sync and async code: nothing they give or raise is changed."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from counterfoil.errors import RunSuspended
from counterfoil.journal.digests import arguments_hash, result_digest
from counterfoil.journal.lazily import at_its_end
from counterfoil.journal.markers import PARKED, Marker
from counterfoil.journal.writer import report

if TYPE_CHECKING:
    from counterfoil.journal.recorder import Route, TurnRecorder

P = ParamSpec("P")
R = TypeVar("R")


def journaled(
    fn: Callable[P, R], *, name: str | None = None, turn: TurnRecorder | None = None
) -> Callable[P, R]:
    """``fn`` with a TOOL_CALL in the turn for each call; without ``turn``, in the one that the caller is inside of.

    It stands outside of whatever guards the tool has, so that what they answer in the tool's place is seen too. The
    turn is the current one while the tool runs: a sub-agent's turn that it begins names it as parent.
    """
    shown = _quietly(lambda: name or getattr(fn, "__name__", None)) or type(fn).__name__

    if _is_async(fn):

        async def call_async(*args: Any, **kwargs: Any) -> Any:
            call = _Call.begin(turn, shown, fn, args, kwargs)
            if call is None:
                return await cast("Any", fn)(*args, **kwargs)
            with call:
                return call.returned(await cast("Any", fn)(*args, **kwargs))

        return cast("Callable[P, R]", _like(fn, call_async))

    def call_sync(*args: P.args, **kwargs: P.kwargs) -> R:
        call = _Call.begin(turn, shown, fn, args, kwargs)
        if call is None:
            return fn(*args, **kwargs)
        with call:
            result = call.returned(fn(*args, **kwargs))
        return cast("R", result)

    return _like(fn, call_sync)


class _Call:
    """One call of a tool: begins before it, and records what came of it."""

    def __init__(self, turn: TurnRecorder, name: str, arguments: str | None) -> None:
        self._turn = turn
        self._name = name
        self._arguments = arguments
        self._began = time.monotonic_ns()
        self._result: Any = None
        self._token: Any = None
        self._later = False

    @classmethod
    def begin(
        cls,
        turn: TurnRecorder | None,
        name: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> _Call | None:
        """A call in this turn, or in the current one; None when there is none. Arguments are hashed before they change."""
        from counterfoil.journal.recorder import current_turn

        turn = turn or current_turn()
        if turn is None or not turn.enabled:
            return None
        return cls(turn, name, _quietly(lambda: arguments_hash(fn, args, kwargs)))

    def __enter__(self) -> None:
        from counterfoil.journal.recorder import enter_turn

        self._token = enter_turn(self._turn)

    def returned(self, result: Any) -> Any:
        """Note what came back; where the work is still to be done, it is recorded when that has ended."""
        later = at_its_end(result, self._ended)
        if later is not None:
            self._later = True
            return later
        self._result = result
        return result

    def _ended(self, result: Any, error: BaseException | None) -> None:
        self._result = result
        self._record(error)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        from counterfoil.journal.recorder import leave_turn

        leave_turn(self._token)
        if not self._later:
            self._record(error)

    def _record(self, error: BaseException | None) -> None:
        try:
            self._tell(error)
        except Exception as failure:  # noqa: BLE001 - whatever goes wrong here, no tool may feel it
            self._turn.missed(failure)

    def _tell(self, error: BaseException | None) -> None:
        ms = (time.monotonic_ns() - self._began) // 1_000_000
        marker = self._parked(error) if error is not None else self._found()
        if marker is not None and marker.kind == PARKED:
            self._turn.approval_pending(marker.request, tool=self._name)
            self._turn.tool_call(self._name, "parked", arguments=self._arguments, ms=ms)
        elif marker is not None:
            self._turn.tool_call(self._name, "blocked", arguments=self._arguments, kind=marker.kind, ms=ms)
        elif error is not None:
            self._turn.tool_call(self._name, "error", arguments=self._arguments, error=error, ms=ms)
        else:
            digest = _quietly(lambda: result_digest(self._result))
            self._turn.tool_call(self._name, "ok", arguments=self._arguments, result=digest, ms=ms)

    def _found(self) -> Marker | None:
        """What a result says of the platform; one that raises when it is looked at says nothing."""
        return _quietly(lambda: self._turn.markers.find(self._result))

    def _parked(self, error: BaseException) -> Marker | None:
        """A call of a Counterfoil tool that a person has to permit first."""
        if isinstance(error, RunSuspended) and error.cause == "approval":
            return Marker(PARKED, error.waits_for[0] if error.waits_for else None)
        return None


def journaled_model(
    fn: Callable[P, R], turn: TurnRecorder, *, provider: str, model: str, route: Route
) -> Callable[P, R]:
    """``fn`` with a MODEL_CALL in the turn for each call."""

    def note(began: int, error: BaseException | None) -> None:
        ms = (time.monotonic_ns() - began) // 1_000_000
        _quietly(lambda: turn.model_call(provider, model, route=route, ms=ms, error=error))

    def answered(began: int, answer: Any) -> Any:
        later = at_its_end(answer, lambda _, error: note(began, error))
        if later is not None:
            return later
        note(began, None)
        return answer

    if _is_async(fn):

        async def ask_async(*args: Any, **kwargs: Any) -> Any:
            began = time.monotonic_ns()
            try:
                answer = await cast("Any", fn)(*args, **kwargs)
            except BaseException as error:
                note(began, error)
                raise
            return answered(began, answer)

        return cast("Callable[P, R]", _like(fn, ask_async))

    def ask_sync(*args: P.args, **kwargs: P.kwargs) -> R:
        began = time.monotonic_ns()
        try:
            answer = fn(*args, **kwargs)
        except BaseException as error:
            note(began, error)
            raise
        return cast("R", answered(began, answer))

    return _like(fn, ask_sync)


def _like(fn: Callable[..., Any], around: Callable[P, R]) -> Callable[P, R]:
    """``around`` with the name, text and signature of ``fn``, as far as that tells them."""
    with suppress(Exception):
        functools.update_wrapper(around, fn)
    return around


def _is_async(fn: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine; of an object that will not be looked at, no."""
    try:
        return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004 - the method itself is wanted
    except Exception:  # noqa: BLE001 - whatever goes wrong here, no tool may feel it
        return False


def _quietly(work: Callable[[], R]) -> R | None:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - whatever goes wrong here, no tool may feel it
        report("a call of a tool was not journaled", error)
        return None
