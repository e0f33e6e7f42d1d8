"""A tool that declares itself once, and is performed through the ledger when it is called inside a run."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic, Literal, ParamSpec, TypeVar, cast, overload

from counterfoil.abc.policy import TOUCHES
from counterfoil.artifacts.handle import Artifact
from counterfoil.core.forms import is_label
from counterfoil.effects.compensation import Compensate, Compensation, PlannedCall
from counterfoil.effects.doubt import DoubtRule
from counterfoil.effects.handle import Handle
from counterfoil.effects.identity import content_key
from counterfoil.effects.registry import register
from counterfoil.effects.retry import Retry, policies_of
from counterfoil.effects.signature import KEY_PARAMETER, Parameters, check_takes, chosen
from counterfoil.effects.suitable import check_key_arrives, checked_identity, unfit
from counterfoil.effects.unrecorded import LedgerDown, ledger_down_of, perform_or_call
from counterfoil.errors import ToolInvalid
from counterfoil.errors.base import text_of
from counterfoil.flow.context import RunScope, current_scope
from counterfoil.flow.drive import adrive, drive
from counterfoil.flow.requests import Flow

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")

KEY_CHARACTERS_MAX: Final = 1_000

_numbers = itertools.count(1)


class Tool(Generic[P, R_co]):
    """A declared tool. Calling it inside a run performs it: intention, call, observation. Made by :func:`effect`.

    It looks like its function to whoever inspects it, without the ``idempotency_key`` that Counterfoil gives.
    """

    def __init__(
        self,
        fn: Callable[P, R_co],
        *,
        name: str,
        version: str,
        touches: Collection[str],
        key: Callable[..., str] | Literal["content"] | None,
        doubt: DoubtRule,
        timeout_s: float,
        repeatable: bool,
        provider_id: Callable[[Any], str | None] | None,
        artifacts: Callable[..., Iterable[Path | bytes | Artifact]] | None = None,
        retry: Retry | Sequence[Retry] | None = None,
        identity: Collection[str] | None = None,
        schema: Mapping[str, Any] | None = None,
        compensate: Tool[..., Any] | Compensate | None = None,
        irreversible: str | None = None,
        when_ledger_down: LedgerDown | None = None,
    ) -> None:
        _check(fn, name, version, touches, key, doubt, timeout_s)
        self.fn: Callable[..., Any] = _function_of(fn)
        self.name = name
        self.version = version
        self.touches: tuple[str, ...] = tuple(sorted(touches))
        self.doubt = doubt
        self.timeout_s = timeout_s
        self.repeatable = repeatable
        self.when_ledger_down: LedgerDown = ledger_down_of(
            when_ledger_down, name, touches=self.touches, doubt=doubt, has_key=key is not None
        )
        self.retry: tuple[Retry, ...] = policies_of(retry, name, any_error=doubt.kind == "repeat")
        self.asynchronous: bool = inspect.iscoroutinefunction(self.fn)
        self.parameters: Parameters = Parameters(fn, name, schema)
        self.identity: tuple[str, ...] | None = checked_identity(identity, self.parameters, name, key)
        check_key_arrives(name, doubt, self.parameters)
        self._key = key
        self._provider_id = provider_id
        offered = self.parameters.offered
        self._artifacts = artifacts
        self._artifacts_take = (
            None if artifacts is None else check_takes(artifacts, offered, "artifacts", name)
        )
        self._key_takes = check_takes(key, offered, "key", name) if callable(key) else None
        self._lookup_takes = self._checked_lookup(offered)
        self.compensation: Compensation | None = (
            None if compensate is None else Compensation(compensate, self.parameters, name)
        )
        self.irreversible: str | None = irreversible
        self._look_like(fn)

    def _checked_lookup(self, offered: frozenset[str] | None) -> frozenset[str] | None:
        lookup = self.doubt.lookup
        if lookup is None:
            return None
        if inspect.iscoroutinefunction(lookup) and not self.asynchronous:
            raise ToolInvalid(
                f"the lookup of tool {self.name} is async and the tool is not",
                hint="make both async or both plain functions",
                tool=self.name,
            )
        if offered is not None and self.parameters.takes_key:
            offered |= {KEY_PARAMETER}
        return check_takes(lookup, offered, "lookup", self.name)

    def _look_like(self, fn: Callable[P, R_co]) -> None:
        """Name, documentation and signature of the function; frameworks make the model's schema from them."""
        functools.update_wrapper(cast("Any", self), fn)
        looks: dict[str, Any] = {"__signature__": self.parameters.shown}
        annotations = dict(getattr(fn, "__annotations__", {}))
        annotations.pop(KEY_PARAMETER, None)
        looks["__annotations__"] = annotations
        if self.asynchronous:
            # `inspect.iscoroutinefunction` believes whatever has a function's code and defaults.
            for name in ("__code__", "__defaults__", "__kwdefaults__"):
                looks[name] = getattr(fn, name, None)
        vars(self).update(looks)

    @property
    def description(self) -> str:
        """The first paragraph of the function's docstring, on one line."""
        text = inspect.getdoc(self.fn) or ""
        return " ".join(text.split("\n\n")[0].split())

    def __repr__(self) -> str:
        return f"<tool {self.name} {self.version}>"

    # ---- calling ----

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Perform the tool in the run around this code; an async tool gives a coroutine.

        A sync tool called inside an async run runs in a thread while its caller waits; ``await tool.acall(…)`` waits
        without holding up the event loop. Raises :class:`counterfoil.errors.NoRun` outside a run.
        """
        scope = current_scope()
        if self.asynchronous:
            if not scope.asynchronous:
                raise ToolInvalid(
                    f"tool {self.name} is async and was called in a sync run",
                    hint="use `async with ledger.run(…)`, or declare a plain function",
                    tool=self.name,
                )
            return cast("R_co", self._perform_as_task(scope, args, kwargs))
        return cast("R_co", self._perform(scope, args, kwargs))

    @overload
    async def acall(self: Tool[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    async def acall(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    async def acall(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """As calling, to be awaited: a sync tool then does not hold up the event loop."""
        scope = current_scope()
        if not scope.asynchronous:
            raise ToolInvalid(
                f"tool {self.name} was awaited in a sync run",
                hint="use `async with ledger.run(…)`",
                tool=self.name,
            )
        return await self._perform_as_task(scope, args, kwargs)

    def later(self, *args: P.args, **kwargs: P.kwargs) -> PlannedCall:
        """This call, written down to be made later, such as by a repair. Nothing is performed. Raises ToolInvalid."""
        return PlannedCall(self, self.parameters.bind(args, kwargs, self.name))

    def _flow(
        self, scope: RunScope, args: tuple[Any, ...], kwargs: Mapping[str, Any], handle: Handle
    ) -> Flow[Any]:
        return perform_or_call(scope, self, self.parameters.bind(args, kwargs, self.name), handle)

    def _perform(self, scope: RunScope, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        handle = Handle()
        flow = self._flow(scope, args, kwargs, handle)
        with handle.at_work(scope, self._flight_name()):
            return drive(flow, scope.ports)

    async def _perform_as_task(
        self, scope: RunScope, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """A task of the run's own: cancelling the caller neither tears it down nor loses what it learns (DESIGN 7)."""
        import asyncio

        handle = Handle(own_task=True)
        flow = self._flow(scope, args, kwargs, handle)
        task = asyncio.create_task(
            self._drive_in_flight(scope, flow, handle), name=f"counterfoil {self.name}"
        )
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            handle.leave(task)
            raise
        return task.result()

    async def _drive_in_flight(self, scope: RunScope, flow: Flow[Any], handle: Handle) -> Any:
        with handle.at_work(scope, self._flight_name()):
            return await adrive(flow, scope.ports)

    def _flight_name(self) -> str:
        return f"{self.name}#{next(_numbers)}"

    # ---- what the declaration says of one call ----

    @property
    def each_call_its_own(self) -> bool:
        """Whether every occurrence is an effect of its own rather than a repetition of the first."""
        return self.repeatable or self.doubt.kind == "repeat"

    @property
    def known_by(self) -> Literal["key", "content", "each_call", "identity", "arguments"]:
        """What tells its calls apart: a business key, all arguments in the tenant, every call, or arguments in a run."""
        if self._key is not None:
            return "content" if isinstance(self._key, str) else "key"
        if self.each_call_its_own:
            return "each_call"
        return "arguments" if self.identity is None else "identity"

    @property
    def named_by_key(self) -> bool:
        """Whether the application names its effects by a key of its own, and not the run by its calls."""
        return self._key is not None

    def key_of(self, arguments: Mapping[str, Any]) -> str | None:
        """The business key of a call with these arguments, or None. Raises ToolInvalid when it is no usable text."""
        if self._key is None:
            return None
        if isinstance(self._key, str):
            return content_key(self.name, arguments)
        key: Any = self._key(**chosen(arguments, self._key_takes))
        if not isinstance(key, str) or not 0 < len(key) <= KEY_CHARACTERS_MAX:
            raise ToolInvalid(
                f"the key of tool {self.name} must be text of 1 to {KEY_CHARACTERS_MAX} characters;"
                f" its function returned {type(key).__name__}",
                tool=self.name,
            )
        return str.__str__(key)

    @property
    def refers_to_artifacts(self) -> bool:
        """Whether its declaration names artifacts that a call refers to."""
        return self._artifacts is not None

    def artifacts_of(
        self, arguments: Mapping[str, Any], address: Callable[[bytes | Path | Artifact], str]
    ) -> list[str]:
        """Addresses of what a call refers to, which its binding covers. Raises ToolInvalid for what cannot be read."""
        if self._artifacts is None:
            return []
        try:
            found = self._artifacts(**chosen(arguments, self._artifacts_take))
            return [address(item if isinstance(item, bytes | Artifact) else Path(item)) for item in found]
        except OSError as error:
            raise ToolInvalid(
                f"what this call of tool {self.name} refers to cannot be read: {error}", tool=self.name
            ) from error

    def lookup_arguments(self, arguments: Mapping[str, Any], key: str) -> dict[str, Any]:
        """What the doubt rule's lookup is called with: what it takes of the arguments, and of the key if it was sent."""
        sent = self.parameters.arguments_for_call(arguments, key)
        return chosen(sent, self._lookup_takes)

    def provider_id_of(self, result: Any) -> str | None:
        """The provider's own id of the effect, if the declaration says where it stands and it is there."""
        if self._provider_id is None or result is None:
            return None
        try:
            found = self._provider_id(result)
        except Exception:  # noqa: BLE001 - the effect has happened; a result of another shape must not hide it
            return None
        return None if found is None else text_of(found)


