"""Reconciling a tool's effects with the provider's own book, and settling what the book can tell (DESIGN 7)."""

from __future__ import annotations

import hashlib
import io
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from msgspec import Struct, field

from counterfoil.artifacts.given_paths import given_path
from counterfoil.client.handle import Handle
from counterfoil.core.forms import is_label
from counterfoil.errors import FileMissing, InvalidForm
from counterfoil.flow.drafting import Person
from counterfoil.flow.drive import drive
from counterfoil.reconcile.book import BookForm, Columns, check, read_book
from counterfoil.reconcile.compare import Finding, Scope, compare
from counterfoil.reconcile.decide import AGREE, DIFFER, OPEN
from counterfoil.reconcile.settle import record_booked
from counterfoil.reconcile.shelf import Shelf

FINDINGS_MAX: Final = 100_000
"""Findings that are kept one by one; what is beyond is only counted, and a later pass comes to it."""

Progress = Callable[[int], None]


class Reconciled(Struct):
    """What ledger and book came to: how many of each kind, and each finding on which they do not simply agree.

    ``settled`` are the effects whose doubt the book has ended in this pass.
    """

    tool: str
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    entries: int = 0
    not_booked: int = 0
    sha256: str = ""
    settled: list[str] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        """Whether ledger and book say different things about anything."""
        return any(self.counts[kind] for kind in DIFFER)

    @property
    def undecided(self) -> int:
        """Effects whose outcome the ledger still does not know."""
        return sum(self.counts[kind] for kind in OPEN) - len(self.settled)

    def keep(self, finding: Finding) -> None:
        """Count a finding, and keep one that somebody has to look at."""
        self.counts[finding.kind] += 1
        if finding.kind not in AGREE and len(self.findings) < FINDINGS_MAX:
            self.findings.append(finding)


class Reconciling(Handle):
    """Holding the ledger against a provider's own book."""

    def reconcile(
        self,
        tool: str,
        book: str | Path | BinaryIO,
        columns: Columns,
        form: BookForm | None = None,
        *,
        amount_argument: str = "amount",
        since_ms: int | None = None,
        until_ms: int | None = None,
        settle: bool = False,
        by: str | None = None,
        progress: Progress = lambda _: None,
    ) -> Reconciled:
        """Compare every effect of a tool with a provider's book: here and not there, there and not here, amounts.

        Nothing is recorded unless ``settle``: then, as the named person ``by``, what is in doubt or in review and stands
        in the book once, with the same amount, is recorded as succeeded. ``since_ms`` and ``until_ms`` bound when an
        effect was intended, as the book covers a period. Memory is bounded. Raises ``BookInvalid`` with the line,
        before anything is compared or settled.
        """
        form = form or BookForm(kind=_kind_of(book))
        check(columns, form)
        if not is_label(tool):
            raise InvalidForm("tool is the name of a declared tool", argument="tool")
        if settle:
            self.check_writable()
            if by is None or not by.strip():
                raise InvalidForm("settling takes a person: name them with by", argument="by")
        scope = Scope(
            tool,
            since_ms,
            until_ms,
            None if columns.amount is None else amount_argument,
            by_provider_id=columns.provider_id is not None,
        )
        report = Reconciled(tool)
        with Shelf(self.ports.index) as shelf:
            report.sha256 = _fill(shelf, book, columns, form, progress)
            report.entries, report.not_booked = shelf.entries, shelf.not_booked
            for finding in compare(self.ports, shelf, scope):
                report.keep(finding)
        if settle:
            assert by is not None
            self._settle(report, by)
        return report

    def _settle(self, report: Reconciled, by: str) -> None:
        for finding in report.findings:
            if finding.kind == "settles":
                assert finding.stream_id is not None
                assert finding.effect_id is not None
                person = Person(self.ports.subject_key(finding.stream_id, by), by)
                evidence = _evidence(finding, report.sha256)
                if drive(record_booked(finding, person, evidence), self.ports) == "settled":
                    report.settled.append(finding.effect_id)


def _evidence(finding: Finding, sha256: str) -> dict[str, Any]:
    told: Mapping[str, Any] = {
        "book_sha256": sha256,
        "line": finding.lines[0],
        "provider_effect_id": finding.provider_id,
        "amount": None if finding.booked is None else f"{finding.booked:f}",
    }
    return {name: value for name, value in told.items() if value is not None}


def _kind_of(book: str | Path | BinaryIO) -> Any:
    name = str(book).lower() if isinstance(book, str | Path) else ""
    return "jsonl" if name.endswith((".jsonl", ".ndjson", ".json")) else "csv"


def _fill(
    shelf: Shelf, book: str | Path | BinaryIO, columns: Columns, form: BookForm, progress: Progress
) -> str:
    if not isinstance(book, str | Path):
        return _hashed(shelf, book, columns, form, progress)
    try:
        with given_path(book, "book").open("rb") as file:
            return _hashed(shelf, file, columns, form, progress)
    except FileNotFoundError as error:
        raise FileMissing(
            f"there is no book {book}", hint="name the file that the provider gave you"
        ) from error


class _Hashing(io.RawIOBase):
    """Lines of a file, with the SHA-256 of everything that was read."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        self.digest = hashlib.sha256()

    def readline(self, size: int | None = -1, /) -> bytes:
        """As a file's own."""
        line = self._file.readline(-1 if size is None else size)
        self.digest.update(line)
        return line


def _hashed(shelf: Shelf, file: BinaryIO, columns: Columns, form: BookForm, progress: Progress) -> str:
    hashing: Any = _Hashing(file)
    shelf.fill(read_book(hashing, columns, form), progress)
    digest: str = hashing.digest.hexdigest()
    return digest
