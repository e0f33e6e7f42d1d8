"""Leases on the database's clock: claim, renew, release, each inside a write transaction."""

from __future__ import annotations

from counterfoil.adapters.postgres.checks import check, check_duplicate
from counterfoil.adapters.postgres.connect import BoundedConnection, fetch
from counterfoil.adapters.postgres.plan import Job
from counterfoil.adapters.postgres.schema import quoted
from counterfoil.adapters.postgres.transaction import WriteTransaction
from counterfoil.adapters.shared.refusals import check_claim, released, renewed
from counterfoil.store.unit import Claimed, Lease, Receipt


def claim(
    transaction: WriteTransaction, stream_id: str, owner: str, ttl_ms: int, expect_token: int, job: Job | None
) -> Claimed:
    """See ``Store.claim``. What it raises leaves nothing behind: the engine rolls back."""
    if job is not None and job.refusal is not None:
        raise job.refusal
    begin_with(transaction, job, stream_id)
    head = transaction.heads.get(stream_id)
    check_claim(stream_id, head, expect_token, () if job is None else job.streams, transaction.now_ms)
    token = expect_token + 1
    receipt = None if job is None else require(transaction, job, {stream_id: token})
    head = transaction.heads[stream_id]
    until = transaction.now_ms + ttl_ms
    head.token, head.owner, head.until, head.leased_anew = token, owner, until, True
    transaction.move(head)
    return Claimed(Lease(stream_id, token, owner, until), receipt)


def renew(transaction: WriteTransaction, lease: Lease, ttl_ms: int) -> Lease:
    """See ``Store.renew``."""
    transaction.begin([lease.stream_id])
    head = transaction.heads.get(lease.stream_id)
    longer = renewed(head, lease, transaction.now_ms + ttl_ms)
    assert head is not None
    head.leased_anew = True
    transaction.move(head)
    return longer


def release(transaction: WriteTransaction, lease: Lease) -> None:
    """See ``Store.release``."""
    transaction.begin([lease.stream_id])
    head = transaction.heads.get(lease.stream_id)
    if head is not None and released(head, lease):
        head.leased_anew = True
        transaction.move(head)


def stands(connection: BoundedConnection, schema: str, lease: Lease) -> bool:
    """Whether exactly this lease is the stream's newest; for a claim whose answer was lost.

    Waits for the head's lock, which the claim holds as long as its commit is still on its way on the server.
    """
    rows = fetch(
        connection,
        f"SELECT token, lease_until FROM {quoted(schema)}.head WHERE stream_id = %s FOR UPDATE",
        (lease.stream_id,),
    )
    return rows == [(lease.token, lease.expires_at_ms)]


def begin_with(transaction: WriteTransaction, job: Job | None, *stream_ids: str) -> None:
    """Begin a transaction that records one unit, if any, beside something else done to these streams."""
    parts = () if job is None else job.streams
    transaction.begin(
        [*stream_ids, *(part.stream_id for part in parts)],
        [(part.stream_id, event.event_id) for part in parts for event in part.events],
        {} if job is None else job.keys,
        None if job is None else job.written,
    )


def require(transaction: WriteTransaction, job: Job, tokens: dict[str, int] | None = None) -> Receipt:
    """Record a unit that must succeed with the rest of its transaction. Raises what refuses it."""
    if job.refusal is not None:
        raise job.refusal
    receipt = check_duplicate(transaction.recorded, job)
    if receipt is None:
        check(transaction.heads, transaction.rows, job, tokens or {})
        receipt = transaction.place(job)
    return receipt
