"""``counterfoil search``: finds events by what was said in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click
from msgspec.structs import asdict

from counterfoil.cli.commanding import ledger_option, word
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, limit_option, pass_face
from counterfoil.cli.render.found import found_lines, lag_words
from counterfoil.cli.render.line import Line, Span
from counterfoil.core.forms import time_text

if TYPE_CHECKING:
    from counterfoil.client.ledger import Ledger
    from counterfoil.search.answer import Answer, Lag

LIMIT_MAX: Final = 1_000

LIMIT: Final = 20
"""Lines of a page where nobody says."""


@click.command(name="search", short_help="Find events by what was said in them.")
@click.argument("text", required=False)
@click.option("--conversation", metavar="C", help="In this conversation, by name or str_….")
@click.option(
    "--all", "across", is_flag=True, help="In all conversations, with --by and --purpose; needs permission."
)
@click.option(
    "--by", metavar="NAME", help="Who asks; the decision about it is recorded before anything is shown."
)
@click.option("--purpose", metavar="P", help="What for.")
@click.option("--query", is_flag=True, help='The text is a query: words, "texts", OR, NOT, parentheses.')
@limit_option(LIMIT, most=LIMIT_MAX)
@click.option("--after", type=int, metavar="N", help="Go on after this one; the foot of a page names it.")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(0),
    metavar="S",
    help="Bring the index up to date for S seconds.",
)
@click.option("--rebuild", is_flag=True, help="Make the index again from nothing; then TEXT may be left out.")
@face_options(ledger=True)
@pass_face
def command(
    face: Face,
    text: str | None,
    conversation: str | None,
    across: bool,
    by: str | None,
    purpose: str | None,
    query: bool,
    limit: int,
    after: int | None,
    wait_s: float | None,
    rebuild: bool,
) -> int:
    """Find events whose content holds TEXT as it stands, the newest first; upper and lower case are the same.

    The index is brought up to date first, however long that takes unless --wait bounds it; it may be stopped and goes on
    from there. How far it lags is said with each answer.
    """
    if text is None and not rebuild:
        raise click.UsageError("a text to look for is missing")
    if text is not None and (conversation is None) is not across:
        raise click.UsageError("name a --conversation, or search --all of them")
    if (by is None) is not (purpose is None):
        raise click.UsageError("--by and --purpose are given together")
    if text is not None:
        face.demand(by, "--by")
    # Who asked is recorded, so the ledger is written then.
    with face.open(write=by is not None) as ledger:
        # Opened without a look at the index, so that one that is damaged can be made again.
        ledger.search_place = "on"
        lag = _index(face, ledger, rebuild=rebuild, wait_s=wait_s)
        if text is None:
            _say_lag(face, ledger, lag)
            return Exit.DONE
        answer = ledger.search(
            text,
            conversation,
            across=across,
            actor=by,
            purpose=purpose or "",
            operators=query,
            limit=limit,
            after=after,
            wait_s=wait_s or 0.0,
        )
    if face.as_json:
        face.give(answer_json(answer))
        return Exit.DONE
    said = "" if conversation is None else f" --conversation {word(conversation, 'C')}"
    again = f"counterfoil search {word(text, 'TEXT')}{said or ' --all'}{' --query' if query else ''}"
    again += _asked_alike(by, purpose, limit, wait_s)
    face.say(found_lines(answer, face.columns, again, ledger_option(face)))
    return Exit.DONE


def _asked_alike(by: str | None, purpose: str | None, limit: int, wait_s: float | None) -> str:
    """The options that the next page is asked for with, as they were given."""
    said = f" --by {word(by, 'NAME')} --purpose {word(purpose or '', 'TEXT')}" if by is not None else ""
    said += "" if limit == LIMIT else f" --limit {limit}"
    return said + ("" if wait_s is None else f" --wait {wait_s:g}")


def _index(face: Face, ledger: Ledger, *, rebuild: bool, wait_s: float | None) -> Lag | None:
    with face.progress("indexing", "events") as progress:
        if rebuild:
            return ledger.rebuild_search(progress.at)
        return None if wait_s is not None else ledger.index_search(progress.at)


def _say_lag(face: Face, ledger: Ledger, lag: Lag | None) -> None:
    assert lag is not None, "made again above"
    if face.as_json:
        face.give({"place": ledger.place, "lag": asdict(lag)})
    else:
        face.say(Line(Span("✓ ", "good"), f"the search index was made again; {lag_words(lag)}"))


def answer_json(answer: Answer) -> dict[str, Any]:
    """One object: the matches, the lag, and why something may be missing."""
    return {
        "hits": [
            {
                "conversation": hit.conversation,
                "stream_id": hit.stream_id,
                "sequence": hit.sequence,
                "event_id": hit.event_id,
                "event_type": hit.event_type,
                "run_id": hit.run_id,
                "recorded_at": time_text(hit.recorded_at_ms),
                "actor": {"type": hit.actor_type, "id": hit.actor_id},
                "snippet": hit.snippet.text,
                "marks": [list(mark) for mark in hit.snippet.marks],
            }
            for hit in answer.hits
        ],
        "lag": asdict(answer.lag),
        "approximate": list(answer.approximate),
        "after": answer.after,
    }
