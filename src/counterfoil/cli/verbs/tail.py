"""``counterfoil tail``: events as they are recorded, of the whole ledger or of one conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import click

from counterfoil.cli.commanding import ledger_option
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.finding import opened
from counterfoil.cli.options import face_options, pass_face, reading_options
from counterfoil.cli.render.exact import event_line
from counterfoil.cli.render.line import Line, Span, cut, width
from counterfoil.cli.render.listing import empty_lines
from counterfoil.cli.render.marks import marked
from counterfoil.cli.shapes import event_json
from counterfoil.errors import StreamNotFound
from counterfoil.flow.event import Event
from counterfoil.store.unit import StoredEvent

if TYPE_CHECKING:
    from counterfoil.client.ledger import Ledger

PAGE: Final = 500
NAME_CELLS: Final = 20
STEP_S: Final = 0.2
"""How often a following tail looks for new events."""


@click.command(name="tail", short_help="Print events as they are recorded.")
@click.argument("conversation", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on with new events until interrupted.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0, 100_000),
    default=20,
    show_default=True,
    help="Begin so many events before the end.",
)
@click.option(
    "--cursor", metavar="C", help="Begin after this place in the feed; a tail that ends prints the next one."
)
@click.option("--no-content", is_flag=True, help="Leave content out of --json.")
@reading_options
@face_options(ledger=True)
@pass_face
def command(
    face: Face, conversation: str | None, follow: bool, lines: int, cursor: str | None, no_content: bool
) -> int:
    """Print the last events of the ledger or of a CONVERSATION; with -f each new one as it is recorded.

    Nothing is lost between two tails: begin the second at the cursor that the first printed. With --json one object a
    line; the last of those that were read at once carries the cursor behind it.
    """
    if conversation is not None and cursor is not None:
        raise click.UsageError("--cursor is a place in the feed of the whole ledger; leave CONVERSATION out")
    with face.open(write=face.reader is not None) as ledger:
        stream_id = None if conversation is None else ledger.stream_of(conversation)
        face.begin(ledger, stream_id)
        tail = _Tail(face, ledger, content=not no_content)
        if stream_id is None:
            tail.feed(lines, cursor, follow)
        else:
            tail.stream(stream_id, lines, follow)
    return Exit.DONE


class _Tail:
    """Prints events of one ledger, page by page."""

    def __init__(self, face: Face, ledger: Ledger, *, content: bool) -> None:
        self._face = face
        self._ledger = ledger
        self._content = content
        self._mine: dict[str, bool] = {}
        self._names: dict[str, str] = {}
        self._one = False
        self._shown = 0

    # ---- the whole ledger ----

    def feed(self, lines: int, cursor: str | None, follow: bool) -> None:
        """The feed, from its end or from a cursor."""
        reached = b"" if cursor is None else _bytes(cursor)
        try:
            if cursor is None:
                page = self._ledger.store.recent(lines)
                reached = page.cursor
                self._print(page.events, page.cursor)
            for page_cursor in self._pages(reached, follow):
                reached = page_cursor
        except KeyboardInterrupt:
            # This is how a following tail ends; where to go on is said all the same.
            self._end(reached)
            raise
        self._end(reached)

    def _pages(self, cursor: bytes, follow: bool) -> Iterator[bytes]:
        while True:
            page = self._ledger.store.feed(cursor, PAGE)
            self._print(page.events, page.cursor)
            cursor = page.cursor
            yield cursor
            if not page.caught_up:
                continue
            if not follow:
                return
            self._face.clock.sleep(STEP_S)

    def _print(self, events: tuple[StoredEvent, ...], cursor: bytes) -> None:
        mine = [stored for stored in events if self._is_mine(stored.stream_id)]
        for stored in mine:
            self._event(opened(self._ledger, stored), cursor.hex() if stored is mine[-1] else None)
        self._face.flush()

    def _is_mine(self, stream_id: str) -> bool:
        """Whether the stream is of this tenant."""
        if stream_id not in self._mine:
            found = self._ledger.store.stream(stream_id)
            self._mine[stream_id] = found is not None and found.tenant == self._ledger.tenant
        return self._mine[stream_id]

    def _end(self, cursor: bytes) -> None:
        face = self._face
        if face.as_json:
            return
        option = ledger_option(face)
        if not self._shown and not cursor:
            face.say(empty_lines("events", option))
        else:
            face.say(Line(Span(f"  go on: counterfoil tail --cursor {cursor.hex()}{option}", "quiet")))

    # ---- one conversation ----

    def stream(self, stream_id: str, lines: int, follow: bool) -> None:
        """One stream, from near its end."""
        head = self._ledger.store.head(stream_id)
        if head is None:
            raise StreamNotFound(f"there is no stream {stream_id}", stream_id=stream_id)
        self._one = True
        after = max(0, head.sequence - lines)
        more = self._following(follow)
        while True:
            for stored in self._ledger.store.read(stream_id, after, PAGE):
                self._event(opened(self._ledger, stored), None)
                after = stored.sequence
            self._face.flush()
            if not more():
                return

    def _following(self, follow: bool) -> Callable[[], bool]:
        def more() -> bool:
            if follow:
                self._face.clock.sleep(STEP_S)
            return follow

        return more

    # ---- one event ----

    def _event(self, event: Event, cursor: str | None) -> None:
        self._shown += 1
        if self._face.as_json:
            told = event_json(event, content=self._content)
            self._face.give(told | ({} if cursor is None else {"cursor": cursor}))
        else:
            name = "" if self._one else f"{cut(self._name(event), NAME_CELLS):<{NAME_CELLS}} "
            line = event_line(event, self._face.columns - width(name))
            self._face.say(Line(Span(name, "stub"), line))

    def _name(self, event: Event) -> str:
        """The name of the event's conversation, or the end of its id, so that lines of one stream are seen as such."""
        stream_id = event.stream_id
        if stream_id not in self._names:
            first = event if event.sequence == 1 else next(self._ledger.events(stream_id, limit=1), event)
            name = (
                (first.content_or_none() or {}).get("name")
                if first.type in {"conversation.opened", "runtime.baseline"}
                else None
            )
            self._names[stream_id] = marked(name) if isinstance(name, str) else f"…{stream_id[-8:]}"
        return self._names[stream_id]


def _bytes(cursor: str) -> bytes:
    try:
        return bytes.fromhex(cursor)
    except ValueError:
        raise click.UsageError("a cursor is hexadecimal, as a tail prints it") from None
