"""The context trees that a handle knows, and how a run keeps up with the one of its conversation (FORMAT 9)."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Final

from counterfoil.core.canonical import encode
from counterfoil.core.context import Body, ContextTree, Cut, Exact, Nodes, SaidText
from counterfoil.core.event import Draft
from counterfoil.core.limits import SAID_BYTES_MIN
from counterfoil.errors import ContentDamaged
from counterfoil.flow.context import RunScope
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Events, Flow, Read, Wait
from counterfoil.runtime import events
from counterfoil.runtime.recording import draft, record
from counterfoil.store.unit import Receipt

TREE_TYPES: Final = frozenset({"provider.message_recorded", "provider.requested"})
"""What a tree is made of, and what says where its last request stands."""

PAGE_EVENTS: Final = 64
"""Branches read at a time: at most 128 KiB each, unless one body is larger, which lies in an artifact then."""

TREES_MAX: Final = 64
HASHES_MAX: Final = 1_000_000
"""Trees, and nodes and bodies in all of them, that a handle keeps: about 200 MB at the very most."""

SAID_MAX: Final = 8
SAID_CHARACTERS_MAX: Final = 64 * 1024
"""Texts of the last responses kept for the next request, and how long each may be: 4 MiB at the very most."""

TURN_S: Final = 0.002
TURNS_MAX: Final = 1_000
"""How long a request waits for a sibling that records the same bodies. After that it records them once more."""


class Known:
    """What a handle knows of one stream: its tree up to ``seen``, and the tip of its last request."""

    def __init__(self) -> None:
        self.nodes: Nodes = Nodes()
        self.seen: int = 0
        self.tip: bytes | None = None
        self.busy: bool = False
        self.lock: threading.Lock = threading.Lock()

    def take_in(self, event: Event, tree: ContextTree) -> None:
        """Fold one event. What cannot be had or understood is left out: it is recorded anew when it is sent again."""
        with self.lock:
            if event.type == "provider.requested":
                self.tip = bytes.fromhex(event.data["tip"])
            else:
                taken_in(tree, event)
            self.seen = max(self.seen, event.sequence)

    def recorded(self, exact: Exact, tree: ContextTree, receipt: Receipt, stream_id: str) -> None:
        """Take in a request of this handle that is durable now."""
        last = [place.sequence for place in receipt.positions if place.stream_id == stream_id]
        with self.lock:
            for branch in exact.branches:
                tree.add(branch)
            self.tip = exact.tip
            self.seen = max(self.seen, *last)

    def enter(self) -> bool:
        """Begin to record what is new, one request at a time; False where another is under way."""
        with self.lock:
            free, self.busy = not self.busy, True
            return free

    def leave(self) -> None:
        """The other end of :meth:`enter`."""
        with self.lock:
            self.busy = False


class Trees:
    """The trees of a handle by stream; the ones used longest ago are let go."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, stream_id: str) -> Known:
        """What is known of a stream; nothing at first."""
        with self._lock:
            found = self._known.setdefault(stream_id, Known())
            self._known.move_to_end(stream_id)
            while len(self._known) > 1 and self._too_much():
                self._known.popitem(last=False)
            return found

    def _too_much(self) -> bool:
        return (
            len(self._known) > TREES_MAX or sum(len(each.nodes) for each in self._known.values()) > HASHES_MAX
        )


class Tree:
    """One run's view of its conversation's tree (``scope.part(Tree)``); ``known`` is shared by the runs of a handle."""

    def __init__(self, scope: RunScope) -> None:
        self._scope = scope
        self._trees = Trees()
        self._known: Known | None = None
        # Here and not with what the handle knows: texts are let go of when the run is left (FORMAT 11).
        self._said: deque[SaidText] = deque(maxlen=SAID_MAX)

    def responded(self, event_id: str, text: str) -> None:
        """A response is durable: the next requests will repeat its text, as what the assistant said."""
        if SAID_BYTES_MIN <= len(text) <= SAID_CHARACTERS_MAX:
            # The newest first: that is what the next request repeats.
            self._said.appendleft(SaidText(event_id, encode(text)))

    def share(self, trees: Trees) -> None:
        """Go on with what the handle knows already."""
        self._trees = trees

    def _tree(self, known: Known) -> ContextTree:
        """Made anew for each use: keys are held for as long as the keyring holds them, and no longer (FORMAT 11)."""
        return ContextTree(self._scope.ports.material(self._scope.stream_id), known.nodes)

    def caught_up(self) -> Flow[Known]:
        """Read what was recorded since this handle last looked.

        Once an entry: afterwards only this run records requests here, for any other lacks its fencing token.
        """
        if self._known is not None:
            return self._known
        stream_id = self._scope.stream_id
        known = self._trees.of(stream_id)
        while True:
            page: list[Event] = yield Read(Events(stream_id, known.seen, TREE_TYPES, limit=PAGE_EVENTS))
            tree = self._tree(known)
            for event in page:
                known.take_in(event, tree)
            if len(page) < PAGE_EVENTS:
                break
        self._known = known
        return known

    def record(self, cut: Cut, drafts: Callable[[Exact], Sequence[Draft]]) -> Flow[Exact]:
        """Record what a request is made of, in one unit: ``drafts`` are asked for once it is known what is new.

        Siblings that bring something take turns, so that a body they share is written once.
        """
        known = yield from self.caught_up()
        as_of, exact = known.seen, self._tree(known).exact(cut, tuple(self._said))
        mine = False
        try:
            if exact.branches:
                mine = yield from _turn(known)
                if known.seen != as_of:
                    exact = self._tree(known).exact(cut, tuple(self._said))
            receipt = yield from record(self._scope, *drafts(exact))
            known.recorded(exact, self._tree(known), receipt, self._scope.stream_id)
        finally:
            if mine:
                known.leave()
        return exact


def _turn(known: Known) -> Flow[bool]:
    """Wait until no sibling records what is new; False where that took too long: then a body is written twice at worst."""
    for _ in range(TURNS_MAX):
        if known.enter():
            return True
        yield Wait(TURN_S, polling=True)
    return False


def last_tip(scope: RunScope) -> Flow[str | None]:
    """The tip of the last request of this conversation, 64 hex: what a compaction leaves behind. None before the first."""
    known = yield from scope.part(Tree).caught_up()
    return None if known.tip is None else known.tip.hex()


def branch_drafts(
    scope: RunScope,
    exact: Exact,
    step_id: str | None = None,
    attempt: int | None = None,
    cause: str | None = None,
) -> list[Draft]:
    """The events that bring what is new; they stand before the one that names the tip."""
    return [
        draft(scope, events.message_recorded(branch), step_id, attempt, cause) for branch in exact.branches
    ]


def taken_in(tree: ContextTree, event: Event) -> list[Body]:
    """Fold one ``provider.message_recorded`` without reading what moved to artifacts; the bodies it brings.

    One whose content is gone, or hangs on one that is, brings nothing.
    """
    content = event.outline_or_none()
    if content is None:
        return []
    moved = {
        member["sha256"]: bytes.fromhex(member["address"])
        for member in event.header.artifact_refs
        if "address" in member
    }
    try:
        return tree.add(content, moved)
    except ContentDamaged:
        return []
