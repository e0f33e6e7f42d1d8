"""A payment provider as a process of its own, which delays, refuses, drops answers and may be killed; for the soak.

``python -m counterfoil.testing.bank --socket PATH --book FILE`` listens on a Unix socket and writes every payment down
before it answers. It ends when its standard input is closed, so it never outlives who started it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final, cast

from counterfoil.effects.doubt import Absent, Answer, CannotTell, Found
from counterfoil.errors import NotDone, Rejected

START_S: Final = 30.0
"""How long a bank may take until it listens."""

CONNECT_S: Final = 0.12
"""How long a caller tries to reach the bank, less than it waits for an answer."""

SLOW_S: Final = 0.02
LATE_S: Final = 0.4
"""How long a slow answer takes, and a late one: longer than the soak's callers wait."""

PAYING: Final = {
    "prompt": 83,
    "slow": 6,
    "late": 1,
    "not_done": 3,
    "answer_lost": 4,
    "unreached": 3,
}
"""What becomes of a payment, in a hundred."""

REFUSED_OF: Final = 37
"""One order of so many is refused, and always: a bank does not change its mind."""

ASKING: Final = {"prompt": 90, "unreached": 6, "mute": 4}
"""What becomes of a question, in a hundred."""


# ---- the callers' side ---------------------------------------------------------------------------------------------


class Client:
    """How the soak's tools reach the bank."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def pay(self, key: str, order: int, *, deduplicates: bool) -> dict[str, Any]:
        """Pay an order; raises as a tool does: ``Rejected``, ``NotDone``, or an ``OSError`` that says nothing."""
        answer = self._ask({"do": "pay", "key": key, "order": order, "deduplicates": deduplicates})
        if "refused" in answer:
            raise Rejected(answer["refused"])
        if "not_done" in answer:
            raise NotDone(answer["not_done"])
        receipt: dict[str, Any] = answer["receipt"]
        return receipt

    def find(self, key: str) -> Answer:
        """What the bank knows about a key, as a lookup answers."""
        answer = self._ask({"do": "find", "key": key})
        if "mute" in answer:
            return CannotTell(answer["mute"])
        return Absent() if answer["receipt"] is None else Found("succeeded", answer["receipt"])

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as line:
            self._connect(line)
            line.sendall(json.dumps(question).encode() + b"\n")
            with line.makefile("rb") as stream:
                told = stream.readline()
        if not told.endswith(b"\n"):
            raise ConnectionResetError("the bank broke off")
        answer: dict[str, Any] = json.loads(told)
        return answer

    def _connect(self, line: socket.socket) -> None:
        """Connect; a bank that was killed is waited for a little, as it is being started again."""
        deadline = time.monotonic() + CONNECT_S
        while True:
            try:
                return line.connect(self._path)
            except OSError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.01)


def read_book(book: Path) -> list[dict[str, Any]]:
    """Every payment that really happened, in order."""
    return [json.loads(line) for line in book.read_text("ascii").splitlines()] if book.exists() else []


class BankProcess:
    """The bank's process as the soak starts and kills it; its book outlives it."""

    def __init__(self, directory: Path, chance: random.Random) -> None:
        # A socket's path has about a hundred characters at most, so it does not lie in a directory of the caller's.
        self._place = Path(tempfile.mkdtemp(prefix="bank-"))
        self.socket: Path = self._place / "bank"
        self.book: Path = directory / "book"
        self._chance = chance
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, faults: bool = True) -> None:
        """Start it, and return when it listens."""
        self.socket.unlink(missing_ok=True)
        command = [sys.executable, "-m", "counterfoil.testing.bank", "--socket", str(self.socket)]
        command += ["--book", str(self.book), "--seed", str(self._chance.getrandbits(32))]
        self._process = subprocess.Popen(
            [*command, *(["--faults"] if faults else [])], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        deadline = time.monotonic() + START_S
        while not self.socket.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the bank did not start")
            time.sleep(0.01)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone: no payment comes after this."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def end(self) -> None:
        """Kill it for good; its book stays."""
        self.kill()
        shutil.rmtree(self._place, ignore_errors=True)


# ---- the bank itself -----------------------------------------------------------------------------------------------


class _Bank(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: Path, book: Path, chance: random.Random, *, faults: bool) -> None:
        self.lock: threading.Lock = threading.Lock()
        self.faults: bool = faults
        self._chance = chance
        self._first: dict[str, dict[str, Any]] = {}
        for receipt in read_book(book):
            self._first.setdefault(receipt["key"], receipt)
        self._count = len(read_book(book))
        self._book = os.open(book, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        # Bound under another name first: who sees the socket can connect to it.
        super().__init__(str(path.with_suffix(".new")), _Handler)
        path.with_suffix(".new").rename(path)

    def chooses(self, chances: dict[str, int]) -> str:
        """What happens to this request."""
        if not self.faults:
            return "prompt"
        with self.lock:
            return self._chance.choices(list(chances), list(chances.values()))[0]

    def pay(self, key: str, order: int, *, deduplicates: bool) -> dict[str, Any]:
        """Pay, written down when this returns."""
        with self.lock:
            if deduplicates and key in self._first:
                return self._first[key]
            self._count += 1
            receipt = {"id": f"pay_{self._count}", "key": key, "order": order}
            os.write(self._book, json.dumps(receipt).encode("ascii") + b"\n")
            self._first.setdefault(key, receipt)
            return receipt

    def find(self, key: str) -> dict[str, Any] | None:
        """What was paid under this key first."""
        with self.lock:
            return self._first.get(key)


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        bank = cast("_Bank", self.server)
        # A caller that was killed is nobody to answer.
        with contextlib.suppress(OSError, ValueError):
            asked = json.loads(self.rfile.readline())
            answer = self._pay(bank, asked) if asked["do"] == "pay" else self._find(bank, asked)
            if answer is not None:
                self.wfile.write(json.dumps(answer).encode() + b"\n")

    def _pay(self, bank: _Bank, asked: dict[str, Any]) -> dict[str, Any] | None:
        fault = bank.chooses(PAYING)
        if fault == "unreached":
            return None
        if asked["order"] % REFUSED_OF == 0:
            return {"refused": "this bank pays nothing here"}
        # Of what was done the bank does not say that it was not, when it is asked for again.
        if fault == "not_done" and bank.find(asked["key"]) is None:
            return {"not_done": "come back later"}
        if fault == "slow":
            time.sleep(SLOW_S)
        receipt = bank.pay(asked["key"], asked["order"], deduplicates=asked["deduplicates"])
        if fault == "late":
            time.sleep(LATE_S)
        return None if fault == "answer_lost" else {"receipt": receipt}

    def _find(self, bank: _Bank, asked: dict[str, Any]) -> dict[str, Any] | None:
        match bank.chooses(ASKING):
            case "unreached":
                return None
            case "mute":
                return {"mute": "our books are being closed"}
        return {"receipt": bank.find(asked["key"])}


def main() -> None:
    """Listen until standard input is closed."""
    parser = argparse.ArgumentParser(description="The payment provider of the soak.")
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--book", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", action="store_true", help="delay, refuse and drop now and then")
    told = parser.parse_args()
    chance = random.Random(told.seed)  # noqa: S311 - which request goes wrong is chance, not a secret
    bank = _Bank(told.socket, told.book, chance, faults=told.faults)
    threading.Thread(target=bank.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
