"""What ``counterfoil show`` shows of requests: one exactly, or those of a run with what they share."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.finding import Named
from counterfoil.cli.render.cells import text
from counterfoil.cli.render.line import Line, Span
from counterfoil.cli.render.requested import request_json, request_lines, requests_lines
from counterfoil.errors import ContentUnavailable
from counterfoil.runtime.rebuild import RecordedRequest

if TYPE_CHECKING:
    from counterfoil.client.ledger import Ledger


def show_request(face: Face, ledger: Ledger, step: str, named: Named | None, *, raw: bool, full: bool) -> int:
    """One request; ``raw`` writes the bytes as they were sent and nothing else.

    Raises ``ContentUnavailable`` for raw bytes that cannot be made again.
    """
    found = ledger.request(step, None if named is None else named.stream_id)
    if raw:
        if found.body is None:
            gone = found.gone[0]
            raise ContentUnavailable(
                f"the request of {step} cannot be made again: content of event {gone.sequence} is {gone.state}",
                hint=gone.reason,
                state=gone.state,
                sequence=gone.sequence,
            )
        face.flush()
        sys.stdout.buffer.write(found.body)
        sys.stdout.buffer.flush()
    elif face.as_json:
        face.give(request_json(found))
    else:
        face.say(request_lines(found, face.columns, full=full))
    return Exit.DONE


def show_requests(face: Face, ledger: Ledger, named: Named, limit: int) -> int:
    """The requests of a conversation or run in order, at most ``limit``."""
    run_id = None if named.run is None else text(named.run, "run_id")
    found: list[RecordedRequest] = []
    more = False
    for one in ledger.requests(named.stream_id, run_id):
        more = len(found) == limit
        if more:
            break
        if face.as_json:
            face.give(request_json(one, body=False))
        found.append(one)
    if not face.as_json:
        face.say(requests_lines(found, face.columns) if found else Line(Span("· no requests here", "quiet")))
        if more:
            face.say(Line(Span(f"  more than {limit}: see --limit", "quiet")))
    return Exit.DONE
