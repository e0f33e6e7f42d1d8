"""Leases on the store's clock: claim, renew, release, each inside a write transaction."""

from __future__ import annotations

from counterfoil.adapters.sqlite.checks import fenced, require
from counterfoil.adapters.sqlite.heads import HeadState
from counterfoil.adapters.sqlite.plan import Job
from counterfoil.adapters.sqlite.transaction import WriteTransaction
from counterfoil.errors import LeaseHeld, StreamNotFound
from counterfoil.store.unit import Claimed, Lease


def claim(
    transaction: WriteTransaction, stream_id: str, owner: str, ttl_ms: int, expect_token: int, job: Job | None
) -> Claimed:
    """See ``Store.claim``. What it raises leaves nothing behind: the engine rolls back."""
    if job is not None and job.refusal is not None:
        raise job.refusal
    head = transaction.head(stream_id)
    _check_claim(stream_id, head, expect_token, job, transaction.now_ms)
    token = expect_token + 1
    receipt = None if job is None else require(transaction, job, {stream_id: token})
    head = transaction.head(stream_id)
    assert head is not None
    head.token, head.owner, head.until = token, owner, transaction.now_ms + ttl_ms
    transaction.move(head)
    return Claimed(Lease(stream_id, token, owner, head.until), receipt)


def renew(transaction: WriteTransaction, lease: Lease, ttl_ms: int) -> Lease:
    """See ``Store.renew``."""
    head = _existing(transaction, lease.stream_id)
    if head.token != lease.token or head.owner is None or head.until is None:
        raise fenced(lease.stream_id, lease.token, head.token, head)
    head.until = max(head.until, transaction.now_ms + ttl_ms)
    transaction.move(head)
    return Lease(lease.stream_id, head.token, head.owner, head.until)


def release(transaction: WriteTransaction, lease: Lease) -> None:
    """See ``Store.release``."""
    head = transaction.head(lease.stream_id)
    if head is not None and head.token == lease.token and head.owner is not None:
        head.owner = head.until = None
        transaction.move(head)


def _existing(transaction: WriteTransaction, stream_id: str) -> HeadState:
    head = transaction.head(stream_id)
    if head is None:
        raise StreamNotFound(f"there is no stream {stream_id}", stream_id=stream_id)
    return head


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
