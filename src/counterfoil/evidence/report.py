"""The report of a verification: what is broken, what is proven and to which grade, what was not covered."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

Level = Literal["chain", "digests", "content"]
"""How deep to look: hashes, shape and columns; with the digest of each record; with each record opened."""

Grade = Literal["A0", "A1", "A2", "A3", "A4"]

LEVELS: Final[tuple[Level, ...]] = ("chain", "digests", "content")
GRADES: Final[dict[Grade, str]] = {
    "A0": "chain",
    "A1": "sealed",
    "A2": "anchored outside",
    "A3": "witness quorum",
    "A4": "timestamped",
}
"""The grades of DESIGN 10, lowest first, each with its word."""

NOT_BROKEN: Final = frozenset({"unknown_format"})
"""Kinds that say "this build cannot read it", never "it is broken" (FORMAT 19)."""

UNSEEN_AT_A0: Final = (
    "a chain that was rewritten from some event to its end, hashes, columns and head row included",
    "a tail that was cut off together with its head row",
    "a whole stream that was removed with everything that belonged to it",
    "a ledger put back to an earlier state as a whole",
    "whether a writer recorded the truth",
)
"""What hashes beside the data cannot show, since whoever edits the data can make them again (FORMAT 20)."""

FINDINGS_MAX: Final = 1000
"""Findings, notices and gaps kept in one report; further ones are counted."""

EXIT_INTACT: Final = 0
EXIT_BROKEN: Final = 1
EXIT_BELOW: Final = 2


GUARDS: Final = frozenset({"effects", "effect_keys"})
"""Derived tables that a writer asks whether an effect may be sent (FORMAT 8)."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One fault: its kind (a code of FORMAT 18), where, and what was found in words.

    ``sequence`` is 0 for the genesis and None where the fault lies outside a stream's events; ``through`` is the
    last sequence of a stretch with the same fault.
    """

    kind: str
    what: str
    stream_id: str | None = None
    sequence: int | None = None
    through: int | None = None

    @property
    def where(self) -> str:
        """The place in words, such as ``str_… event 3``."""
        if self.stream_id is None:
            return "ledger"
        if self.sequence is None:
            return self.stream_id
        if self.sequence == 0:
            return f"{self.stream_id} genesis"
        if self.through is None or self.through == self.sequence:
            return f"{self.stream_id} event {self.sequence}"
        return f"{self.stream_id} events {self.sequence} to {self.through}"


class Notice(msgspec.Struct, kw_only=True):
    """Something to know that is no fault: a clock that went back, an unknown event type, an unused key.

    ``stream_id`` and ``sequence`` name the first place, ``count`` how often it was seen.
    """

    kind: str
    what: str
    count: int = 1
    stream_id: str | None = None
    sequence: int | None = None


class NotCovered(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was not checked, how much of it (None: uncounted), and why."""

    what: str
    why: str
    count: int | None = None


class Derived(msgspec.Struct, kw_only=True):
    """One derived table: refolded and equal (``rebuilt``), ``mismatched``, or ``not_refolded`` with the reason.

    ``stored`` counts its rows, ``refolded`` those that events gave and that were compared. The other numbers count
    rows that differ, that the table lacks, and that no event explains. ``examples`` names some, by key.
    """

    table: str
    state: Literal["rebuilt", "mismatched", "not_refolded"]
    stored: int = 0
    refolded: int = 0
    differing: int = 0
    lacking: int = 0
    unexplained: int = 0
    examples: tuple[str, ...] = ()
    why: str | None = None


class Counts(msgspec.Struct, kw_only=True):
    """How much was looked at. ``artifacts`` are objects read and compared with their names, each once."""

    streams: int = 0
    events: int = 0
    records_by_digest: int = 0
    records_opened: int = 0
    records_erased: int = 0
    artifacts: int = 0
    artifacts_opened: int = 0
    artifacts_erased: int = 0
    companions: int = 0
    keys: int = 0
    rows_refolded: int = 0


class Keys(msgspec.Struct, kw_only=True):
    """The key store as it was found: ``present``, ``absent`` or ``not_given``; and what erasure would reach.

    ``copies`` is ``not_covered`` while the key-encryption key lies beside the data (FORMAT 12).
    """

    state: Literal["present", "absent", "not_given"]
    copies: Literal["covered", "not_covered"] | None = None
    store_id: str | None = None


class Tail(msgspec.Struct, kw_only=True):
    """Events that are newer than the last seal: they rest on the chain alone."""

    events: int = 0
    streams: int = 0


class Report(msgspec.Struct, kw_only=True):
    """What one verification found, covered and left out (FORMAT 18).

    ``grade`` is what the intact streams reach, or None if part of the ledger could not be read. Exit codes: 0 intact
    at the required grade, 1 broken, 2 intact below it.
    """

    ledger: str
    level: Level
    require: Grade
    grade: Grade | None
    counts: Counts
    keys: Keys
    tail: Tail
    findings: tuple[Finding, ...] = ()
    findings_left_out: int = 0
    kinds: dict[str, int] = msgspec.field(default_factory=dict)
    broken_streams: int = 0
    unread_streams: int = 0
    unseen: tuple[str, ...] = UNSEEN_AT_A0
    not_covered: tuple[NotCovered, ...] = ()
    notices: tuple[Notice, ...] = ()
    notices_left_out: int = 0
    derived: tuple[Derived, ...] = ()

    @property
    def broken(self) -> bool:
        """Whether anything stored is not what was written."""
        return any(kind not in NOT_BROKEN for kind in self.kinds)

    @property
    def reached(self) -> bool:
        """Whether the grade is at least the required one."""
        order = list(GRADES)
        return self.grade is not None and order.index(self.grade) >= order.index(self.require)

    @property
    def exit_code(self) -> int:
        """0 intact at the required grade, 1 broken, 2 intact below it."""
        if self.broken:
            return EXIT_BROKEN
        return EXIT_INTACT if self.reached else EXIT_BELOW

    @property
    def rows_differ(self) -> tuple[Derived, ...]:
        """Derived tables that are not what the events say. Truth is not broken by them; `counterfoil rebuild` mends them."""
        return tuple(table for table in self.derived if table.state == "mismatched")

    @property
    def unguarded(self) -> bool:
        """Whether rows that keep an effect from being sent twice are missing or differ."""
        return any(table.table in GUARDS and table.lacking + table.differing for table in self.rows_differ)

    @property
    def intact_streams(self) -> int:
        """Streams in which nothing was found."""
        return self.counts.streams - self.broken_streams - self.unread_streams

    def to_json(self) -> dict[str, Any]:
        """The report as plain values for ``--json``, with the verdict first."""
        verdict = {
            "broken": self.broken,
            "exit_code": self.exit_code,
            "rows_differ": [table.table for table in self.rows_differ],
        }
        members: dict[str, Any] = msgspec.to_builtins(self)
        return verdict | members
