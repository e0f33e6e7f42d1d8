"""Searching a ledger: one conversation, or all of them with permission; the index follows the ledger by itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from counterfoil.abc.authorizer import Actor
from counterfoil.access.session import DEFAULT_CEILING
from counterfoil.client import reading
from counterfoil.client.access import Accessing
from counterfoil.client.indexed import parts_of, taken
from counterfoil.client.search_place import SearchPlaced
from counterfoil.core.bounds import check_count
from counterfoil.core.event_types import CLASSES as ORDERED
from counterfoil.errors import AccessRefused, InputError, InvalidForm, NotPermitted
from counterfoil.search.answer import Answer, Hit, Lag, Reason
from counterfoil.search.text import values_of

if TYPE_CHECKING:
    from counterfoil.search.find import Place
    from counterfoil.search.follow import Follower
    from counterfoil.search.index import Index

LIMIT_MAX: Final = 1_000
WAIT_S: Final = 5.0
"""How long a search brings its index up to date before it answers with what it has."""


def up_to(classification: str) -> frozenset[str]:
    """The classes up to this one. Raises ``InvalidForm`` for none of them."""
    if classification not in ORDERED:
        raise InvalidForm(f"a class is one of {', '.join(ORDERED)}", argument="classification")
    return frozenset(ORDERED[: ORDERED.index(classification) + 1])


def check_asked(text: object, wait_s: object) -> None:
    """Refuse what is no text to look for, and no time to wait."""
    if not isinstance(text, str):
        raise InvalidForm(f"what is looked for is text, not {type(text).__name__}", argument="text")
    if wait_s is not None and not (isinstance(wait_s, int | float) and wait_s >= 0):
        raise InvalidForm("wait_s is a number of seconds from 0, or None", argument="wait_s")


class Searching(Accessing, SearchPlaced):
    """Finding events by what was said in them."""

    _index: Index | None = None

    def search(
        self,
        text: str,
        conversation: str | None = None,
        *,
        across: bool = False,
        actor: str | Actor | None = None,
        purpose: str = "",
        classification: str | None = None,
        operators: bool = False,
        limit: int = 20,
        after: int | None = None,
        wait_s: float | None = WAIT_S,
    ) -> Answer:
        """Events of a conversation whose content holds ``text`` as it stands, the newest first; case does not matter.

        ``across`` searches all conversations of the tenant: that is refused unless the ledger's authorizer allows it, and
        the decision about this ``actor`` and ``purpose`` is recorded before anything is shown. With an actor, so is a
        search of one conversation. ``classification`` is the highest class that is shown. With ``operators`` the text is a query:
        words and ``"quoted texts"`` that must all occur, ``OR``, ``NOT``, parentheses. ``after`` goes on behind an
        earlier answer. The index is brought up to date first, for at most ``wait_s`` seconds (None: as long as it
        takes); the answer says how far it lags. Raises ``SearchQueryInvalid``, ``StreamNotFound``, ``AccessRefused``,
        ``NotPermitted``, ``SearchUnavailable`` or ``SearchUnusable``.

        >>> with counterfoil.open(":memory:") as ledger:
        ...     with ledger.run("agent", conversation="case-8472", message="Where is order O-1042?"):
        ...         pass
        ...     [hit.sequence for hit in ledger.search("o-1042", "case-8472").hits]
        [2]
        """
        from counterfoil.search.find import find
        from counterfoil.search.query import operators as parsed
        from counterfoil.search.query import plain, terms_of

        check_asked(text, wait_s)
        check_count("limit", limit)
        if after is not None:
            check_count("after", after)
        if limit > LIMIT_MAX:
            raise InputError(f"limit is {LIMIT_MAX} at most", argument="limit")
        expression = parsed(text) if operators else plain(text)
        stream_id = self._scope(conversation, across=across)
        classes = self._decided(text, stream_id, actor, purpose, classification)
        index, follower = self._opened()
        caught_up = follower.catch_up(wait_s)
        places = find(index, expression, stream_id, limit, after)
        terms = terms_of(expression)
        names = {one.stream_id: reading.name_of(self.ports, one.stream_id) for one in places.found}
        looked = [self._hit(place, names[place.stream_id], terms, classes) for place in places.found]
        hits = tuple([hit for hit in looked if isinstance(hit, Hit)])
        short = index.shortfall(stream_id)
        why: dict[Reason, bool] = {
            "lag": not caught_up,
            "bounds": places.bounded,
            "cut": short.cut > 0,
            "unread": short.unread > 0,
            "holes": short.holes > 0,
            "gone": None in looked,
        }
        reasons: tuple[Reason, ...] = tuple([reason for reason, holds in why.items() if holds])
        lag = self._lag(index, stream_id, caught_up=caught_up, stuck=follower.stuck)
        return Answer(hits, lag, reasons, places.after)

    def index_search(self, progress: Callable[[int], None] | None = None) -> Lag:
        """Bring the search index up to the end of the ledger, however long it takes; it may be stopped and repeated."""
        index, follower = self._opened()
        return self._lag(index, None, caught_up=follower.catch_up(None, progress), stuck=follower.stuck)

    def rebuild_search(self, progress: Callable[[int], None] | None = None) -> Lag:
        """Make the search index again from nothing, whatever became of its file."""
        index, _ = self._opened()
        index.file.start_anew()
        return self.index_search(progress)

    def erase_from_search(self, *, conversation: str | None = None, keys: tuple[str, ...] = ()) -> int:
        """Take a conversation, or the parts under these data keys, out of the index; how many texts went.

        When it returns, no file of the index holds a byte of them. It does not touch the ledger: erasure calls it
        after the keys are gone. What is erased is not taken in again, also when the index is rebuilt.
        """
        index, _ = self._opened()
        streams = [] if conversation is None else [self.stream_named(conversation)]
        return index.erase(streams, keys)

    def search_lag(self) -> Lag | None:
        """How far the index is behind, as it stands; None where there is no index yet, or search is off."""
        path = self.search_path()
        there = self._index is not None if path is None else path.exists() and path.stat().st_size > 0
        if self.search_place == "off" or not there:
            return None
        index, _ = self._opened()
        newest = self.store.recent(1)
        caught_up = not newest.events or newest.cursor == index.followed().cursor
        return self._lag(index, None, caught_up=caught_up, stuck="")

    # ---- inside ----

    def _opened(self) -> tuple[Index, Follower]:
        from counterfoil.search.follow import Follower
        from counterfoil.search.index import Index

        if self._index is None:
            self._index = Index(self.search_file(), self.tenant)
        return self._index, Follower(self.store, self._index, partial(taken, self.ports))

    def _scope(self, conversation: str | None, *, across: bool) -> str | None:
        if (conversation is None) is not across:
            raise InputError(
                "a search is of one conversation, or across all of them",
                hint="name a conversation, or search with across=True (--all)",
                argument="conversation",
            )
        return None if conversation is None else self.stream_named(conversation)

    def _decided(
        self,
        text: str,
        stream_id: str | None,
        actor: str | Actor | None,
        purpose: str,
        classification: str | None,
    ) -> frozenset[str]:
        """The classes that may be shown, once the decision about who asks is on record. Raises as :meth:`search`."""
        if actor is None:
            if self.ports.narrowed:
                raise AccessRefused(
                    "a search in a handle that shows content on record only says who asks, and what for",
                    hint="name actor and purpose",
                    action="search",
                    rule="access-required",
                )
            if stream_id is None:
                raise NotPermitted(
                    "a search across conversations is not permitted unless it is known who asks, and what for",
                    hint="name actor and purpose, and open the ledger with an authorizer that allows it",
                )
            return up_to(classification or "personal")
        ceiling = classification or DEFAULT_CEILING
        request = self.access.request("search", actor, purpose, stream_id=stream_id, klass=ceiling)
        self.access.decide(request, detail={"query": text})
        return up_to(ceiling)

    def _hit(
        self, place: Place, name: str | None, terms: list[str], classes: frozenset[str]
    ) -> Hit | Literal["above"] | None:
        """The match as the ledger has it now; None where its content is gone since it was indexed.

        ``above``: it is of a class above those that are shown.
        """
        from counterfoil.search.snippet import snippet

        page = self.store.read(place.stream_id, place.sequence - 1, 1)
        if not page or page[0].sequence != place.sequence:
            return None
        event = reading.view(self.ports, page[0])
        if event.fault:
            return None
        reference = event.header.content[place.part] if place.part < len(event.header.content) else None
        if reference is None:
            return None
        if (reference.klass or self.registry.default_class(event.type)) not in classes:
            return "above"
        for part in parts_of(self.ports, page[0], event.header, classes, shown=True):
            if part.number != place.part or part.content is None:
                continue
            around = snippet(values_of(part.content, event.type), terms)
            if around is not None:
                actor = event.header.actor
                return Hit(
                    stream_id=place.stream_id,
                    conversation=name,
                    sequence=event.sequence,
                    event_id=event.event_id,
                    event_type=event.type,
                    run_id=event.header.run_id,
                    recorded_at_ms=event.recorded_at_ms,
                    actor_type=str(actor.get("type", "")),
                    actor_id=str(actor.get("id", "")),
                    part=part.number,
                    snippet=around,
                )
        return None

    def _lag(self, index: Index, stream_id: str | None, *, caught_up: bool, stuck: str) -> Lag:
        if caught_up:
            return Lag(True, stuck=stuck)
        newest = self.store.recent(1).events
        followed = index.followed()
        # Of an index that has taken nothing in, the first event is where it stands.
        first = () if followed.event_id else self.store.feed(b"", 1).events
        reached_ms = first[0].recorded_at_ms if first else followed.recorded_at_ms
        ms = max(0, newest[-1].recorded_at_ms - reached_ms) if newest else 0
        head = None if stream_id is None else self.store.head(stream_id)
        events = None if stream_id is None or head is None else head.sequence - index.sequence_of(stream_id)
        return Lag(False, events, ms, stuck)
