"""The same resumption by hand: a plain file of steps, each sealed and identified, read by a program without the package.

``by_hand.py FILE STEPS`` adds the steps that are missing, in one transaction, where STEPS is ``+N``; else it starts as an
agent would, is handed out every step but the last, takes that live, and is gone as after a SIGKILL.

It imports nothing of ours: what it takes to start is part of what is measured.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import sqlite3
import sys
import time
from typing import Any, NoReturn

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY = bytes(32)
NONCE_BYTES = 12
TEXT_BYTES = 200
"""As in :mod:`counterfoil.bench.resumed`, whose step this is."""

TABLE = """CREATE TABLE IF NOT EXISTS step (number INTEGER PRIMARY KEY, identity BLOB NOT NULL, hash BLOB NOT NULL,
    content BLOB NOT NULL) STRICT"""


def result_of(number: int) -> dict[str, Any]:
    """What each step comes to."""
    return {"number": number, "text": "x" * TEXT_BYTES}


def identity(number: int) -> bytes:
    """Of a call: what is called with what, under a key."""
    called = json.dumps({"args": [number], "name": "step"}, separators=(",", ":"))
    return hmac.digest(KEY, called.encode(), "sha256")


def sealed(cipher: AESGCM, number: int) -> tuple[int, bytes, bytes, bytes]:
    """The row of a step: its result encrypted, and the hash of what is stored."""
    nonce, name = os.urandom(NONCE_BYTES), identity(number)
    content = nonce + cipher.encrypt(nonce, json.dumps(result_of(number)).encode(), name)
    return number, name, hashlib.sha256(content).digest(), content


def opened(cipher: AESGCM, number: int, row: tuple[int, bytes, bytes, bytes]) -> Any:
    """The result of a completed step, if it is the one that is asked for and unchanged."""
    stored, name, digest, content = row
    if stored != number or name != identity(number) or digest != hashlib.sha256(content).digest():
        raise AssertionError(f"step {number} is not the one that was recorded")
    return json.loads(cipher.decrypt(content[:NONCE_BYTES], content[NONCE_BYTES:], name))


def connected(path: str) -> sqlite3.Connection:
    """The file, durable as the ledger's."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute(TABLE)
    return db


def fill(path: str, steps: int) -> None:
    """Record so many steps."""
    db, cipher = connected(path), AESGCM(KEY)
    db.execute("BEGIN")
    db.executemany(
        "INSERT INTO step VALUES (?, ?, ?, ?)", (sealed(cipher, number) for number in range(steps))
    )
    db.execute("COMMIT")
    db.close()
    print(json.dumps({"steps": steps}))


def resume(path: str, steps: int) -> NoReturn:
    """Be handed out all steps but the last, and take that live."""
    db, cipher = connected(path), AESGCM(KEY)
    rows = db.execute("SELECT number, identity, hash, content FROM step ORDER BY number").fetchall()
    began = time.perf_counter()
    for number in range(steps - 1):
        if opened(cipher, number, rows[number])["number"] != number:
            raise AssertionError(f"step {number} was handed out wrongly")
    taken = time.perf_counter() - began
    db.execute("INSERT INTO step VALUES (?, ?, ?, ?)", sealed(cipher, steps - 1))
    print(json.dumps({"processor": time.process_time(), "step_us": taken / steps * 1e6}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[2].startswith("+"):
        fill(sys.argv[1], int(sys.argv[2]))
    else:
        resume(sys.argv[1], int(sys.argv[2]))
