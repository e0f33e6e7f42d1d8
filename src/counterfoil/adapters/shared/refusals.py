"""What a stream's head refuses: an append or a claim that believes in another genesis, sequence, token or lease."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from counterfoil.errors import Fenced, InvalidUnit, LeaseHeld, StreamExists, StreamNotFound, WrongSequence
from counterfoil.store.unit import Checkpoint, Head, Lease, StreamAppend


class HeadOf(Protocol):
    """A stream's head as an engine holds it inside a transaction."""

    genesis: bytes
    seq: int
    token: int
    owner: str | None
    until: int | None

    def lease(self) -> Lease | None:
        """The lease as stored, also when it has expired."""
        ...

    def head(self) -> Head:
        """As the contract shows it."""
        ...


H = TypeVar("H", bound=HeadOf)


def check_stream(part: StreamAppend, head: HeadOf | None) -> None:
    """Raise StreamNotFound or StreamExists."""
    if head is None and part.create is None:
        raise StreamNotFound(f"there is no stream {part.stream_id}", stream_id=part.stream_id)
    if head is not None and part.create is not None and part.create.text != head.genesis:
        raise StreamExists(f"stream {part.stream_id} exists with another genesis", stream_id=part.stream_id)


def check_token(part: StreamAppend, head: HeadOf | None, coming: int | None = None) -> None:
    """Raise Fenced when the append's token is not the newest, or the one that a claim is about to set (``coming``)."""
    newest = (0 if head is None else head.token) if coming is None else coming
    if part.token is not None and part.token != newest:
        raise fenced(part.stream_id, part.token, newest, head)


def check_expected(part: StreamAppend, state: HeadOf | None) -> None:
    """Raise WrongSequence, with the head as it is."""
    expected = part.expected
    sequence = 0 if state is None else state.seq
    if (expected.absent and state is not None) or expected.sequence not in {None, sequence}:
        wanted = "no stream" if expected.absent else f"sequence {expected.sequence}"
        head = Head(part.stream_id, 0, b"" if part.create is None else part.create.hash)
        raise WrongSequence(
            f"the caller expected {wanted}, but the head of {part.stream_id} is at sequence {sequence}",
            stream_id=part.stream_id,
            head=head if state is None else state.head(),
        )


def fenced(stream_id: str, token: int, newest: int, head: HeadOf | None) -> Fenced:
    """The refusal of a stale token."""
    return Fenced(
        f"token {token} of stream {stream_id} is stale: the newest is {newest}",
        hint="somebody else has claimed it, or the lease was released; look again before you decide",
        stream_id=stream_id,
        token=newest,
        lease=None if head is None else head.lease(),
    )


def check_claim(
    stream_id: str, head: HeadOf | None, expect_token: int, streams: Sequence[StreamAppend], now_ms: int
) -> None:
    """Raise what refuses a claim made with an append to ``streams``: StreamNotFound, Fenced or LeaseHeld."""
    creates = any(part.stream_id == stream_id and part.create is not None for part in streams)
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


def check_checkpoint(checkpoint: Checkpoint, head: H | None) -> H:
    """The head of the checkpoint's stream. Raises StreamNotFound, or InvalidUnit for a sequence that is not held."""
    if head is None:
        raise StreamNotFound(f"there is no stream {checkpoint.stream_id}", stream_id=checkpoint.stream_id)
    if not 0 <= checkpoint.up_to_sequence <= head.seq:
        raise InvalidUnit(
            f"a checkpoint of {checkpoint.projection} claims sequence {checkpoint.up_to_sequence} "
            f"of {checkpoint.stream_id}, whose head is {head.seq}",
            hint="fold what the ledger holds, then save",
            head=head.head(),
        )
    return head


def renewed(head: HeadOf | None, lease: Lease, until_ms: int) -> Lease:
    """The lease made to last at least until then, in the head too. Raises StreamNotFound or Fenced."""
    if head is None:
        raise StreamNotFound(f"there is no stream {lease.stream_id}", stream_id=lease.stream_id)
    if head.token != lease.token or head.owner is None or head.until is None:
        raise fenced(lease.stream_id, lease.token, head.token, head)
    head.until = max(head.until, until_ms)
    return Lease(lease.stream_id, head.token, head.owner, head.until)


def released(head: HeadOf | None, lease: Lease) -> bool:
    """Take the lease out of the head; False where it is another's by now, or nobody's."""
    if head is None or head.token != lease.token or head.owner is None:
        return False
    head.owner = head.until = None
    return True
