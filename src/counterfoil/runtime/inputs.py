"""Inputs that joined a run under way: the run reads them as a memoised step, so a resumed run reads the same ones."""

from __future__ import annotations

from typing import Any, Final

from counterfoil.flow.context import RunScope
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Events, Flow, Read, RowOf, Rows
from counterfoil.runtime import rows
from counterfoil.runtime.events import about
from counterfoil.runtime.state import ABSORBED
from counterfoil.store.rows import Key, Row

STEP_NAME: Final = "counterfoil.inputs"

_PAGE_ROWS: Final = 100


class Inputs:
    """Which absorbed admissions this run has read (``scope.part(Inputs)``)."""

    def __init__(self, scope: RunScope) -> None:
        self.read: set[str] = set()
        for event in scope.history:
            if event.type == "step.finished" and event.data["name"] == STEP_NAME:
                self.note((event.content_or_none() or {}).get("result"))

    def note(self, messages: Any) -> None:
        """These inputs were handed to the run."""
        for message in messages or ():
            self.read.add(message["admission_id"])


def unread_inputs(scope: RunScope) -> Flow[list[str]]:
    """Admissions that this run absorbed and has not read, oldest first."""
    read = scope.part(Inputs).read
    run: Row | None = yield Read(RowOf(rows.RUNS, (scope.run_id,)))
    if run is None:
        return []
    unread: list[str] = []
    # Nothing joined the run before it began, so older absorbed inputs of the conversation are passed over.
    after: Key = (scope.stream_id, ABSORBED, run["started_sequence"], "")
    while True:
        page: list[Row] = yield Read(
            Rows(rows.ADMISSIONS, "by_state", (scope.stream_id, ABSORBED), _PAGE_ROWS, after)
        )
        mine = (row["admission_id"] for row in page if row["run_id"] == scope.run_id)
        unread += [str(admission_id) for admission_id in mine if admission_id not in read]
        if len(page) < _PAGE_ROWS:
            return unread
        last = page[-1]
        after = (last["stream_id"], last["state"], last["sequence"], last["admission_id"])


def read_inputs(scope: RunScope) -> Flow[list[dict[str, Any]]]:
    """The unread inputs with their messages, in the order they were accepted."""
    wanted = set((yield from unread_inputs(scope)))
    if not wanted:
        return []
    accepted: list[Event] = yield Read(Events(scope.stream_id, types=frozenset({"admission.accepted"})))
    return [
        {"admission_id": event.data["admission_id"], "message": about(event.content).get("message")}
        for event in accepted
        if event.data["admission_id"] in wanted
    ]
