"""The processes of the demo: started, listened to line by line, killed by their own id, and never left behind."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from counterfoil.demo.agent import PROVIDER_VARIABLE
from counterfoil.errors import InternalError

SAYS_WITHIN_S: Final = 90
"""How long a process may stay silent. Longest is a worker that must wait for a dead one's lease: half a minute."""

ENDS_WITHIN_S: Final = 30.0
ERRORS_SHOWN_BYTES: Final = 4_000


class Player:
    """One process that says what it does as lines of JSON. Its standard error is kept in a file."""

    def __init__(
        self, name: str, module: str, arguments: list[str], errors: Path, environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self._errors = errors
        self._said: queue.Queue[dict[str, Any] | None] = queue.Queue()
        with errors.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env={**os.environ, **environment},
            )
        assert self._process.stdout is not None
        threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True).start()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def says(self, word: str, meanwhile: Callable[[], None] = lambda: None) -> Any:
        """Wait until the process says this word; what it says of it. ``meanwhile`` is called every second.

        Raises InternalError if it says another word, ends, or says nothing for 90 s.
        """
        for _ in range(SAYS_WITHIN_S):
            try:
                said = self._said.get(timeout=1)
            except queue.Empty:
                meanwhile()
                continue
            if said is not None and word in said:
                return said[word]
            raise self._failed(f"ended with {self._process.wait()}" if said is None else f"said {said}")
        raise self._failed(f"said nothing for {SAYS_WITHIN_S} s")

    def kill(self) -> int:
        """Send SIGKILL and wait; the exit status, -9 when that is what ended it."""
        self._process.kill()
        return self._process.wait(ENDS_WITHIN_S)

    def end(self) -> int:
        """Close its input, which asks a provider to end, and wait."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(ENDS_WITHIN_S)

    def leave(self) -> None:
        """See to it that the process is gone, whatever has happened."""
        if self._process.poll() is None:
            self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _listen(self, lines: IO[bytes]) -> None:
        try:
            for line in lines:
                self._said.put(json.loads(line))
        except ValueError:
            pass  # the pipe was closed under us, or a line was torn by a kill: either way nothing more is said
        self._said.put(None)

    def _failed(self, how: str) -> InternalError:
        words = self._errors.read_bytes()[-ERRORS_SHOWN_BYTES:].decode("utf-8", "replace").strip()
        return InternalError(
            f"{self.name} (process {self.pid}) {how}" + (f": {words}" if words else ""),
            hint=f"what it wrote to standard error is in {self._errors}",
        )


class Cast:
    """Everything that was started; leaving the block ends what still runs, each by its own process id."""

    def __init__(self, directory: Path, ledger: str | None = None) -> None:
        self.directory = directory
        self.ledger = ledger or str(directory / "ledger")
        self._players: list[Player] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for player in self._players:
            player.leave()

    def book(self, provider: str) -> Path:
        """The file that a provider keeps its book in."""
        return self.directory / f"{provider}-book.db"

    def provider(self, name: str, *, hold: str, mute: bool) -> tuple[Player, str]:
        """Start a provider; the process and its address."""
        arguments = ["--book", str(self.book(name)), "--hold", hold, *(["--mute"] if mute else [])]
        player = self._start(name, "counterfoil.demo.provider", arguments, {})
        return player, f"http://127.0.0.1:{player.says('listening')}"

    def worker(self, case: str, address: str) -> Player:
        """Start a worker on a case."""
        arguments = ["--ledger", self.ledger, "--case", case]
        return self._start(
            f"{case}-worker", "counterfoil.demo.worker", arguments, {PROVIDER_VARIABLE: address}
        )

    def _start(self, name: str, module: str, arguments: list[str], environment: Mapping[str, str]) -> Player:
        errors = self.directory / f"{name}-{len(self._players) + 1}.err"
        player = Player(name, module, arguments, errors, environment)
        self._players.append(player)
        return player
