"""The demo's payment provider: a process of its own, with a book on disk that outlives every caller.

``python -m counterfoil.demo.provider --book FILE`` listens on a loopback port of its own choosing and says so as a
line of JSON on standard output; it ends when its standard input is closed, so it never outlives who started it.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import parse_qs, urlsplit

HOLD_S_MAX: Final = 60.0
"""How long a held answer waits for its caller to vanish before it is given after all."""

BODY_BYTES_MAX: Final = 64 * 1024

PREFIXES: Final = {"refunds": "re", "charges": "ch", "messages": "msg"}
"""What can be booked here, and how the provider's own ids of it begin."""


class Book:
    """What really happened: rows on disk, committed before any caller is answered. Thread-safe.

    With ``deduplicates`` a key that was seen gets the first booking again, without it every request is carried out.
    """

    def __init__(self, path: Path, *, deduplicates: bool) -> None:
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS booking (number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL,"
            " key TEXT NOT NULL, what TEXT NOT NULL)"
        )
        self._deduplicates = deduplicates
        self._lock = threading.Lock()

    def carry_out(self, kind: str, key: str, what: dict[str, Any]) -> dict[str, Any]:
        """Book a request, on disk when this returns; gives the receipt."""
        with self._lock:
            known = self.find(kind, key) if self._deduplicates else None
            if known is not None:
                return known
            insert = "INSERT INTO booking (kind, key, what) VALUES (?, ?, ?)"
            number = self._db.execute(insert, (kind, key, json.dumps(what))).lastrowid
            return _receipt(kind, number, key, what)

    def find(self, kind: str, key: str) -> dict[str, Any] | None:
        """The receipt of what was booked under this key first."""
        return next((receipt for receipt in _receipts(self._db, kind) if receipt["key"] == key), None)


def read_book(path: Path, kind: str) -> list[dict[str, Any]]:
    """What a provider's book says, read from its file as its owner would, whether the provider runs or not."""
    db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        return _receipts(db, kind)
    finally:
        db.close()


def _receipts(db: sqlite3.Connection, kind: str) -> list[dict[str, Any]]:
    rows = db.execute("SELECT number, key, what FROM booking WHERE kind = ? ORDER BY number", (kind,))
    return [_receipt(kind, number, key, json.loads(what)) for number, key, what in rows.fetchall()]


def _receipt(kind: str, number: int | None, key: str, what: dict[str, Any]) -> dict[str, Any]:
    return {**what, "id": f"{PREFIXES[kind]}_{number}", "key": key}


class Provider(ThreadingHTTPServer):
    """Books what it is sent. ``hold`` is the kind whose first answer is held until the caller is gone.

    A ``mute`` provider knows neither idempotency keys nor a status look-up, as many old ones do.
    """

    daemon_threads = True

    def __init__(self, book: Path, *, hold: str | None, mute: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.book = Book(book, deduplicates=not mute)
        self.mute = mute
        self._hold = hold
        self._lock = threading.Lock()

    def must_hold(self, kind: str) -> bool:
        """Whether this answer is the one to hold; true once."""
        with self._lock:
            held, self._hold = self._hold == kind, None if self._hold == kind else self._hold
            return held


class _Handler(BaseHTTPRequestHandler):
    """``POST /refunds``, ``/charges`` and ``/messages`` with a JSON body and an idempotency key; ``GET /refunds?key=…`` asks."""

    @property
    def provider(self) -> Provider:
        """The server this request came to."""
        return cast("Provider", self.server)

    def do_POST(self) -> None:
        kind = self.path.strip("/")
        size = int(self.headers.get("content-length") or 0)
        key = self.headers.get("idempotency-key") or ""
        if kind not in PREFIXES or not 0 < size <= BODY_BYTES_MAX or not key:
            self._answer(400, {"error": "a kind of booking, a JSON body and an idempotency key are needed"})
            return
        receipt = self.provider.book.carry_out(kind, key, json.loads(self.rfile.read(size)))
        if self.provider.must_hold(kind):
            tell(booked=receipt)
            self._wait_until_caller_is_gone()
        self._answer(201, receipt)

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        kind, key = asked.path.strip("/"), parse_qs(asked.query).get("key", [""])[0]
        if self.provider.mute or kind not in PREFIXES:
            self._answer(501, {"error": "this provider has no status look-up"})
            return
        receipt = self.provider.book.find(kind, key)
        self._answer(200 if receipt else 404, receipt or {"error": "nothing was booked under this key"})

    def _wait_until_caller_is_gone(self) -> None:
        """The operating system closes a killed process's connection, and the read that waits for more ends."""
        self.connection.settimeout(HOLD_S_MAX)
        try:
            self.connection.recv(1)
        except OSError:
            return

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        try:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            # Nobody is there to be answered: that is what this demo is about.
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Standard error stays free for what went wrong."""


def tell(**said: Any) -> None:
    """Say something to whoever started this process: one line of JSON."""
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Listen until standard input is closed."""
    parser = argparse.ArgumentParser(description="The payment provider of the demo.")
    parser.add_argument("--book", type=Path, required=True, help="the file that holds what was booked")
    parser.add_argument("--hold", choices=sorted(PREFIXES), help="hold the first answer of this kind")
    parser.add_argument("--mute", action="store_true", help="no idempotency keys, no status look-up")
    options = parser.parse_args()
    provider = Provider(options.book, hold=options.hold, mute=options.mute)
    threading.Thread(target=provider.serve_forever, daemon=True).start()
    tell(listening=provider.server_address[1])
    sys.stdin.read()


if __name__ == "__main__":
    main()
