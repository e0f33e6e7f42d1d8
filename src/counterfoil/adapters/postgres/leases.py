"""Leases on the database's clock: claim, renew, release, each inside a write transaction."""

from __future__ import annotations

from counterfoil.adapters.postgres.checks import check, check_duplicate, fenced
from counterfoil.adapters.postgres.connect import BoundedConnection, fetch
from counterfoil.adapters.postgres.heads import HeadState
from counterfoil.adapters.postgres.plan import Job
from counterfoil.adapters.postgres.schema import quoted
from counterfoil.adapters.postgres.transaction import WriteTransaction
from counterfoil.errors import LeaseHeld, StreamNotFound
from counterfoil.store.unit import Claimed, Lease, Receipt


def claim(
    transaction: WriteTransaction, stream_id: str, owner: str, ttl_ms: int, expect_token: int, job: Job | None
) -> Claimed:
    """See ``Store.claim``. What it raises leaves nothing behind: the engine rolls back."""
    if job is not None and job.refusal is not None:
        raise job.refusal
    begin_with(transaction, job, stream_id)
    head = transaction.heads.get(stream_id)
    _check_claim(stream_id, head, expect_token, job, transaction.now_ms)
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
    if head is None:
        raise StreamNotFound(f"there is no stream {lease.stream_id}", stream_id=lease.stream_id)
    if head.token != lease.token or head.owner is None or head.until is None:
        raise fenced(lease.stream_id, lease.token, head.token, head)
    head.until, head.leased_anew = max(head.until, transaction.now_ms + ttl_ms), True
    transaction.move(head)
    return Lease(lease.stream_id, head.token, head.owner, head.until)


def release(transaction: WriteTransaction, lease: Lease) -> None:
    """See ``Store.release``."""
    transaction.begin([lease.stream_id])
    head = transaction.heads.get(lease.stream_id)
    if head is not None and head.token == lease.token and head.owner is not None:
        head.owner = head.until = None
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


def _check_claim(
    stream_id: str, head: HeadState | None, expect_token: int, job: Job | None, now_ms: int
) -> None:
    creates = job is not None and any(
        part.stream_id == stream_id and part.create is not None for part in job.streams
    )
    if head is None and not creates:
        raise StreamNotFound(f"there is no stream {stream_id}", stream_id=stream_id)
    token = 0 if head is None else head.token
    if token != expect_token:
        raise fenced(stream_id, expect_token, token, head)
    lease = None if head is None else head.lease()
    if lease is not None and now_ms < lease.expires_at_ms:
        raise LeaseHeld(
            f"stream {stream_id} is leased until {lease.expires_at_ms} ms",
            hint="wait until it is released or expires, then look again",
            lease=lease,
        )
