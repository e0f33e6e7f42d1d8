"""Benchmarks: figures taken side by side in one run, as ratios of medians, each held to its budget (DESIGN 14)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def main(
    only: str | Iterable[str] | None = None,
    *,
    as_json: bool = False,
    quick: bool = False,
    postgres: str | None = None,
    peers: bool = False,
    save: Path | None = None,
) -> int:
    """Run all benchmarks, or those named in ``only``; print a table or one JSON object, and return the exit code.

    0 when every budget that was measured is kept, 1 when one is missed. ``quick`` takes a tenth of the time and
    rough figures. ``postgres`` is the address of a server to measure on; without one, a server is started where that
    can be. ``peers`` compares with other libraries too. ``save`` is a file for the JSON object.
    Raises ``InputError`` for a name that is none, for a package that is not installed, and for a server or peer that
    does not wait for its disk.
    """
    from counterfoil.bench.run import run

    names = (only,) if isinstance(only, str) else tuple(only or ())
    return run(names, as_json=as_json, quick=quick, postgres=postgres, peers=peers, save=save)
