"""Leases on the store's clock: claim, renew, release, each inside a write transaction."""

from __future__ import annotations

from counterfoil.adapters.shared.refusals import check_claim, released, renewed
from counterfoil.adapters.sqlite.checks import require
from counterfoil.adapters.sqlite.plan import Job
from counterfoil.adapters.sqlite.transaction import WriteTransaction
from counterfoil.store.unit import Claimed, Lease


def claim(
    transaction: WriteTransaction, stream_id: str, owner: str, ttl_ms: int, expect_token: int, job: Job | None
) -> Claimed:
    """See ``Store.claim``. What it raises leaves nothing behind: the engine rolls back."""
    if job is not None and job.refusal is not None:
        raise job.refusal
    head = transaction.head(stream_id)
    check_claim(stream_id, head, expect_token, () if job is None else job.streams, transaction.now_ms)
    token = expect_token + 1
    receipt = None if job is None else require(transaction, job, {stream_id: token})
    head = transaction.head(stream_id)
    assert head is not None
    head.token, head.owner, head.until = token, owner, transaction.now_ms + ttl_ms
    transaction.move(head)
    return Claimed(Lease(stream_id, token, owner, head.until), receipt)


def renew(transaction: WriteTransaction, lease: Lease, ttl_ms: int) -> Lease:
    """See ``Store.renew``."""
    head = transaction.head(lease.stream_id)
    longer = renewed(head, lease, transaction.now_ms + ttl_ms)
    assert head is not None
    transaction.move(head)
    return longer


def release(transaction: WriteTransaction, lease: Lease) -> None:
    """See ``Store.release``."""
    head = transaction.head(lease.stream_id)
    if head is not None and released(head, lease):
        transaction.move(head)
