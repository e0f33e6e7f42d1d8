"""Collects findings, notices and gaps of a verification in bounded memory, one entry for a stretch of one fault."""

from __future__ import annotations

from counterfoil.evidence.report import FINDINGS_MAX, NOT_BROKEN, Finding, NotCovered, Notice


class Collector:
    """What was found so far. Adjacent events with the same fault are one finding; beyond a bound it only counts."""

    def __init__(self, findings_max: int = FINDINGS_MAX) -> None:
        self.kinds: dict[str, int] = {}
        self.left_out: int = 0
        self.notices_left_out: int = 0
        self._max = findings_max
        self._findings: list[Finding] = []
        self._notices: dict[tuple[str, str], Notice] = {}
        self._not_covered: dict[tuple[str, str], int | None] = {}
        self._before = 0
        self._broken: set[str] = set()
        self._unread: set[str] = set()

    # ---- faults ----

    def fault(
        self,
        kind: str,
        what: str,
        stream_id: str | None = None,
        sequence: int | None = None,
        through: int | None = None,
    ) -> None:
        """Name a fault; one that continues the last finding of the same words only lengthens it."""
        last = sequence if through is None else through
        self.kinds[kind] = self.kinds.get(kind, 0) + (
            1 if last is None or sequence is None else last - sequence + 1
        )
        self._mark(kind, stream_id)
        if self._lengthened(kind, what, stream_id, sequence, last):
            return
        if len(self._findings) >= self._max:
            self.left_out += 1
            return
        found = Finding(kind=kind, what=what, stream_id=stream_id, sequence=sequence, through=through)
        self._findings.append(found)

    def _lengthened(
        self, kind: str, what: str, stream_id: str | None, sequence: int | None, last: int | None
    ) -> bool:
        if not self._findings or sequence is None:
            return False
        before = self._findings[-1]
        end = before.sequence if before.through is None else before.through
        if end is None or sequence != end + 1:
            return False
        if (before.kind, before.what, before.stream_id) != (kind, what, stream_id):
            return False
        self._findings[-1] = Finding(
            kind=kind, what=what, stream_id=stream_id, sequence=before.sequence, through=last
        )
        return True

    def _mark(self, kind: str, stream_id: str | None) -> None:
        if stream_id is not None:
            (self._unread if kind in NOT_BROKEN else self._broken).add(stream_id)

    def enter(self) -> None:
        """Begin with the next stream."""
        self._before = sum(self.kinds.values())

    @property
    def found_here(self) -> bool:
        """Whether a fault was named since the stream was entered (an unknown format counts)."""
        return sum(self.kinds.values()) != self._before

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings kept, by stream in the order of the walk and by sequence."""
        return tuple(self._findings)

    @property
    def broken_streams(self) -> int:
        """Streams with a fault."""
        return len(self._broken)

    @property
    def unread_streams(self) -> int:
        """Streams that are not broken but hold a record of unknown format."""
        return len(self._unread - self._broken)

    # ---- notices ----

    def notice(self, kind: str, what: str, stream_id: str | None = None, sequence: int | None = None) -> None:
        """Tell of something that is no fault; the same words again only count."""
        known = self._notices.get((kind, what))
        if known is not None:
            known.count += 1
        elif len(self._notices) >= self._max:
            self.notices_left_out += 1
        else:
            self._notices[kind, what] = Notice(kind=kind, what=what, stream_id=stream_id, sequence=sequence)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """The notices kept, in the order they were first seen."""
        return tuple(self._notices.values())

    # ---- what was left out ----

    def leave_out(self, what: str, why: str, count: int | None = None) -> None:
        """Say that something was not checked; counts of the same words add up."""
        known = self._not_covered.get((what, why))
        self._not_covered[what, why] = count if known is None or count is None else known + count

    @property
    def not_covered(self) -> tuple[NotCovered, ...]:
        """Everything that was left out, with its reason."""
        return tuple(NotCovered(what=w, why=y, count=n) for (w, y), n in self._not_covered.items())
