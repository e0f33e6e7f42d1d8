"""Where events stand in the chain: names one fault for one cause, and finds the thread again after it (FORMAT 18)."""

from __future__ import annotations

from typing import Final, NamedTuple

DISPLACED_MAX: Final = 1024
"""Events out of their place that are remembered at a time; beyond it they are named but no longer matched."""


class Fault(NamedTuple):
    """One fault: a code of FORMAT 18, the stream, the sequence (0: the genesis) and what was found, in words.

    ``through`` is the last sequence of a stretch with the same fault.
    """

    code: str
    stream_id: str
    sequence: int
    what: str
    through: int | None = None


class Link(NamedTuple):
    """What one row says about its place: sequence column, and sequence, previous hash and hash of its header (hex)."""

    column: int
    sequence: int
    previous: str
    digest: str


class Links:
    """The running head of a stream while its rows are read in the order of the sequence column.

    A row out of place is held until the next row tells what happened: an event put in, taken out, moved or changed
    together with its hash each leave another trace in the row after it.
    """

    __slots__ = (
        "_absent",
        "_displaced",
        "_held",
        "_last_previous",
        "_missed",
        "_shift",
        "_shift_moves",
        "sequence",
        "stream_id",
        "tips",
    )

    def __init__(self, stream_id: str, genesis_hash: str) -> None:
        self.stream_id = stream_id
        self.sequence = 0
        self.tips: tuple[str, ...] | None = (genesis_hash,)
        self._shift = 0
        self._shift_moves = False
        self._held: Link | None = None
        self._displaced: dict[int, str] = {}
        self._absent: dict[int, str | None] = {}
        self._missed: set[int] = set()
        self._last_previous = ""

    @property
    def steady(self) -> bool:
        """Whether the quick way may be taken: nothing is held, moved or open."""
        return (
            self._held is None
            and self._shift == 0
            and not (self._displaced or self._absent or self._shift_moves)
        )

    @property
    def tip(self) -> str | None:
        """The one hash that the next event must link to, where it is known."""
        return self.tips[0] if self.tips is not None and len(self.tips) == 1 else None

    def advance(self, sequence: int, previous: str, digest: str) -> None:
        """Take the next event on the quick way, after the caller has seen that it fits."""
        self.sequence = sequence
        self._last_previous = previous
        self.tips = (digest,)

    # ---- rows --------------------------------------------------------------------------------------------------

    def place(self, link: Link) -> list[Fault]:
        """Put one well-formed event of this stream into its place."""
        faults = self._settle(link) if self._held is not None else []
        expected = self.sequence + 1
        if link.sequence < expected:
            return faults + self._late(link)
        linked = self.tips is None or link.previous in self.tips
        if link.sequence == expected:
            if not linked:
                self._held = link
                return faults
            faults += self._column_faults(link)
            self._accept(link)
            return faults
        if link.column - self._shift == link.sequence or self._shift_moves:
            if self._shift_moves:
                self._shift, self._shift_moves = link.column - link.sequence, False
            faults.append(self._removed(expected, link.sequence - 1))
            if link.sequence - expected < DISPLACED_MAX - len(self._missed):
                self._missed.update(range(expected, link.sequence))
            self._accept(link)
            return faults
        self._held = link
        return faults

    def unreadable(self, column: int, code: str, what: str, tips: tuple[str, ...] | None) -> list[Fault]:
        """Take a row whose header tells nothing: its bytes are not the hashed ones, or have no known form."""
        faults = self._settle(None) if self._held is not None else []
        sequence = column - self._shift
        if sequence > self.sequence + 1:
            faults.append(self._removed(self.sequence + 1, sequence - 1))
        faults.append(self._fault(code, sequence, what))
        self.sequence = max(sequence, self.sequence)
        self.tips = tips
        self._last_previous = ""
        return faults

    def foreign(self, column: int, what: str) -> list[Fault]:
        """Take a row that belongs to another stream; it may have been put in between or have replaced an event."""
        faults = self._settle(None) if self._held is not None else []
        sequence = column - self._shift
        if sequence > self.sequence + 1:
            faults.append(self._removed(self.sequence + 1, sequence - 1))
            self.sequence, self.tips = sequence - 1, None
        faults.append(self._fault("transplanted", sequence, what))
        self._held = Link(column, 0, "", "")
        return faults

    def finish(self, head_sequence: int | None = None, head_hash: str | None = None) -> list[Fault]:
        """After the last row: settle what is held, and compare with the head row if there is one."""
        faults = self._settle(None, head_hash) if self._held is not None else []
        faults += [self._removed(sequence, sequence) for sequence in sorted(self._absent)]
        if head_sequence is None:
            return faults
        if head_sequence > self.sequence:
            what = f"the head row stands at {head_sequence}, the last event at {self.sequence}"
            faults.append(self._fault("removed", self.sequence + 1, what, head_sequence))
        elif head_sequence < self.sequence and head_sequence != self.sequence + self._shift:
            what = f"the last event stands at {self.sequence}, the head row at {head_sequence}"
            faults.append(self._fault("inserted", head_sequence + 1, what, self.sequence))
        elif head_hash is not None and self.tips is not None and head_hash not in self.tips:
            what = "the head row has another hash than the last event: one of the two was changed"
            faults.append(self._fault("column_differs", self.sequence, what))
        return faults

    # ---- deciding ----------------------------------------------------------------------------------------------

    def _accept(self, link: Link) -> None:
        self.advance(link.sequence, link.previous, link.digest)
        while self.sequence + 1 in self._displaced:
            digest = self._displaced.pop(self.sequence + 1)
            self.advance(self.sequence + 1, "", digest)

    def _column_faults(self, link: Link) -> list[Fault]:
        shift = link.column - link.sequence
        if shift == self._shift or self._displaced or self._absent:
            return []
        moved, self._shift, self._shift_moves = self._shift_moves, shift, False
        if moved:
            return []
        what = f"the sequence column says {link.column}"
        return [self._fault("column_differs", link.sequence, what)]

    def _late(self, link: Link) -> list[Fault]:
        """A number that has been passed: an event that was moved back, a second one, or a copy."""
        if link.sequence in self._absent:
            wanted = self._absent.pop(link.sequence)
            if wanted is None or wanted == link.digest:
                return []
            return [
                self._fault("edited", link.sequence, "the next event links to another hash than this one has")
            ]
        self._shift_moves = True
        if link.sequence in self._missed:
            self._missed.discard(link.sequence)
            return [self._fault("column_differs", link.sequence, f"the sequence column says {link.column}")]
        if link.sequence == self.sequence and link.previous == self._last_previous:
            self.tips = (*(self.tips or ()), link.digest)
            what = f"two events follow event {link.sequence - 1}"
            return [self._fault("forked", link.sequence, what)]
        what = f"the row at {link.column} holds another event numbered {link.sequence}"
        return [self._fault("inserted", link.sequence, what)]

    def _settle(self, after: Link | None, head_hash: str | None = None) -> list[Fault]:
        """Say what the held row means, now that the row after it (or the end) is known."""
        held, self._held = self._held, None
        if held is None:
            return []
        if held.sequence == 0:
            return self._settle_foreign(after)
        if held.sequence == self.sequence + 1:
            return self._settle_broken_link(held, after, head_hash)
        return self._settle_out_of_place(held, after)

    def _settle_foreign(self, after: Link | None) -> list[Fault]:
        expected = self.sequence + 1
        if (
            after is not None
            and after.sequence == expected
            and (self.tips is None or after.previous in self.tips)
        ):
            self._shift_moves = True
        else:
            self.sequence, self.tips = expected, None
        return []

    def _settle_broken_link(self, held: Link, after: Link | None, head_hash: str | None) -> list[Fault]:
        expected = held.sequence
        before = self.tips or ()
        past = (
            after.previous in before and after.sequence == expected
            if after is not None
            else head_hash in before
        )
        if past:
            self._shift_moves = True
            return [
                self._fault("inserted", expected, f"the row at {held.column} is passed over by the chain")
            ]
        follows = (after.previous if after is not None else head_hash) == held.digest
        if follows and self._last_previous == held.previous:
            self._accept(held)
            return [
                self._fault("forked", expected, f"events {expected - 1} and {expected} follow the same event")
            ]
        self._accept(held)
        if follows and expected == 1:
            return [self._fault("genesis", 0, "the first event links to another genesis than the stored one")]
        if follows:
            what = (
                f"event {expected} links to another hash than this event has, though its stored hash agrees"
            )
            return [self._fault("edited", expected - 1, what)]
        if after is not None:
            self.tips = None
            what = "neither the event before nor the event after links to it, though its stored hash agrees"
            return [self._fault("edited", expected, what)]
        what = f"it does not link to event {expected - 1}: one of the two was changed"
        return [self._fault("edited", expected, what)]

    def _settle_out_of_place(self, held: Link, after: Link | None) -> list[Fault]:
        expected = self.sequence + 1
        if after is not None and after.sequence == held.sequence + 1 and after.previous == held.digest:
            self._shift = held.column - held.sequence
            fault = self._removed(expected, held.sequence - 1)
            self._accept(held)
            return [fault]
        if len(self._displaced) < DISPLACED_MAX:
            self._displaced[held.sequence] = held.digest
        if after is None or after.sequence != expected:
            if len(self._absent) < DISPLACED_MAX:
                self._absent[expected] = after.previous if after is not None else None
            self.sequence, self.tips = expected, None
        what = f"event {held.sequence} stands in its place"
        return [self._fault("reordered", expected, what)]

    def _removed(self, first: int, last: int) -> Fault:
        many = f"events {first} to {last} are missing" if last > first else f"event {first} is missing"
        return self._fault("removed", first, many, last if last > first else None)

    def _fault(self, code: str, sequence: int, what: str, through: int | None = None) -> Fault:
        return Fault(code, self.stream_id, sequence, what, through if through != sequence else None)
