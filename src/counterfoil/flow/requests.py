"""The closed set of requests a flow may yield, and the answers it gets.

One yield is one crash boundary: the crash matrix stops a flow before and after every request (DESIGN 5).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

from msgspec import Struct, field

from counterfoil.core.event import Draft
from counterfoil.core.genesis import Genesis
from counterfoil.store.rows import Guard, Key, RowChange
from counterfoil.store.unit import ANY, Expected, Lease

T = TypeVar("T")


# ---- append ------------------------------------------------------------------------------------------------------


class Entry(Struct, frozen=True):
    """Event drafts for one stream; ``create`` makes the stream first, ``token`` is the fencing token to check."""

    stream_id: str
    drafts: tuple[Draft, ...]
    expected: Expected = ANY
    token: int | None = None
    create: Genesis | None = None


class UnitDraft(Struct, frozen=True):
    """An append unit before keys and rows: the ports seal the drafts and derive the rows from them.

    ``beside`` are changes of companions: rows that follow from no event and are written with these.
    """

    entries: tuple[Entry, ...]
    guards: tuple[Guard, ...] = ()
    beside: tuple[RowChange, ...] = ()


class ClaimSpec(Struct, frozen=True):
    """Take the lease in the append's own transaction; the new token is ``expect_token`` + 1."""

    stream_id: str
    owner: str
    ttl_ms: int
    expect_token: int


class Append(Struct, frozen=True):
    """Record a unit. Answer: ``Receipt``, or ``Claimed`` with ``claim``. A refusal is thrown into the flow.

    ``noted`` is told the answer first.
    """

    unit: UnitDraft
    claim: ClaimSpec | None = None
    noted: Callable[[object], None] | None = None


# ---- read --------------------------------------------------------------------------------------------------------


class Events(Struct, frozen=True):
    """Events of a stream in order: ``list[Event]``; ``limit`` None reads all there are.

    ``lightly`` reads headers, and content when it is looked at, so that a long record takes little memory.
    """

    stream_id: str
    after: int = 0
    types: frozenset[str] | None = None
    run_id: str | None = None
    limit: int | None = None
    lightly: bool = False


class EventsById(Struct, frozen=True):
    """Those of these events that the stream holds, in order: ``list[Event]``."""

    stream_id: str
    event_ids: tuple[str, ...]


class RowOf(Struct, frozen=True):
    """One row or None."""

    table: str
    key: Key


class Rows(Struct, frozen=True):
    """Rows by index prefix: ``list[Row]``."""

    table: str
    index: str | None = None
    prefix: Key = ()
    limit: int = 100
    after: Key | None = None


class HeadOf(Struct, frozen=True):
    """The head of a stream with its lease, or None."""

    stream_id: str


Query = Events | EventsById | RowOf | Rows | HeadOf


class Read(Struct, frozen=True):
    """Ask the ledger."""

    query: Query


# ---- the world outside --------------------------------------------------------------------------------------------


class Call(Struct, frozen=True):
    """Run user code (a tool, a model, a lookup). ``name`` is for messages; ``timeout_s`` None waits for ever.

    The answer is a :data:`CallResult`; exceptions of the code are part of it and never thrown into the flow. When
    the waiting task is cancelled, async code is cancelled with it, unless it is ``shielded``: then it runs on.
    """

    name: str
    fn: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float | None = None
    shielded: bool = False


class Returned(Struct, frozen=True):
    """The code returned this value."""

    value: Any


class Raised(Struct, frozen=True):
    """The code raised this; also CancelledError and KeyboardInterrupt, which the flow re-raises after recording.

    ``late`` is given when it was the waiting that was interrupted: the code runs on, and this resolves when it ends.
    """

    error: BaseException
    late: Future[Any] | None = None


class TimedOut(Struct, frozen=True):
    """No answer within ``timeout_s``. The code may run on: ``late`` resolves when it ends after all."""

    late: Future[Any] | None = None


CallResult = Returned | Raised | TimedOut


Source = bytes | Path | BinaryIO | Iterable[bytes]
"""Where an artifact's bytes come from: at hand, a file by its path, an open binary file, or pieces as they come."""


class PutArtifact(Struct, frozen=True):
    """Store bytes outside the events, durable before the answer (FORMAT 10). Answer: :class:`Stored`.

    ``subject`` names the person whom they are about; without one they lie under the stream's own key.
    """

    stream_id: str
    source: Source
    klass: str
    subject: str | None = None


class Stored(Struct, frozen=True):
    """Bytes that are stored: the object's name, address and key (None: public), and how many plain bytes."""

    sha256: str
    address: str | None
    key: str | None
    size: int


class Wait(Struct, frozen=True):
    """Pause for so many seconds on the injected clock. Answer: None.

    ``polling`` says that nothing happens between two such pauses but a look whether somebody else is done: how many
    there are is a matter of chance, so none is a crash boundary of its own. As much real time passes before it: whoever
    is waited for needs it, whatever an injected clock says.
    """

    seconds: float
    polling: bool = False


class Holder(Protocol):
    """Somebody who holds a lease: a run's scope."""

    def hold_lease(self, until_ms: int) -> None:
        """Make the lease last at least until this time of the store's clock."""
        ...


class Renew(Struct, frozen=True):
    """Make a lease last at least until this time of the store's clock. Answer: None; ``LeaseLost`` is thrown."""

    holder: Holder
    until_ms: int


class Release(Struct, frozen=True):
    """Give a lease up. Answer: None."""

    lease: Lease


class Now(Struct, frozen=True):
    """The store's clock in milliseconds."""


class NewId(Struct, frozen=True):
    """A new id with this prefix (FORMAT 1)."""

    prefix: str


class Random(Struct, frozen=True):
    """So many random bits as an integer; for jitter, never for keys."""

    bits: int


Request = Append | Read | Call | PutArtifact | Wait | Renew | Release | Now | NewId | Random

Flow = Generator[Request, Any, T]
