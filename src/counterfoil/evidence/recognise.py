"""Events recognised as right in every respect, many at a time; whatever is not is left to strict reading."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from counterfoil.core.forms import time_ms
from counterfoil.core.ids import is_id
from counterfoil.core.limits import HEADER_BYTES_MAX
from counterfoil.evidence.raw import Parts, RawEvent
from counterfoil.evidence.shapes import FIXED, Shapes

SECONDS_KEPT_MAX: Final = 8192

_sha256 = hashlib.sha256


class Recogniser:
    """Says of stored events of one stream that they are right, without reading them strictly.

    Right means: the header has its stored hash, is of a known shape and valid, names the event before it and agrees
    with its columns. Of an event it says nothing about, only strict reading can tell what it is.
    """

    def __init__(self, shapes: Shapes, stream_id: str, stream_key: str | None) -> None:
        self._shapes = shapes
        self._stream_id = stream_id
        self._stream_key = stream_key
        self._seconds: dict[str, int] = {}

    def right(self, rows: Sequence[RawEvent], last: int, tip: str) -> list[Parts]:
        """The parts of each event at the beginning of ``rows`` that is right, up to the first that may not be.

        ``last`` and ``tip`` are the sequence and hash of the event before. Whole columns are compared at once, which
        takes a fraction of the time that one event after another would.
        """
        _, sequences, event_ids, types, run_ids, times, headers, hashes, _, _ = zip(*rows, strict=True)
        count = _agreeing(sequences, tuple(range(last + 1, last + 1 + len(rows))), len(rows))
        count = _agreeing(tuple(map(type, headers)), (bytes,) * count, count)
        digests = tuple([_sha256(b"\x00" + header).digest() for header in headers[:count]])
        count = _agreeing(digests, hashes, count)
        groups = self._groups(types[:count], headers)
        if not groups:
            return []
        columns = zip(*[found[-FIXED:] for found in groups], strict=True)
        own, previous, seconds, thousandths, runs, streams, numbers = columns
        count = _agreeing(previous, (tip, *[digest.hex() for digest in digests]), len(groups))
        count = _agreeing(own, event_ids, count)
        count = _agreeing(runs, run_ids, count)
        count = _agreeing(streams, (self._stream_id,) * count, count)
        count = _agreeing(numbers, tuple(map(str, sequences[:count])), count)
        count = _agreeing(self._times(seconds, thousandths), times, count)
        count = self._runs(runs, count)
        parts = [found[:-FIXED] for found in groups[:count]]
        if self._stream_key is not None:
            # The stream key is left out of a header, so one that names it must be read strictly.
            naming = [place for place, keys in enumerate(parts) if self._stream_key in keys]
            return parts[: naming[0]] if naming else parts
        return parts

    def _runs(self, runs: tuple[Any, ...], count: int) -> int:
        """How many of the first ``count`` run ids are ids; the pattern leaves that to the few that there are."""
        wrong = {run for run in {*runs[:count]} if run is not None and not is_id(run, "run")}
        return next((place for place in range(count) if runs[place] in wrong), count) if wrong else count

    def _groups(self, types: Sequence[Any], headers: Sequence[bytes]) -> list[tuple[Any, ...]]:
        """The groups of each header up to the first that no shape recognises."""
        by_type = self._shapes.by_type
        groups: list[tuple[Any, ...]] = []
        for event_type, header in zip(types, headers, strict=False):
            shapes = by_type.get(event_type)
            if not shapes:
                return groups
            text = header.decode("latin-1")
            found = shapes[0](text) or self._shapes.other(shapes, text)
            if found is None or len(header) > HEADER_BYTES_MAX:
                return groups
            groups.append(found.groups())
        return groups

    def _times(self, seconds: Sequence[str], thousandths: Sequence[str]) -> tuple[int, ...]:
        """Milliseconds since the epoch; the patterns have seen to it that each is a time."""
        known = self._seconds
        unknown = {*seconds} - known.keys()
        if unknown:
            if len(known) > SECONDS_KEPT_MAX:
                known.clear()
                unknown = {*seconds}
            known.update({second: time_ms(f"{second}.000Z") for second in unknown})
        return tuple([known[second] + int(rest) for second, rest in zip(seconds, thousandths, strict=True)])


def _agreeing(found: tuple[Any, ...], wanted: tuple[Any, ...], count: int) -> int:
    """How many of the first ``count`` entries agree before the first that does not."""
    if found[:count] == wanted[:count]:
        return count
    return next(place for place in range(count) if found[place] != wanted[place])
