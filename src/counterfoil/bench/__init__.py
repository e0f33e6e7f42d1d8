"""Benchmarks: figures taken side by side in one run, as ratios of medians, each held to its budget (DESIGN 14)."""

from __future__ import annotations

from collections.abc import Iterable


def main(only: str | Iterable[str] | None = None, *, as_json: bool = False, quick: bool = False) -> int:
    """Run all benchmarks, or those named in ``only``; print a table or one JSON object, and return the exit code.

    0 when every budget that was measured is kept, 1 when one is missed. ``quick`` takes a tenth of the time and
    rough figures. Raises ``InputError`` for a name that is none, and for a package that is not installed.
    """
    from counterfoil.bench.run import run

    names = (only,) if isinstance(only, str) else tuple(only or ())
    return run(names, as_json=as_json, quick=quick)