def _function_of(fn: Callable[..., Any]) -> Callable[..., Any]:
    """What is really called: of an object whose ``__call__`` is async, that method."""
    method = getattr(fn, "__call__", None)  # noqa: B004 - the method itself is wanted, not whether there is one
    return method if inspect.iscoroutinefunction(method) and not inspect.iscoroutinefunction(fn) else fn


def effect(
    name: str,
    *,
    version: str,
    touches: Collection[str],
    doubt: DoubtRule,
    key: Callable[..., str] | Literal["content"] | None = None,
    timeout_s: float = 30,
    repeatable: bool = False,
    provider_id: Callable[[Any], str | None] | None = None,
    artifacts: Callable[..., Iterable[Path | bytes | Artifact]] | None = None,
    retry: Retry | Sequence[Retry] | None = None,
    identity: Collection[str] | None = None,
    schema: Mapping[str, Any] | None = None,
    compensate: Tool[..., Any] | Compensate | None = None,
    irreversible: str | None = None,
    when_ledger_down: LedgerDown | None = None,
) -> Callable[[Callable[P, R_co]], Tool[P, R_co]]:
    """Declare a function that acts on the outside world.

    ``touches`` names what it reaches (``money data access messages external``), ``doubt`` what to do when its outcome
    is unknown (:func:`by_key`, :func:`by_lookup`, :func:`by_repeating`, :func:`by_review`). ``key(**arguments)`` gives
    the business key: one effect per tenant, however often it is called. Without one, the same call in the same run is
    one effect, and a second call gets its recorded outcome unless ``repeatable``. ``timeout_s`` bounds one attempt in
    seconds. ``provider_id(result)`` picks the provider's own id out of the result. ``artifacts(**arguments)`` names the
    files, or gives the bytes or artifacts, that the call refers to: an approval does not hold for others. ``retry`` says which
    confirmed failures are tried again (:class:`counterfoil.effects.Retry`, or several).
    ``identity`` names the arguments by which calls of one run without a key are told apart; other values of the rest are
    a conflict. ``key="content"`` makes the key of all arguments. ``schema`` is the JSON schema of the arguments, made of
    the type hints unless given. ``compensate`` is the tool
    that undoes a call, given the arguments of the same names, or a function of the arguments and the ``result`` that
    plans calls with ``tool.later(…)``; ``irreversible`` says in a sentence what nothing can undo. ``when_ledger_down``
    is ``refuse``, or ``call`` to be called also when the ledger cannot record it; what touches nothing is, unless declared
    otherwise. A parameter ``idempotency_key`` of the function is filled in by Counterfoil. Raises :class:`counterfoil.errors.ToolInvalid`.

    Example::

        @counterfoil.effect("payment.refund", version="1", touches={"money"},
                            key=lambda order, line, **_: f"refund:{order}:{line}",
                            doubt=counterfoil.by_lookup(find_refund))
        def refund(order: str, line: int, *, idempotency_key: str = "") -> dict: ...
    """

    def declare(fn: Callable[P, R_co]) -> Tool[P, R_co]:
        tool = Tool(
            fn,
            name=name,
            version=version,
            touches=touches,
            key=key,
            doubt=doubt,
            timeout_s=timeout_s,
            repeatable=repeatable,
            provider_id=provider_id,
            artifacts=artifacts,
            retry=retry,
            identity=identity,
            schema=schema,
            compensate=compensate,
            irreversible=irreversible,
            when_ledger_down=when_ledger_down,
        )
        register(tool)
        return tool

    return declare


