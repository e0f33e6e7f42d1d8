"""``counterfoil ls``: conversations, runs, effects, reviews and children, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from counterfoil.cli.commanding import ledger_option
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, limit_option, pass_face, reading_options
from counterfoil.cli.render import listing
from counterfoil.cli.render.cells import text
from counterfoil.cli.render.children_rows import children_lines
from counterfoil.cli.render.heading import keys_lines
from counterfoil.cli.render.line import Line, Span
from counterfoil.cli.render.times import duration, plural
from counterfoil.cli.shapes import child_json, conversation_json, row_json
from counterfoil.cli.standing import Standing, is_under_way, keys_note, standing
from counterfoil.client.reading import ConversationInfo, is_held
from counterfoil.core.ids import is_id
from counterfoil.effects.rows import EFFECTS, REVIEWS
from counterfoil.errors import CounterfoilError, InputError
from counterfoil.repair.rows import REPAIR_SUBJECTS, REPAIRS
from counterfoil.runtime.children.decide import CHILD_STATES
from counterfoil.runtime.rows import RUNS
from counterfoil.store.rows import Key, Row

if TYPE_CHECKING:
    from counterfoil.client.ledger import Ledger

WHAT = ("conversations", "runs", "effects", "reviews", "children")
STATES: dict[str, tuple[str, ...]] = {
    "conversations": (),
    "runs": ("running", "suspended", "finished"),
    "effects": (
        "intended",
        "succeeded",
        "rejected",
        "failed",
        "unknown",
        "in_review",
        "settled",
        "contradicted",
    ),
    "reviews": ("open", "settled", "all"),
    "children": CHILD_STATES,
}


@click.command(name="ls", short_help="List conversations, runs, effects, reviews or children.")
@click.argument("what", type=click.Choice(WHAT), default="conversations", required=False)
@click.option("--state", metavar="S", help="Only these: a state of runs, effects, reviews or children.")
@click.option("--after", metavar="ID", help="Go on after this one; the foot of a page names it.")
@limit_option(50)
@reading_options
@face_options(ledger=True)
@pass_face
def command(face: Face, what: str, state: str | None, after: str | None, limit: int) -> int:
    """List conversations (oldest first), runs, effects (newest first), reviews or children (oldest first).

    With --json one object a line.
    """
    if state is not None and state not in STATES[what]:
        known = ", ".join(STATES[what]) or "none: look at `ls runs` or `ls effects`"
        raise click.UsageError(f"states of {what} are {known}")
    with face.shows() as ledger:
        match what:
            case "conversations":
                _conversations(face, ledger, after or "", limit)
            case "runs":
                _runs(face, ledger, state, after, limit)
            case "effects":
                _effects(face, ledger, state, after, limit)
            case "children":
                _children(face, ledger, state, after, limit)
            case _:
                reviews(face, ledger, state or "open", after, limit)
    return Exit.DONE


# ---- conversations ---------------------------------------------------------------------------------------------------


def _conversations(face: Face, ledger: Ledger, after: str, limit: int) -> None:
    stands = standing(ledger, face.now_ms)
    if after and not (is_id(after, "str") and ledger.store.head(after) is not None):
        raise InputError(
            f"--after names no conversation: {after!r}", hint="the foot of a page names the one to give"
        )
    infos = ledger.conversations(after, limit + 1)
    listed = [_listed(ledger, info, stands) for info in infos[:limit]]
    if face.as_json:
        for entry in listed:
            face.give(
                conversation_json(
                    entry.info,
                    last_run=entry.last_run,
                    last_event_ms=entry.last_event_ms,
                    in_doubt=entry.in_doubt,
                    in_review=entry.in_review,
                    to_approve=entry.to_approve,
                )
            )
        return
    if not listed:
        face.say(listing.empty_lines("conversations", ledger_option(face)))
        return
    face.say(keys_lines(keys_note(ledger), face.columns))
    face.say(_needs(stands, face.now_ms, ledger_option(face)))
    face.say(listing.conversation_lines(listed, face.columns))
    if len(infos) > limit:
        _more(face, "ls", listed[-1].info.stream_id)


def _listed(ledger: Ledger, info: ConversationInfo, stands: Standing) -> listing.Listed:
    newest = ledger.store.select(RUNS, "by_stream", (info.stream_id,), limit=1, descending=True)
    last = ledger.store.read(info.stream_id, max(0, (info.head_sequence or 1) - 1), 1, content=False)
    return listing.Listed(
        info,
        newest[0] if newest else None,
        last[0].recorded_at_ms if last and info.head_sequence is not None else None,
        stands.in_doubt[info.stream_id],
        stands.in_review[info.stream_id],
        stands.to_approve[info.stream_id],
    )


def _needs(stands: Standing, now_ms: int, option: str) -> list[Line]:
    """What needs a person, before everything else."""
    doubts, reviews_open = stands.in_doubt.total(), stands.in_review.total()
    lines: list[Line] = []
    plus = "+" if stands.more else ""
    oldest = "" if stands.oldest_ms is None else f", oldest {duration(now_ms - stands.oldest_ms)}"
    if doubts:
        words = f" ◆? {plural(doubts, 'effect')}{plus} in doubt{oldest} "
        lines.append(Line(Span(words, "doubt_bar"), "  ", Span(f"counterfoil recover{option}", "strong")))
    if reviews_open:
        words = f" ◆? {plural(reviews_open, 'effect')}{plus} in review{'' if doubts else oldest} "
        lines.append(Line(Span(words, "doubt_bar"), "  ", Span(f"counterfoil review ls{option}", "strong")))
    if waiting := stands.to_approve.total():
        words = f" ◆? {plural(waiting, 'approval')} pending "
        lines.append(Line(Span(words, "doubt_bar"), "  ", Span(f"counterfoil approve ls{option}", "strong")))
    if repairs := stands.to_repair.total():
        words = f" ◆? {plural(repairs, 'repair')} open "
        lines.append(Line(Span(words, "doubt_bar"), "  ", Span(f"counterfoil repair ls{option}", "strong")))
    return [*lines, Line()] if lines else []


# ---- rows ------------------------------------------------------------------------------------------------------------


def _runs(face: Face, ledger: Ledger, state: str | None, after: str | None, limit: int) -> None:
    index, prefix = ("by_tenant", (ledger.tenant,)) if state is None else ("by_state", (ledger.tenant, state))
    start: Key | None = None if after is None else (*prefix, ledger.run_row(after)["run_id"], after)
    rows = ledger.store.select(RUNS, index, prefix, start, limit + 1, descending=True)
    if _given(face, "runs", rows[:limit]):
        return
    names = _names(ledger, {text(row, "stream_id") for row in rows[:limit]})
    open_in = {text(row, "stream_id") for row in rows[:limit] if row["state"] == "running"}
    live = {stream_id for stream_id in open_in if is_held(ledger.ports, stream_id)}
    face.say(listing.run_lines(rows[:limit], names, live, face.columns))
    if len(rows) > limit:
        _more(face, f"ls runs{'' if state is None else f' --state {state}'}", str(rows[limit - 1]["run_id"]))


def _effects(face: Face, ledger: Ledger, state: str | None, after: str | None, limit: int) -> None:
    rows = (
        _newest_effects(ledger, after, limit + 1)
        if state is None
        else _effects_in(ledger, state, after, limit + 1)
    )
    repairs = repairs_of(ledger, rows[:limit])
    if face.as_json:
        for row in rows[:limit]:
            face.give(row_json(row) | {"repair": repairs.get(text(row, "effect_id"))})
        return
    if _given(face, "effects", rows[:limit]):
        return
    under_way = {text(row, "effect_id") for row in rows[:limit] if is_under_way(ledger, row, face.now_ms)}
    face.say(listing.effect_lines(rows[:limit], under_way, face.columns, face.now_ms, repairs))
    if len(rows) > limit:
        said = "" if state is None else f" --state {state}"
        _more(face, f"ls effects{said}", str(rows[limit - 1]["effect_id"]))


def repairs_of(ledger: Ledger, effects: Sequence[Row]) -> dict[str, str]:
    """How the last repair of each of these effects stands, of those that have one."""
    found: dict[str, str] = {}
    for effect in effects:
        subject = ledger.store.get(REPAIR_SUBJECTS.name, (effect["effect_id"],))
        repair = None if subject is None else ledger.store.get(REPAIRS.name, (subject["repair_id"],))
        if repair is not None:
            found[text(effect, "effect_id")] = text(repair, "state")
    return found


def _newest_effects(ledger: Ledger, after: str | None, wanted: int) -> list[Row]:
    """Effects by id, which is by the time of their making, of this tenant."""
    found: list[Row] = []
    start: Key | None = None if after is None else (_known(ledger, EFFECTS.name, after)["effect_id"],)
    while len(found) < wanted:
        page = ledger.store.select(EFFECTS.name, None, (), start, wanted, descending=True)
        found += [row for row in page if row["tenant"] == ledger.tenant]
        if len(page) < wanted:
            break
        start = (page[-1]["effect_id"],)
    return found[:wanted]


def _effects_in(ledger: Ledger, state: str, after: str | None, wanted: int) -> list[Row]:
    start: Key | None = None
    if after is not None:
        start = (ledger.tenant, state, _known(ledger, EFFECTS.name, after)["deadline_ms"], after)
    return ledger.store.select(
        EFFECTS.name, "by_state", (ledger.tenant, state), start, wanted, descending=True
    )


def reviews(
    face: Face,
    ledger: Ledger,
    state: str,
    after: str | None,
    limit: int,
    words: str = "",
    **filters: Any,
) -> None:
    """The reviews of a state (``all``: of any) that fit the filters, oldest first; ``words`` are those as given."""
    if after is not None:
        _known(ledger, REVIEWS.name, after)
    rows = ledger.reviews(None if state == "all" else state, limit + 1, after=after, **filters)
    if _given(face, "reviews", rows[:limit]):
        return
    pairs = [(row, ledger.store.get(EFFECTS.name, (row["effect_id"],))) for row in rows[:limit]]
    face.say(listing.review_lines(pairs, face.columns, face.now_ms))
    if any(row["state"] == "open" for row in rows):
        option = ledger_option(face)
        face.say(
            Line(
                Span(
                    f"  counterfoil review show ID{option}   says what is known, and how to settle it",
                    "quiet",
                )
            )
        )
    if len(rows) > limit:
        _more(face, f"review ls --state {state}{words}", str(rows[limit - 1]["review_id"]))


def _known(ledger: Ledger, table: str, row_id: str) -> Row:
    row = ledger.store.get(table, (row_id,))
    if row is None or row["tenant"] != ledger.tenant:
        raise InputError(f"--after names no row of {table}", hint="the foot of a page names the one to give")
    return row


def _given(face: Face, what: str, rows: Sequence[Row]) -> bool:
    """Whether the rows were dealt with: as JSON, or because there are none."""
    if face.as_json:
        for row in rows:
            face.give(row_json(row))
    elif not rows:
        face.say(listing.empty_lines(what, ledger_option(face)))
    return face.as_json or not rows


def _children(face: Face, ledger: Ledger, state: str | None, after: str | None, limit: int) -> None:
    found = ledger.children(state=state, after=after, limit=limit + 1)
    if face.as_json:
        for child in found[:limit]:
            face.give(child_json(child))
        return
    if not found:
        face.say(listing.empty_lines("children", ledger_option(face)))
        return
    face.say(children_lines(found[:limit], face.columns))
    if len(found) > limit:
        said = "" if state is None else f" --state {state}"
        _more(face, f"ls children{said}", found[limit - 1].link.run_id)


def _names(ledger: Ledger, streams: set[str]) -> dict[str, str]:
    names: dict[str, str] = {}
    for stream_id in sorted(streams):
        try:
            first = next(ledger.events(stream_id, limit=1), None)
        except CounterfoilError:
            continue
        name = None if first is None else (first.content_or_none() or {}).get("name")
        if isinstance(name, str):
            names[stream_id] = name
    return names


def _more(face: Face, words: str, after: str) -> None:
    face.say(Line(Span(f"  more: counterfoil {words} --after {after}{ledger_option(face)}", "quiet")))
