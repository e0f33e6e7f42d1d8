"""The checks of an append on locked heads and rows, in the order of the contract: duplicate, fenced, expected, guards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from counterfoil.adapters.memory.tables import Table, check_guards
from counterfoil.adapters.postgres.heads import HeadState
from counterfoil.adapters.postgres.plan import Job
from counterfoil.adapters.shared.duplicates import Recorded, receipt_of_recorded
from counterfoil.adapters.shared.refusals import check_expected, check_stream, check_token
from counterfoil.store.unit import Receipt

RecordedEvents = dict[tuple[str, str], Recorded]
"""Events that are there already, by stream and event id."""


def check_duplicate(recorded: RecordedEvents, job: Job) -> Receipt | None:
    """See ``shared.duplicates.receipt_of_recorded``."""

    def find(stream_id: str, event_ids: Sequence[str]) -> dict[str, Recorded]:
        found = {event_id: recorded.get((stream_id, event_id)) for event_id in event_ids}
        return {event_id: known for event_id, known in found.items() if known is not None}

    return receipt_of_recorded(job.streams, find)


def check(
    heads: Mapping[str, HeadState], tables: Mapping[str, Table], job: Job, tokens: Mapping[str, int]
) -> None:
    """Stream, fenced, expected, guards; each over all streams before the next begins.

    ``tokens`` holds the fencing tokens that a claim is about to set. Raises what the unit is refused with.
    """
    parts = [(part, heads.get(part.stream_id)) for part in job.streams]
    for part, head in parts:
        check_stream(part, head)
    for part, head in parts:
        check_token(part, head, tokens.get(part.stream_id))
    for part, head in parts:
        check_expected(part, head)
    check_guards(tables, job.unit.guards)