def _are_labels(touches: Any) -> bool:
    """Whether this is a collection of what a tool may touch; one text alone is not."""
    try:
        return not isinstance(touches, str | bytes) and TOUCHES.issuperset(touches)
    except TypeError:
        return False


def _check(fn: Any, name: Any, version: Any, touches: Any, key: Any, doubt: Any, timeout_s: Any) -> None:
    """Refuse a wrong declaration. Taken as anything: not everybody who declares a tool runs a type checker."""
    problem = None
    if not callable(fn) or isinstance(fn, Tool | type):
        problem = "effect decorates a plain or async function"
    elif (problem := unfit(fn)) is not None:
        pass
    elif not is_label(name) or not is_label(version):
        problem = "a tool's name and version are labels: letters, digits and _.:/+-, at most 128"
    elif not _are_labels(touches):
        problem = f"touches is a set of {', '.join(sorted(TOUCHES))}"
    elif key is not None and key != "content" and not callable(key):
        problem = 'key is a function of the arguments, or "content"'
    elif not isinstance(doubt, DoubtRule):
        problem = "doubt is by_key(), by_lookup(fn), by_repeating() or by_review()"
    elif isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 < timeout_s <= 86_400:
        problem = "timeout_s is a number of seconds above 0 and at most a day"
    elif doubt.kind == "repeat" and (key is not None or len(touches) > 0):
        problem = "by_repeating is for tools that touch nothing: no key, and touches=set(), as reading touches nothing"
    if problem is not None:
        raise ToolInvalid(f"tool {name!r} cannot be declared: {problem}", tool=str(name)[:128])
