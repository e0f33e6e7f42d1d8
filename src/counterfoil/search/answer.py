"""What a search comes to: matches, how far the index lags behind the ledger, and why an answer may be incomplete."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from counterfoil.search.snippet import Snippet

Reason = Literal["lag", "bounds", "cut", "unread", "holes", "gone"]

REASONS: Final[dict[Reason, str]] = {
    "lag": "the index has not reached the end of the ledger",
    "bounds": "the search stopped at its bounds; go on with `after`",
    "cut": "parts beyond what is indexed of one part were left out",
    "unread": "content could not be read when it was indexed; rebuild the index once it can",
    "holes": "events are missing in the ledger itself",
    "gone": "matches whose content is no longer in the ledger were left out",
}
"""Why an answer is approximate, each with its meaning."""


class Lag(Struct, frozen=True):
    """How far the index is behind the ledger.

    ``events`` of the scope are not in it yet (None: some, over many conversations they are not counted); ``ms`` lie
    between the newest event and the last one taken in. ``stuck`` says what holds a server's feed back.
    """

    caught_up: bool
    events: int | None = 0
    ms: int = 0
    stuck: str = ""


class Hit(Struct, frozen=True):
    """One event that matches. ``conversation`` is its name, None where it has none or it cannot be opened.

    ``actor_type`` and ``actor_id`` say whose event it is; ``snippet`` is hostile text, as it was recorded.
    """

    stream_id: str
    conversation: str | None
    sequence: int
    event_id: str
    event_type: str
    run_id: str | None
    recorded_at_ms: int
    actor_type: str
    actor_id: str
    part: int
    snippet: Snippet


class Answer(Struct, frozen=True):
    """Matches, the newest first. ``after`` goes on behind them, None where there are no more.

    ``approximate`` names why something may be missing; empty means that the matches equal a scan of every text.
    """

    hits: tuple[Hit, ...]
    lag: Lag
    approximate: tuple[Reason, ...] = ()
    after: int | None = None
