"""The turn of a run at its end: where the ledger is to keep turns' heads, one event more says it (DESIGN 8)."""

from __future__ import annotations

import logging
from typing import Final

from counterfoil.core.event import Draft
from counterfoil.errors import CounterfoilError
from counterfoil.flow.context import RunScope
from counterfoil.flow.requests import Flow, Read, RowOf
from counterfoil.journal.run import turn_committed
from counterfoil.runtime.rows import RUNS
from counterfoil.store.rows import Row

SESSION: Final = "session"
"""Purpose of the index value by which the turns of a conversation are found (FORMAT 3, 17)."""

log: logging.Logger = logging.getLogger("counterfoil.journal")


class Turning:
    """Whether the heads of turns are kept (``scope.part(Turning)``)."""

    def __init__(self, scope: RunScope) -> None:
        del scope
        self.on: bool = False


def kept_turn(scope: RunScope, finished: Draft) -> Flow[list[Draft]]:
    """The ``turn.committed`` that goes with a run's end, if it is wanted. Whatever hinders it, the run ends."""
    if not scope.part(Turning).on:
        return []
    try:
        row: Row | None = yield Read(RowOf(RUNS, (scope.run_id,)))
        if row is None:
            return []
        session_hash = scope.ports.index(SESSION, scope.stream_id)
        return [(yield from turn_committed(scope, scope.ports.tenant, session_hash, row, finished))]
    except CounterfoilError as error:
        log.error("the turn of run %s was not kept: %s", scope.run_id, error.code)  # noqa: TRY400 - a trace could show content
        return []
