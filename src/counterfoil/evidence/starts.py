"""Where the run of a stream changes, as an engine keeps it to read one run, against the events themselves (DESIGN 2.7).

Whoever resumes a run reads it by this index: events that it leaves out would look as if they had never been recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from counterfoil.evidence.raw import RawEvent, RawReader
from counterfoil.evidence.report import Derived
from counterfoil.store.contract import Reader

TABLE: Final = "run_span"

Start = tuple[int, str]
"""From this sequence on, until the next start, events that belong to a run belong to this one."""


class RunStarts:
    """Compares the starts of one stream after the other; an engine that keeps none has nothing to compare."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader if isinstance(reader, RawReader) else None
        self._starts: list[Start] = []
        self._found = Derived(table=TABLE, state="rebuilt")

    def watch(self, pages: Iterable[list[RawEvent]]) -> Iterable[list[RawEvent]]:
        """The same pages, in which the starts are noted on the way."""
        self._starts = []
        return pages if self._reader is None else self._noting(pages)

    def _noting(self, pages: Iterable[list[RawEvent]]) -> Iterator[list[RawEvent]]:
        last: str | None = None
        for page in pages:
            for row in page:
                if row[4] is not None and row[4] != last:
                    last = row[4]
                    self._starts.append((row[1], row[4]))
            yield page

    def compare(self, stream_id: str) -> None:
        """Compare the starts of a stream that was found intact with those that the engine keeps."""
        if self._reader is None:
            return
        kept, wanted = set(self._reader.run_starts(stream_id)), set(self._starts)
        found = self._found
        found.stored += len(kept)
        found.refolded += len(wanted & kept)
        found.lacking += len(wanted - kept)
        found.unexplained += len(kept - wanted)
        if kept != wanted:
            found.state = "mismatched"

    def derived(self) -> tuple[Derived, ...]:
        """The result for a report; nothing where the engine keeps no such index."""
        return () if self._reader is None else (self._found,)
