"""``counterfoil reconcile``: here and not there, there and not here, amounts that differ; and doubt that a book ends."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, BinaryIO, cast

import click

from counterfoil.cli.commanding import ledger_option
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face, reading_options
from counterfoil.cli.render.reconciled import reconciled_lines
from counterfoil.client.reconciling import Reconciled
from counterfoil.core.forms import parse_outside_time, time_ms
from counterfoil.errors import InvalidForm
from counterfoil.reconcile.book import BookForm, BookKind, Columns
from counterfoil.reconcile.compare import Finding


class Moment(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of the library only
    """A day, or a time with its zone, as milliseconds."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The moment; a day begins at midnight UTC."""
        text = f"{value}T00:00:00Z" if len(str(value)) == len("2026-03-01") else str(value)
        try:
            return time_ms(parse_outside_time(text)[0])
        except InvalidForm:
            self.fail(f"{value!r} is no day (2026-03-01) and no time (2026-03-01T12:00:00Z)", param, ctx)


@click.command(name="reconcile", short_help="Hold a tool's effects against the provider's own book.")
@click.argument("book", metavar="BOOK", required=False)
@click.option("--from", "given", metavar="BOOK", help="The book; - is standard input.")
@click.option("--tool", metavar="NAME", required=True, help="The tool whose effects the book holds.")
@click.option("--key-column", metavar="NAME", help="Holds the idempotency key as it was sent.")
@click.option("--id-column", metavar="NAME", help="Holds the provider's own id of the effect.")
@click.option("--amount-column", metavar="NAME", help="Holds the amount.")
@click.option(
    "--amount-argument", metavar="NAME", default="amount", show_default=True, help="Which argument it is."
)
@click.option("--status-column", metavar="NAME", help="Says whether it was done.")
@click.option(
    "--booked", metavar="VALUE", multiple=True, help="A status that counts as done; again for more."
)
@click.option(
    "--format", "kind", type=click.Choice(["csv", "jsonl"]), help="Default: by the name of the file."
)
@click.option("--encoding", metavar="NAME", default="utf-8", show_default=True, help="Of the book.")
@click.option("--delimiter", metavar="C", default=",", show_default=True, help="Between the fields of a CSV.")
@click.option(
    "--minor-units", metavar="N", type=int, default=0, help="Amounts are whole: 2 reads 4000 as 40.00."
)
@click.option("--ignore-sign", is_flag=True, help="A refund of -40 is one of 40.")
@click.option("--since", type=Moment(), help="Effects intended from then on.")
@click.option("--until", type=Moment(), help="Effects intended before then.")
@click.option("--settle", is_flag=True, help="Record what the book says of effects in doubt.")
@click.option("--by", metavar="NAME", help="Who settles.")
@reading_options
@face_options(ledger=True)
@pass_face
def command(
    face: Face, /, book: str | None, given: str | None, tool: str, settle: bool, by: str | None, **told: Any
) -> int:
    """Compare every effect of a tool with the provider's own book, a CSV with a line of names or JSON Lines.

    An effect is found by its key as it was sent (--key-column) or by the provider's id (--id-column). Nothing is
    recorded without --settle: then, as the person --by, effects in doubt or in review that stand in the book once, with
    the same amount, are recorded as succeeded. What is absent from a book settles nothing.

    Exit code 4: ledger and book differ. 3: something is still undecided. 65: the book cannot be read; the line is named.
    """
    place = given or book
    if place is None or (given is not None and book is not None):
        raise click.UsageError("name one book: BOOK or --from BOOK")
    if settle and not (by and by.strip()):
        raise click.UsageError("--settle takes --by NAME: a person records what the book says")
    columns = Columns(*(told[f"{name}_column"] for name in ("key", "id", "amount", "status")))
    source: str | BinaryIO = sys.stdin.buffer if place == "-" else place
    # Keys and amounts are content: where they are withheld every effect would differ from the book.
    face.demand(face.reader, "--as")
    with (
        face.open(write=settle or face.reader is not None) as ledger,
        face.progress("reading the book", "lines") as progress,
    ):
        face.begin(ledger)
        report = ledger.reconcile(
            tool,
            source,
            columns,
            _form(place, told),
            amount_argument=told["amount_argument"],
            since_ms=told["since"],
            until_ms=told["until"],
            settle=settle,
            by=by,
            progress=progress.at,
        )
    if face.as_json:
        face.give(_json(report))
    else:
        face.say(reconciled_lines(report, face.columns, ledger_option(face)))
    if report.differs:
        return Exit.CONFLICT
    return Exit.UNDECIDED if report.undecided else Exit.DONE


def _form(place: str, told: Mapping[str, Any]) -> BookForm:
    delimiter = told["delimiter"]
    return BookForm(
        kind=cast("BookKind", told["kind"] or _kind_of(place)),
        encoding=told["encoding"],
        delimiter="\t" if delimiter in ("\\t", "tab") else delimiter,
        minor_units=told["minor_units"],
        ignore_sign=told["ignore_sign"],
        booked=frozenset(told["booked"]),
    )


def _kind_of(place: str) -> str:
    return "jsonl" if place.lower().endswith((".jsonl", ".ndjson", ".json")) else "csv"


def _json(report: Reconciled) -> dict[str, Any]:
    return {
        "tool": report.tool,
        "book": {"entries": report.entries, "not_booked": report.not_booked, "sha256": report.sha256},
        "counts": dict(sorted(report.counts.items())),
        "settled": report.settled,
        "undecided": report.undecided,
        "findings": [_finding(finding) for finding in report.findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "effect_id": finding.effect_id,
        "run_id": finding.run_id,
        "state": finding.state,
        "review_id": finding.review_id,
        "key": finding.key,
        "provider_effect_id": finding.provider_id,
        "lines": list(finding.lines),
        "recorded_amount": None if finding.recorded is None else f"{finding.recorded:f}",
        "booked_amount": None if finding.booked is None else f"{finding.booked:f}",
    }
