"""The crash matrix in one call, for agents and tools of one's own, and a ledger that ends with the test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterfoil.effects.registry import register, tools
from counterfoil.testing.crash import CrashPoint, Scenario, World, run_matrix
from counterfoil.testing.manual import ManualClock, SequentialIds

if TYPE_CHECKING:
    from counterfoil.client.ledger import Ledger
    from counterfoil.effects.tool import Tool


def memory_ledger(**options: Any) -> Ledger:
    """A ledger in memory on a clock moved by hand, with ids that count; ``options`` as of ``counterfoil.open``.

    >>> with memory_ledger() as ledger, ledger.run("greeter", conversation="hello") as run:
    ...     run.id
    'run_01M1EP32BW5JHS04JT00000009'
    """
    from counterfoil.client import ledger

    return ledger.open(":memory:", **{"clock": ManualClock(), "ids": SequentialIds(), **options})


def crash_everywhere(
    work: Callable[[Ledger], Any],
    *,
    check: Callable[[Ledger], None],
    before: Callable[[], Any] = lambda: None,
    place: Path | str | None = None,
) -> tuple[CrashPoint, ...]:
    """Let a worker die before and after everything ``work`` asks of the ledger and of the world, and look each time.

    For each such point there is a new ledger: ``before()`` sets the world outside up, ``work(ledger)`` runs until it
    dies there, time passes, ``ledger.recover()`` ends what doubt it can, ``work`` runs again, and ``check(ledger)`` says what
    must be true. That what is final was never sent again, that rows are what the events say and that the ledger
    verifies is asserted besides. ``work`` may be a coroutine function. Tools declared before the call are known.

    In memory unless ``place`` names a fresh directory, or a server as ``run_matrix`` takes it. Returns the points,
    each tried. A failed assertion is raised with a note that names the point.
    """
    return run_matrix(partial(_Given, tools(), work, check, before), directory=place).points


class _Given(Scenario):
    """What a caller gave, as a scenario of the matrix."""

    def __init__(
        self,
        known: Sequence[Tool[..., Any]],
        work: Callable[[Ledger], Any],
        check: Callable[[Ledger], None],
        before: Callable[[], Any],
    ) -> None:
        self._known, self._work, self._check, self._before = known, work, check, before

    def prepare(self, world: World) -> None:  # noqa: ARG002 - the matrix gives it
        for tool in self._known:
            register(tool)
        self._before()

    def work(self, ledger: Ledger) -> Any:
        return self._work(ledger)

    def check(self, world: World, ledger: Ledger) -> None:  # noqa: ARG002 - the matrix gives it
        self._check(ledger)
