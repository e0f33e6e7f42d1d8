"""Makes the ledger of this release for tests/golden, and says what it holds.

``python -m tools.golden`` writes ``tests/golden/<release>/``: the ledger of one small story as a zip, and
``expected.json`` with the head of each stream. It is made once a release and never again.
"""

from __future__ import annotations

import json
import sys
import tempfile
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import counterfoil
from counterfoil.client.doctoring import schema
from counterfoil.effects.registry import own_tools
from counterfoil.errors import RunWaiting
from counterfoil.testing.manual import ManualClock

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
FILES = ("ledger.db", "keys.db")
ZIP_TIME = (1980, 1, 1, 0, 0, 0)


def main() -> int:
    """Make it, unless it is there."""
    target = GOLDEN / counterfoil.__version__
    if target.exists():
        print(f"{target.relative_to(GOLDEN.parents[1])} is there; the ledger of a release is made once")
        return 1
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "ledger"
        expected = tell(place)
        pack(place, target / "ledger.zip")
    (target / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n", "utf-8")
    print(f"wrote {target.relative_to(GOLDEN.parents[1])}")
    return 0


def tell(place: Path) -> dict[str, Any]:
    """Play the story into a new ledger; the head of each stream, and what its rows say."""
    with own_tools(), counterfoil.open(place, clock=ManualClock(), search="off") as ledger:
        refund, pickup = _tools()
        message = "My kettle is broken."
        with ledger.run("refund-agent", conversation="case-1", message=message, dedupe="m-1") as run:
            run.ask(lambda _: "I refund line 1.", [{"role": "user", "content": message}], name="scripted-1")
            refund(order="O-1042", line=1, amount=Decimal("40.00"))
            run.step("picture", lambda: b"x" * 5_000)
        try:
            with ledger.run("refund-agent", conversation="case-2", message="Fetch it.", dedupe="m-2"):
                pickup(order="O-1042")
        except RunWaiting:
            pass
        ledger.declare("shop.noted", 1, {"lines": "n"}, ignorable=True)
        with ledger.run("refund-agent", conversation="case-1", message="Thanks.", dedupe="m-3") as run:
            run.record("shop.noted", {"lines": 2, "text": "cafe\u0301 \U0001f600 \ud83d \x00"})
        return {
            "schema": schema(ledger.ports).value,
            "ledger": ledger.id,
            "streams": {
                stream.stream_id: {"sequence": stream.head.sequence, "hash": stream.head.hash.hex()}
                for stream in ledger.store.streams(limit=100)
            },
            "runs": [[row["run_id"], row["state"], row["terminal"]] for row in ledger.runs()],
            "effects": [[row["effect_id"], row["tool"], row["state"]] for row in ledger.effects()],
        }


def _tools() -> tuple[Any, Any]:
    @counterfoil.effect(
        "payment.refund",
        version="2026-08-01",
        touches={"money"},
        key=lambda order, line, **_: f"refund:{order}:{line}",
        doubt=counterfoil.by_key(),
    )
    def refund(order: str, line: int, amount: Decimal, *, idempotency_key: str = "") -> dict[str, Any]:
        return {"id": "re_1", "amount": amount, "order": order, "line": line, "key": idempotency_key}

    @counterfoil.effect(
        "carrier.book_pickup",
        version="2026-07-11",
        touches={"external"},
        key=lambda order: f"pickup:{order}",
        doubt=counterfoil.by_review(),
    )
    def pickup(order: str) -> None:
        raise ConnectionError(f"connection reset by peer: {order}")

    return refund, pickup


def pack(place: Path, target: Path) -> None:
    """The files of a closed ledger as a zip of sorted names and one date."""
    files = [place / name for name in FILES]
    files += sorted(
        path for name in ("kek", "artifacts") for path in (place / name).rglob("*") if path.is_file()
    )
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(files):
            entry = zipfile.ZipInfo(path.relative_to(place).as_posix(), ZIP_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())


if __name__ == "__main__":
    sys.exit(main())
