"""The order of a stream's events: what is missing, doubled, displaced or linked to something else (FORMAT 18).

Pure: it sees each stored event as a place, a sequence, the hash it names and the hashes it may be known by, and it
finds its footing again after every fault, so that one edit is one finding. A link between two events that does not
hold is judged by the links around it: where both links of an event fail, that event was edited; where only the one
behind it fails, the bytes before the link are no longer those that the next event names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

GAPS_MAX: Final = 1000
"""Stretches of missing events that are held open in case their events stand elsewhere in the stream."""

DISPLACED_MAX: Final = 1000
"""Stretches of displaced events, and doubled ones, that are remembered; beyond it displacements are named at once."""

Head = tuple[int, str]
"""What the head row says: sequence and hash (hex) of the last event."""

Found = Callable[[str, str, int, int | None], None]
"""``found(kind, what, sequence, through)`` names a fault."""


class Seen(Struct, frozen=True):
    """One stored event as its order sees it.

    ``column`` is the sequence column as stored; ``sequence`` and ``previous`` are what the header says, None where
    the header cannot be trusted or read. ``hashes`` (hex) are those the next event may name. ``named`` says that a
    fault of these bytes was named already. ``mismatch``: the stored hash (first) is not that of the header (second).
    """

    column: object
    sequence: int | None
    previous: str | None
    hashes: tuple[str, ...]
    named: bool = False
    mismatch: bool = False


class _Gap(Struct):
    """Missing sequences, with the hashes that the first may name and the hash that the last must have."""

    first: int
    last: int
    before: tuple[str, ...]
    after: str | None


class _Displaced(Struct):
    """Events ``first`` to ``last`` that stand ``offset`` places too high."""

    first: int
    last: int
    offset: int


class StreamOrder:
    """Walks one stream. ``tips`` are the hashes that the next event may name; none means that any will do.

    ``head`` is what the head row says, where it is known before the last event is.
    """

    def __init__(self, genesis_hash: str | None, head: Head | None, found: Found) -> None:
        self.last: int = 0
        self.tips: tuple[str, ...] = () if genesis_hash is None else (genesis_hash,)
        self._head = head
        self._found = found
        self._before: tuple[str, ...] = ()
        self._last_named = genesis_hash is None
        self._last_claimed = True
        self._doubt: int | None = None
        self._mismatch: tuple[int, str, str] | None = None
        self._gaps: list[_Gap] = []
        self._displaced: list[_Displaced] = []
        self._doubled: list[int] = []

    @property
    def footing(self) -> tuple[int, str]:
        """The last sequence, and the one hash that the next event must name; "" while something is undecided."""
        steady = self._doubt is None and self._mismatch is None and len(self.tips) == 1
        return self.last, self.tips[0] if steady else ""

    def stand(self, last: int, tip: str, before: str) -> None:
        """Say that each event from the footing up to ``last`` named the one before; the last has hash ``tip``."""
        if last != self.last:
            self.last = last
            self.tips = (tip,)
            self._before = (before,)
            self._last_named = False
            self._last_claimed = True

    def take(self, seen: Seen) -> None:
        """Place the next stored event, in the order of the store's sequence column."""
        sequence = seen.sequence if seen.sequence is not None else _whole(seen.column)
        if sequence is None:
            return
        if self._is_beyond(sequence):
            self._double(sequence)
            if not seen.named:
                what = "the head row ends before it, with the hash of the event there"
                self._found("inserted", what, sequence, None)
            return
        if sequence == self.last + 1:
            self._follow(seen, sequence)
        elif sequence > self.last:
            self._leap(seen, sequence)
        elif not self._return(seen, sequence):
            return
        column = _whole(seen.column)
        if seen.sequence is not None and column is not None and column != sequence:
            self._displace(sequence, column - sequence)

    def finish(self, head: Head | None = None) -> None:
        """Judge what is still open against the head row, and name what stayed missing or displaced.

        ``head`` is given here where it was not known before.
        """
        self._settle_displaced()
        shift = self._shift_at(self.last + 1)
        for gap in self._gaps:
            self._name_removed(gap)
        self._gaps.clear()
        known = self._head or head
        if known is not None:
            self._judge_head(*known, shift)
        self._settle_mismatch(None)
        self._settle_doubt()

    # ---- one event after another ----

    def _follow(self, seen: Seen, sequence: int) -> None:
        linked = self._linked(seen.previous)
        self._settle_mismatch(seen.previous)
        self._judge_link(linked)
        self._stand_on(seen, sequence)

    def _leap(self, seen: Seen, sequence: int) -> None:
        self._settle_mismatch(None)
        self._settle_doubt()
        gap = _Gap(self.last + 1, sequence - 1, self.tips, seen.previous)
        if len(self._gaps) < GAPS_MAX:
            self._gaps.append(gap)
        else:
            self._name_removed(gap)
        self._stand_on(seen, sequence)

    def _return(self, seen: Seen, sequence: int) -> bool:
        """Place an event whose sequence was passed; False if it is one too many."""
        gap = next((gap for gap in self._gaps if gap.first <= sequence <= gap.last), None)
        if gap is not None and _fits(gap, seen, sequence):
            self._fill(gap, seen, sequence)
            return True
        self._double(sequence)
        if sequence != self.last:
            self._found("inserted", "one more event claims this sequence", sequence, None)
        elif not self._last_claimed and self._linked_before(seen.previous):
            # What stood here could not say its own sequence; this event can, and fits: the other was put in.
            self._mismatch, before = None, self._before
            self._stand_on(seen, sequence)
            self._before = before
        else:
            self._meet(seen, sequence)
        return False

    def _meet(self, seen: Seen, sequence: int) -> None:
        """Two events claim the last sequence: which of them is right is for the next event to say."""
        same_parent = self._linked_before(seen.previous)
        in_doubt, self._doubt = self._doubt, None if same_parent else self._doubt
        self.tips += seen.hashes
        if same_parent and in_doubt is None and seen.column == sequence and not seen.named:
            what = "two events of this sequence name the same event before them"
            self._found("forked", what, sequence, None)
        else:
            self._found("inserted", "one more event claims this sequence", sequence, None)

    def _linked_before(self, previous: str | None) -> bool:
        return previous is not None and (not self._before or previous in self._before)

    def _double(self, sequence: int) -> None:
        if len(self._doubled) < DISPLACED_MAX:
            self._doubled.append(sequence)

    def _stand_on(self, seen: Seen, sequence: int) -> None:
        self._before = self.tips
        self.last = sequence
        self.tips = seen.hashes
        self._last_named = seen.named
        self._last_claimed = seen.sequence is not None
        if seen.mismatch:
            self._mismatch = (sequence, seen.hashes[0], seen.hashes[1])
            self._last_named = True

    def _is_beyond(self, sequence: int) -> bool:
        """Whether the head row, being right about the event it names, ends before this one."""
        if self._head is None:
            return False
        end, tip = self._head
        return sequence > end == self.last and (not self.tips or tip in self.tips)

    # ---- links ----

    def _linked(self, previous: str | None) -> bool | None:
        """Whether the event names the one before; None where that cannot be said."""
        return None if previous is None or not self.tips else previous in self.tips

    def _judge_link(self, linked: bool | None) -> None:
        if self._doubt is not None:
            # The link into the last event failed. If the one out of it fails too, it is the one that was edited.
            self._doubt = self.last if linked is False else self._doubt
            self._settle_doubt()
        elif linked is False and not self._last_named:
            self._doubt = self.last

    def _settle_doubt(self) -> None:
        doubt, self._doubt = self._doubt, None
        if doubt == 0:
            self._found("genesis", "the first event names another genesis than the stored text", 0, None)
        elif doubt is not None:
            self._found("edited", "its hash is not the one that the events around it name", doubt, None)

    def _settle_mismatch(self, previous: str | None) -> None:
        if self._mismatch is None:
            return
        sequence, stored, computed = self._mismatch
        self._mismatch = None
        if previous == computed:
            what = f"the hash column holds {_short(stored)}; the header hashes to {_short(computed)}, as the next event says"
            self._found("column_differs", what, sequence, None)
        else:
            what = f"the stored header hashes to {_short(computed)}; the hash stored beside it is {_short(stored)}"
            self._found("edited", what, sequence, None)

    def _judge_head(self, end: int, tip: str, shift: int) -> None:
        linked = None if not self.tips else tip in self.tips
        if self.last != end and self.last + shift == end and linked:
            return  # counted up or down with the events after one that was named as doubled or missing
        if self.last == end:
            self._settle_mismatch(tip)
            if self._doubt is not None:
                self._judge_link(linked)
            elif linked is False and not self._last_named:
                what = "the head row names another hash than the stored bytes have"
                self._found("edited" if end else "genesis", what, end, None)
        elif self.last < end and linked and self._doubt is None:
            what = f"the head row says sequence {end} and holds the hash of event {self.last}"
            self._found("column_differs", what, self.last, None)
        elif self.last < end:
            what = "the head row names them, and they are not there: the tail was cut off"
            self._found("removed", what, self.last + 1, end)
        elif self._head is None:
            self._found("inserted", "the head row ends before them", end + 1, self.last)
        else:
            what = f"the head row says sequence {end}; the stream goes on to {self.last}"
            self._found("column_differs", what, self.last, None)

    # ---- missing and displaced events ----

    def _fill(self, gap: _Gap, seen: Seen, sequence: int) -> None:
        self._gaps.remove(gap)
        if gap.first < sequence:
            self._gaps.append(_Gap(gap.first, sequence - 1, gap.before, seen.previous))
        if sequence < gap.last:
            self._gaps.append(_Gap(sequence + 1, gap.last, seen.hashes, gap.after))
        self._gaps.sort(key=lambda each: each.first)
        if seen.mismatch:
            what = f"the stored header hashes to {_short(seen.hashes[1])}; the hash beside it is {_short(seen.hashes[0])}"
            self._found("edited", what, sequence, None)

    def _name_removed(self, gap: _Gap) -> None:
        what = "the events before and after are there, these are not"
        if gap.first == gap.last:
            what = "the events before and after are there, this one is not"
        self._found("removed", what, gap.first, gap.last)

    def _displace(self, sequence: int, offset: int) -> None:
        if self._displaced:
            before = self._displaced[-1]
            if before.offset == offset and before.last + 1 == sequence:
                before.last = sequence
                return
        if len(self._displaced) < DISPLACED_MAX:
            self._displaced.append(_Displaced(sequence, sequence, offset))
        else:
            self._found("column_differs", f"the sequence column says {sequence + offset}", sequence, None)

    def _settle_displaced(self) -> None:
        """Name displaced events, except where an event named as missing or doubled has shifted those after it."""
        left = [each for each in self._displaced if each.offset != self._shift_at(each.first)]
        left.sort(key=lambda each: each.first)
        while left:
            moved = _moved_together(left)
            left = [each for each in left if each not in moved]
            first, last = moved[0].first, max(each.last for each in moved)
            if len(moved) == 1:
                places = _stretch(first + moved[0].offset, last + moved[0].offset)
                self._found("column_differs", f"the sequence column says {places}", first, last)
                continue
            who = " and ".join(_stretch(each.first, each.last) for each in moved)
            whole = sum(each.last - each.first + 1 for each in moved) == last - first + 1
            self._found("reordered", f"{who} stand in each other's place", first, last if whole else None)
        self._displaced.clear()

    def _shift_at(self, sequence: int) -> int:
        doubled = sum(1 for each in self._doubled if each <= sequence)
        missing = sum(gap.last - gap.first + 1 for gap in self._gaps if gap.first < sequence)
        return doubled - missing


def _fits(gap: _Gap, seen: Seen, sequence: int) -> bool:
    """Whether an event that stands elsewhere is the one that the events around the gap name."""
    if sequence == gap.first and gap.before and seen.previous is not None and seen.previous not in gap.before:
        return False
    return not (sequence == gap.last and gap.after is not None and gap.after not in seen.hashes)


def _moved_together(left: list[_Displaced]) -> list[_Displaced]:
    """The first stretch, and those that stand where it or one of the others belongs, or the other way round."""
    moved, pending = [left[0]], [left[0]]
    while pending:
        one = pending.pop()
        for other in left:
            if other not in moved and (_in_place_of(one, other) or _in_place_of(other, one)):
                moved.append(other)
                pending.append(other)
    return sorted(moved, key=lambda each: each.first)


def _in_place_of(one: _Displaced, other: _Displaced) -> bool:
    return one.first + one.offset <= other.last and other.first <= one.last + one.offset


def _stretch(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def _whole(value: object) -> int | None:
    return value if type(value) is int else None


def _short(digest: str) -> str:
    return f"{digest[:8]}…{digest[-4:]}" if len(digest) > 16 else (digest or "empty")
