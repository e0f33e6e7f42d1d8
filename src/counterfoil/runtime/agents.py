"""Every agent this process has registered, by name: what a worker enters again when a run can go on."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct

from counterfoil.abc import Policy
from counterfoil.core.forms import is_label
from counterfoil.errors import InvalidForm
from counterfoil.runtime.budgets.limits import Budget, limits_of

if TYPE_CHECKING:
    from counterfoil.runtime.run import Run

F = TypeVar("F", bound=Callable[..., Any])

_agents: Final[dict[str, Agent]] = {}


class Agent(Struct, frozen=True):
    """A registered agent: ``fn(run)`` does the work of one run inside its block."""

    name: str
    fn: Callable[[Run], Any]
    version: str | None = None
    policy: Policy | None = None
    budget: Budget | Mapping[str, Any] | None = None

    @property
    def asynchronous(self) -> bool:
        """Whether the run is entered with ``async with``."""
        return inspect.iscoroutinefunction(self.fn)


def agent(
    name: str,
    *,
    version: str | None = None,
    policy: Policy | None = None,
    budget: Budget | Mapping[str, Any] | None = None,
) -> Callable[[F], F]:
    """Register ``fn(run)``, plain or async, as the code of the runs of this agent, so that a worker can go on with them.

    The function stays as it is: ``with ledger.run(name, …) as run: fn(run)``. It gets everything from the run
    (``run.message``, ``run.id``), because a worker has nothing else. ``policy`` judges its effects in a worker, as the
    policy of ``counterfoil.open`` does elsewhere. ``budget`` is what each of its runs may use. Raises :class:`counterfoil.errors.InvalidForm`.

    >>> @counterfoil.agent("greeter")
    ... def greet(run):
    ...     run.finish(f"Good day, {run.message}!")
    >>> with counterfoil.open(":memory:") as ledger, ledger.run("greeter", message="Ada") as run:
    ...     greet(run)
    >>> run.output
    'Good day, Ada!'
    """
    for label in (name, *(() if version is None else (version,))):
        if not is_label(label):
            raise InvalidForm(
                "an agent's name and version are labels: 1 to 128 of A-Za-z0-9_.:/+-", argument="name"
            )

    limits_of(budget)

    def register(fn: F) -> F:
        given: Any = fn
        if not callable(given) or isinstance(given, type):
            raise InvalidForm("agent decorates a plain or async function that takes the run", argument="fn")
        known = _agents.get(name)
        if known is not None and _place(known.fn) != _place(fn):
            raise InvalidForm(f"agent {name} is registered twice", argument="name")
        _agents[name] = Agent(name, fn, version, policy, budget)
        return fn

    return register


def agents() -> list[Agent]:
    """Every registered agent, by name."""
    return [_agents[name] for name in sorted(_agents)]


def find_agent(name: str) -> Agent | None:
    """The agent of this name, or None."""
    return _agents.get(name)


@contextmanager
def own_agents() -> Iterator[None]:
    """Agents registered inside are forgotten afterwards, and those from outside are not seen; for tests."""
    kept = dict(_agents)
    _agents.clear()
    try:
        yield
    finally:
        _agents.clear()
        _agents.update(kept)


def _place(fn: Callable[..., Any]) -> tuple[str, str]:
    # By file, so that a module that is loaded once more replaces itself.
    code = getattr(fn, "__code__", None)
    file = getattr(fn, "__module__", "") if code is None else code.co_filename
    return file, getattr(fn, "__qualname__", "")
