"""Each effect of a tool held against a provider's book, and each entry of the book against the ledger (DESIGN 7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from msgspec import Struct

from counterfoil.effects.identity import successor_index
from counterfoil.effects.rows import EFFECT_KEYS, EFFECTS
from counterfoil.effects.state import IN_DOUBT, MOVES, OPEN, review_of
from counterfoil.flow.event import Event
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import Events, RowOf, Rows
from counterfoil.reconcile.book import Entry
from counterfoil.reconcile.decide import Kind, judge_effect
from counterfoil.reconcile.shelf import Shelf
from counterfoil.store.rows import Key, Row

PAGE_ROWS: Final = 500

STATES: Final = tuple(sorted({move.to for move in MOVES.values()}))
"""Every state of an effect, in the order in which they are gone through."""


class Finding(Struct, frozen=True):
    """What ledger and book say about one effect, or about an entry that is no effect's. ``lines`` are the book's."""

    kind: Kind
    effect_id: str | None = None
    stream_id: str | None = None
    run_id: str | None = None
    state: str | None = None
    review_id: str | None = None
    key: str | None = None
    provider_id: str | None = None
    lines: tuple[int, ...] = ()
    recorded: Decimal | None = None
    """The amount of the intention."""
    booked: Decimal | None = None
    """The amount in the book, where it is one."""


class Scope(Struct, frozen=True):
    """Which effects are held against the book: of one tool, intended in a period (ms, ``until_ms`` excluded).

    ``amount`` names the argument that holds the amount; a name with dots leads into objects. ``by_provider_id`` says
    that the book names effects by the provider's id, so that observations have to be read for it.
    """

    tool: str
    since_ms: int | None = None
    until_ms: int | None = None
    amount: str | None = None
    by_provider_id: bool = False

    def covers(self, row: Row) -> bool:
        """Whether this effect is to be looked at."""
        at_ms = int(row["intended_at_ms"] or 0)
        return (
            row["tool"] == self.tool
            and (self.since_ms is None or at_ms >= self.since_ms)
            and (self.until_ms is None or at_ms < self.until_ms)
        )


def compare(ports: Ports, shelf: Shelf, scope: Scope) -> Iterator[Finding]:
    """Every effect of the tool, then every entry that is no effect's; a page in memory at a time."""
    for row in _effects(ports):
        if scope.covers(row):
            yield _effect(ports, shelf, scope, row)
    for place, entry in shelf.left():
        yield Finding(
            kind=_unknown(ports, place),
            key=entry.key,
            provider_id=entry.provider_id,
            lines=(entry.line,),
            booked=entry.amount,
        )


def _effects(ports: Ports) -> Iterator[Row]:
    for state in STATES:
        after: Key | None = None
        while True:
            query = Rows(EFFECTS.name, "by_state", (ports.tenant, state), PAGE_ROWS, after)
            page: list[Row] = ports.read(query)
            yield from page
            if len(page) < PAGE_ROWS:
                break
            after = EFFECTS.place_in("by_state", page[-1])


def _effect(ports: Ports, shelf: Shelf, scope: Scope, row: Row) -> Finding:
    effect_id, state = str(row["effect_id"]), str(row["state"])
    provider_id = _provider_id(ports, row) if scope.by_provider_id else None
    if state == "failed" and _taken_over(ports, effect_id):
        # Another effect has its key since: what stands in the book under it is that one's.
        entries: list[Entry] = []
    else:
        key_index = row["key_index"]
        entries = shelf.of(effect_id, None if key_index is None else str(key_index), provider_id)
    booked = entries[0].amount if len(entries) == 1 else None
    recorded, same_amount = None, True
    if scope.amount is not None and len(entries) == 1:
        content = _content(ports, row, "intended_sequence")
        recorded = _amount_of(content, scope.amount)
        # Where the content is erased nothing can be compared; that ends no doubt, and contradicts nothing either.
        same_amount = recorded == booked if content or state in OPEN else True
    deadline = row["deadline_ms"]
    kind = judge_effect(
        state,
        None if row["outcome"] is None else str(row["outcome"]),
        lines=len(entries),
        same_amount=same_amount,
        under_way=state in IN_DOUBT and isinstance(deadline, int) and ports.now_ms() < deadline,
    )
    return Finding(
        kind=kind,
        effect_id=effect_id,
        stream_id=str(row["stream_id"]),
        run_id=str(row["run_id"]),
        state=state,
        review_id=review_of(effect_id) if state in ("in_review", "contradicted") else None,
        key=entries[0].key if entries else None,
        provider_id=provider_id or (entries[0].provider_id if entries else None),
        lines=tuple(entry.line for entry in entries),
        recorded=recorded,
        booked=booked,
    )


def _taken_over(ports: Ports, effect_id: str) -> bool:
    follower = (ports.tenant, successor_index(ports.index, effect_id))
    return ports.read(RowOf(EFFECT_KEYS.name, follower)) is not None


def _unknown(ports: Ports, place: str | None) -> Kind:
    """An entry under whose key the ledger knows something all the same: erased, of another tool, or of another time."""
    if place is None:
        return "only_in_book"
    if place.startswith("eff_"):
        row: Row | None = ports.read(RowOf(EFFECTS.name, (place,)))
        return "only_in_book" if row is None or row["tenant"] != ports.tenant else "elsewhere"
    row = ports.read(RowOf(EFFECT_KEYS.name, (ports.tenant, place)))
    if row is None:
        return "only_in_book"
    return "erased" if row["effect_id"] is None else "elsewhere"


# ---- what stands in content ------------------------------------------------------------------------------------------


def _content(ports: Ports, row: Row, column: str) -> Mapping[str, Any]:
    """The content of the event that a row points to; empty where it cannot be read any more."""
    sequence = row[column]
    if not isinstance(sequence, int):
        return {}
    found: list[Event] = ports.read(Events(str(row["stream_id"]), after=sequence - 1, limit=1))
    return (found[0].content_or_none() if found else None) or {}


def _provider_id(ports: Ports, row: Row) -> str | None:
    found = _content(ports, row, "outcome_sequence").get("provider_effect_id")
    return found if isinstance(found, str) else None


def _amount_of(content: Mapping[str, Any], name: str) -> Decimal | None:
    value: Any = content.get("arguments")
    for step in name.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    if isinstance(value, Mapping) and len(value) == 1:
        # A Decimal, or a float without a fraction (FORMAT 2).
        value = value.get("$decimal", value.get("$float"))
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return None
    return amount if amount.is_finite() else None
