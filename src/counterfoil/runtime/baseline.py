"""``runtime.baseline``: what a conversation of the runtime store of schema 1 held, as the one event it begins with.

Pure: rows of the old store go in, content and public fields come out. A cell that cannot be read is kept as it lies and
counted; it hides none of its neighbours (DESIGN 2.9). Old ids are attributes; the ids of this ledger are derived from
them with the tenant's key, so that a migration that is run again makes the same ones.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, field

from counterfoil.core import canonical
from counterfoil.core.canonical import JSON
from counterfoil.core.catalogue import TERMINALS
from counterfoil.core.ids import make_id
from counterfoil.core.values import to_json
from counterfoil.errors import CounterfoilError
from counterfoil.store.takeover import Cells

SCHEMA_FROM: Final = 1
LOST: Final = "interrupted"
"""How a run ends that was open: its worker is gone, and what it had done is not on record, so it is not gone on with."""

TIME_MAX_MS: Final = (1 << 47) - 1
INTEGER_MAX: Final = (1 << 53) - 1
WHOLE_BYTES: Final = 1024 * 1024
"""A state up to this size, messages apart, stands in the event; a larger one is an artifact, and a bounded one stays."""
BOUNDED_BYTES: Final = 2 * 1024 * 1024
LARGE_BYTES: Final = 4096

Derive = Callable[[str, str, int], str]
"""An id of this ledger for an old one: prefix, old id, time in ms."""


class Old(Struct):
    """One conversation on its way: what was read of it, and how many of its rows were damaged."""

    derive: Derive
    now_ms: int
    damaged: int = 0
    open_runs: int = 0
    waiting: int = 0
    runs: list[JSON] = field(default_factory=list)
    admissions: list[JSON] = field(default_factory=list)

    # ---- cells -------------------------------------------------------------------------------------------------

    def text(self, value: Any) -> str | None:
        """Text as it is; anything else is damage, and kept as text that says what lay there."""
        if value is None or isinstance(value, str):
            return value
        self.damaged += 1
        return shown(value)

    def time_ms(self, value: Any) -> int:
        """A time in milliseconds; what is none becomes the time of the migration."""
        if isinstance(value, int) and 0 <= value <= TIME_MAX_MS:
            return value
        self.damaged += value is not None
        return self.now_ms

    def number(self, value: Any) -> int:
        """A count or a token; what is none becomes 0."""
        if isinstance(value, int) and 0 <= value <= INTEGER_MAX:
            return value
        self.damaged += value is not None
        return 0

    def json(self, value: Any) -> JSON:
        """The value of a JSON text in its tagged form; what cannot be read stays as the bytes that lay there."""
        if value is None:
            return None
        try:
            if not isinstance(value, str):
                raise TypeError
            return to_json(canonical.decode(value.encode("utf-8", "surrogatepass")))
        except (CounterfoilError, TypeError, ValueError):
            self.damaged += 1
            return {"unreadable": {"$bytes": base64.b64encode(raw(value)).decode("ascii")}}

    # ---- rows --------------------------------------------------------------------------------------------------

    def message(self, row: Cells) -> JSON:
        """One active message."""
        return {
            "id": self.text(row["message_id"]),
            "role": self.text(row["role"]),
            "body": self.json(row["body"]),
            "created_at_ms": self.time_ms(row["created_at"]),
        }

    def add_run(self, row: Cells) -> None:
        """One run. One that was open is ended here."""
        was = shown(row["run_id"])
        started = self.time_ms(row["started_at"])
        terminal = self.text(row["terminal"])
        if terminal is None:
            self.open_runs += 1
        elif terminal not in TERMINALS:
            self.damaged += 1
        finished = row["finished_at"]
        self.runs.append(
            {
                "run_id": self.derive("run", was, started),
                "was": was,
                "agent": label(self.text(row["agent"])),
                "admission_id": None
                if row["admission_id"] is None
                else self._admission_id(row["admission_id"]),
                "terminal": terminal if terminal in TERMINALS else LOST,
                "open": terminal is None,
                "token": self.number(row["fencing_token"]),
                "started_at_ms": started,
                "changed_at_ms": self.time_ms(started if finished is None else finished),
                "output": self.json(row["output"]),
            }
        )

    def add_admission(self, row: Cells, run_ids: Mapping[str, str]) -> None:
        """One input. One that began no run is kept as it is, and to be delivered again by whoever has it."""
        found: dict[str, JSON] = {
            "admission_id": self._admission_id(row["admission_id"]),
            "was": shown(row["admission_id"]),
            "state": self.text(row["state"]),
            "dedupe": self.text(row["dedupe_key"]),
            "accepted_at_ms": self.time_ms(row["accepted_at"]),
            "message": self.json(row["payload"]),
        }
        run_id = None if row["run_id"] is None else run_ids.get(shown(row["run_id"]))
        if run_id is None:
            self.waiting += row["state"] in {"accepted", "deferred", "released"}
        else:
            found["run_id"] = run_id
        self.admissions.append(found)

    def _admission_id(self, old: Any) -> str:
        return self.derive("adm", shown(old), 0)

    def bounded(self, content: dict[str, JSON]) -> dict[str, JSON]:
        """The content without what is large: what rows are made of stays, of the newest runs and inputs first.

        For a conversation whose whole state is kept as an artifact beside it.
        """
        room = BOUNDED_BYTES
        found = {
            name: value for name, value in content.items() if name not in {"runs", "admissions", "metadata"}
        }
        for name in ("runs", "admissions"):
            kept: list[JSON] = []
            items = content[name]
            assert isinstance(items, list), "made above"
            for item in reversed(items):
                assert isinstance(item, dict), "made above"
                light = {key: value for key, value in item.items() if not _is_large(key, value)}
                room -= len(canonical.encode(light)) + 1
                if room < 0:
                    break
                kept.append(light)
            found[name] = kept[::-1]
        head = found["head"]
        if isinstance(head, dict) and _is_large("last_operation", head.get("last_operation")):
            found["head"] = {key: value for key, value in head.items() if key != "last_operation"}
        return found


def _is_large(name: str, value: JSON) -> bool:
    return name in {"output", "message", "last_operation"} and len(canonical.encode(value)) > LARGE_BYTES


def content_of(old: Old, conversation: str | bytes, row: Cells | None, head: Cells | None) -> dict[str, JSON]:
    """The content, without its messages."""
    row, head = row or {}, head or {}
    found: dict[str, JSON] = {
        "name": shown(conversation),
        "title": old.text(row.get("title")),
        "agent": label(old.text(row.get("agent"))),
        "state": old.text(row.get("state")),
        "metadata": old.json(row.get("metadata")),
        "created_at_ms": old.time_ms(row.get("created_at")),
        "head": {
            "revision": old.number(head.get("revision")),
            "message_count": old.number(head.get("message_count")),
            "fencing_token": old.number(head.get("fencing_token")),
            "active_run": old.text(head.get("active_run_id")),
            "last_operation": old.json(head.get("last_operation")),
        },
        "runs": old.runs,
        "admissions": old.admissions,
    }
    if old.damaged or not row:
        old.damaged += not row
        found["damaged_rows"] = old.damaged
    return found


def label(text: str | None) -> str:
    """An agent's name where a row of runs wants one."""
    return text or "unknown"


def raw(value: Any) -> bytes:
    """The bytes of a cell."""
    if isinstance(value, bytes):
        return value
    return str(value).encode("utf-8", "surrogatepass")


def shown(value: Any) -> str:
    """A cell as text; bytes that are no text as escapes."""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def messages_json(old: Old, rows: Iterator[Cells]) -> Iterator[bytes]:
    """The list of messages as one JSON text, a message at a time."""
    before = b"["
    for row in rows:
        yield before + canonical.encode(old.message(row))
        before = b","
    yield b"[]" if before == b"[" else b"]"


def deriving(index: Callable[[str, str], str]) -> Derive:
    """Ids that follow from old ones, keyed so that they say nothing of them (FORMAT 1)."""

    def derive(prefix: str, old: str, time_ms: int) -> str:
        digest = bytes.fromhex(index(f"schema-1-{prefix}", old))
        return make_id(prefix, time_ms, int.from_bytes(digest[:10]))

    return derive
