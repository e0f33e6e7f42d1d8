"""Benchmarks: figures taken side by side in one run, as ratios of medians, each held to its budget (DESIGN 14)."""

from __future__ import annotations


def main(only: str | None = None, *, as_json: bool = False, quick: bool = False) -> int:
    """Run all benchmarks, or the one named ``only``; print a table or one JSON object, and return the exit code.

    0 when every budget that was measured is kept, 1 when one is missed. ``quick`` takes a tenth of the time and
    rough figures. Raises ``InputError`` for a name that is none, and for a package that is not installed.
    """
    from counterfoil.bench.run import run

    return run(only, as_json=as_json, quick=quick)
