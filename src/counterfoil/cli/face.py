"""The edge to the terminal: where output goes, how wide it is, whether it may be coloured, and whose clock is read."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from msgspec import Struct, field

from counterfoil.access.session import DEFAULT_CEILING
from counterfoil.cli.exits import Failure
from counterfoil.cli.render.failure import failure_lines
from counterfoil.cli.render.line import Line
from counterfoil.cli.streams import OutputFailed, printing, silence
from counterfoil.client.clock import SystemClock
from counterfoil.client.config import Config, find_config
from counterfoil.errors import AccessRefused

if TYPE_CHECKING:
    from counterfoil.abc import Clock
    from counterfoil.client.ledger import Ledger
    from counterfoil.client.migrating import Migration

WIDTH_MIN: Final = 40
WIDTH_PIPE: Final = 100
"""Columns where there is no terminal to ask."""

DEMANDED: Final = "the configuration demands who reads, and what for: {} NAME --purpose TEXT"
"""Why content is withheld where counterfoil.toml has a table ``access`` and nobody said who they are."""

LEDGER_VARIABLE: Final = "COUNTERFOIL_LEDGER"
DEFAULT_LEDGER: Final = "./ledger"


class Face(Struct):
    """What a command is given beside its arguments. Tests give a width, a clock and an environment of their own."""

    width: int | None = None
    clock: Clock = field(default_factory=SystemClock)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    directory: Path | None = None
    ledger: str | None = None
    tenant: str | None = None
    as_json: bool = False
    color: bool | None = None
    reader: str | None = None
    purpose: str | None = None
    ceiling: str = DEFAULT_CEILING
    _config: Config | None = None

    # ---- what to work on ----

    @property
    def config(self) -> Config:
        """``counterfoil.toml`` of this directory or one above."""
        if self._config is None:
            self._config = find_config(self.directory)
        return self._config

    @property
    def place(self) -> str:
        """The ledger: the option, the environment, the file, ``./ledger``; the first that names one."""
        return self.ledger or self.environment.get(LEDGER_VARIABLE) or self.config.ledger or DEFAULT_LEDGER

    @property
    def now_ms(self) -> int:
        """The clock that ages and waits are told by."""
        return self.clock.now_ms()

    def shows(self, conversation: str | None = None) -> Ledger:
        """As :meth:`open` for reading, for a command that shows content, of one conversation or all: on record where asked."""
        ledger = self.open(write=self.reader is not None)
        try:
            self.begin(ledger, None if conversation is None else ledger.stream_of(conversation))
        except BaseException:
            ledger.close()
            raise
        return ledger

    def begin(self, ledger: Ledger, stream_id: str | None = None, event_id: str | None = None) -> None:
        """Begin the read session of ``--as`` and ``--purpose``, which lasts as long as the command.

        Without them nothing is recorded, and content is *withheld* where the configuration demands them. Raises
        AccessRefused, which is on record, and what recording the decision raises.
        """
        if self.reader is None:
            self.shut(ledger, "--as")
            return
        ledger.ports.session, ledger.ports.withheld = None, ""
        reading = ledger.reading(
            stream_id,
            actor=self.reader,
            purpose=self.purpose or "",
            classification=self.ceiling,
            event_id=event_id,
        )
        ledger.ports.session = reading.__enter__().session

    @property
    def guarded(self) -> bool:
        """Whether the configuration demands who reads, and what for."""
        guarding = self.config.access
        return guarding is not None and guarding.required

    def demand(self, actor: str | None, option: str) -> None:
        """Refuse a command that shows content by itself, where the configuration demands to know who asks: by ``option``."""
        if actor is None and self.guarded:
            raise AccessRefused(DEMANDED.format(option), rule="access-required")

    def open(
        self,
        *,
        write: bool = False,
        create: bool = False,
        judges: bool = False,
        migration: Migration | None = None,
    ) -> Ledger:
        """The ledger, opened; for reading unless ``write``. ``migration`` is told how an older store is taken over.

        What is opened for reading withholds content where the configuration demands who reads, until :meth:`begin`;
        unless the command ``judges`` content and shows none. What acts needs content for its work.
        """
        from counterfoil.client.ledger import open as open_ledger

        tenant = self.tenant or self.config.tenant
        ledger = open_ledger(
            self.place,
            tenant=tenant,
            create=create,
            read_only=not write and not create,
            authorizer=None if self.config.access is None else self.config.access.authorizer,
            artifacts=self.config.artifacts,
            turns=self.config.turns,
            search="off",  # a damaged index hides nothing from commands that do not search
            migration=migration,
            clock=self.clock,
        )
        if not (write or create or judges):
            self.shut(ledger, "--as")
        return ledger

    def shut(self, ledger: Ledger, option: str) -> None:
        """From now on withhold content where the configuration demands who reads, by ``option``."""
        ledger.ports.session, ledger.ports.withheld = None, DEMANDED.format(option) if self.guarded else ""

    # ---- out ----

    @property
    def columns(self) -> int:
        """Terminal cells of a line."""
        if self.width is not None:
            return max(self.width, WIDTH_MIN)
        if not _is_terminal(sys.stdout) and "COLUMNS" not in self.environment:
            return WIDTH_PIPE
        return max(shutil.get_terminal_size((WIDTH_PIPE, 24)).columns, WIDTH_MIN)

    def say(self, lines: Iterable[Line] | Line) -> None:
        """Print lines for people."""
        with printing():
            _write(sys.stdout, [lines] if isinstance(lines, Line) else lines, self._colored(sys.stdout))

    def note(self, lines: Iterable[Line] | Line) -> None:
        """Print lines for people on standard error, beside a result that a program reads.

        Where standard error cannot be written there is nobody left to tell.
        """
        try:
            _write(sys.stderr, [lines] if isinstance(lines, Line) else lines, self._colored(sys.stderr))
            sys.stderr.flush()
        except OSError:
            silence(sys.stderr)

    def give(self, value: Any) -> None:
        """Print one JSON value on a line of its own. ASCII, so lone surrogates and control characters are escapes."""
        with printing():
            sys.stdout.write(json.dumps(value, ensure_ascii=True, allow_nan=False) + "\n")

    def flush(self) -> None:
        """Hand over what was printed; a following tail does it line by line."""
        with printing():
            sys.stdout.flush()

    def tell(self, failure: Failure, *, aside: bool = False) -> None:
        """Print an error: on standard output as an object with ``--json``, else for people on standard error.

        ``aside`` keeps it away from a standard output that cannot be written.
        """
        if self.as_json and not aside:
            try:
                self.give(failure.to_json())
                self.flush()
            except OutputFailed:
                silence(sys.stdout)
            else:
                return
        self.note(failure_lines(failure, self.columns))

    def _colored(self, stream: TextIO) -> bool:
        if self.color is not None:
            return self.color
        if self.environment.get("NO_COLOR") or self.environment.get("TERM") == "dumb":
            return False
        return bool(self.environment.get("FORCE_COLOR")) or _is_terminal(stream)

    # ---- progress ----

    @contextmanager
    def progress(self, words: str, unit: str = "") -> Iterator[Progress]:
        """A progress bar on standard error, drawn only where there is a terminal and nobody reads JSON."""
        if self.as_json or not _is_terminal(sys.stderr):
            yield Progress()
            return
        from counterfoil.cli.progress import bar

        with bar(words, unit, colored=self._colored(sys.stderr)) as progress:
            yield progress


class Progress:
    """Takes the numbers of a long work; this one shows nothing."""

    def at(self, done: int, total: int | None = None) -> None:
        """``done`` of ``total`` (None: unknown)."""


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:
        return False


def _write(stream: TextIO, lines: Iterable[Line], colored: bool) -> None:
    for line in lines:
        text = line.rstrip()
        stream.write(_encodable(text.ansi() if colored else text.text, stream) + "\n")


def _encodable(text: str, stream: TextIO) -> str:
    """What the stream's encoding cannot say is written as a backslash escape, never lost and never an error."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return text.encode(encoding, "backslashreplace").decode(encoding)
    return text
