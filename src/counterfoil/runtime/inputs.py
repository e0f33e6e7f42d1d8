"""Inputs that joined a run under way: the run reads them as a memoised step, so a resumed run reads the same ones."""

from __future__ import annotations

from typing import Any, Final

from counterfoil.flow.context import RunScope
from counterfoil.flow.requests import Flow, Read, Rows
from counterfoil.runtime import rows
from counterfoil.runtime.facts import admitted_message
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
    unread: list[str] = []
    after: Key | None = None
    while True:
        page: list[Row] = yield Read(
            Rows(rows.ADMISSIONS, "by_run", (scope.run_id, ABSORBED), _PAGE_ROWS, after)
        )
        joined = (str(row["admission_id"]) for row in page)
        unread += [admission_id for admission_id in joined if admission_id not in read]
        if len(page) < _PAGE_ROWS:
            return unread
        after = rows.ADMISSIONS_TABLE.place_in("by_run", page[-1])


def read_inputs(scope: RunScope) -> Flow[list[dict[str, Any]]]:
    """The unread inputs with their messages, in the order they were accepted."""
    found = []
    for admission_id in (yield from unread_inputs(scope)):
        message = yield from admitted_message(admission_id)
        found.append({"admission_id": admission_id, "message": message})
    return found
