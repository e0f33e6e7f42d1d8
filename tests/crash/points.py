"""Which points of a crash matrix are tried where one process after the other has tried them all already."""

from __future__ import annotations

LEAVING_NOTHING = frozenset({"read", "now", "newid", "random", "wait"})


def changing(points):
    """After whatever changes the ledger or the world outside, and before the first of them.

    Whoever comes next finds only what is stored: before a change that is what the one before it has left, and before
    and after a look nothing else.
    """
    changes = [point for point in points if point.what not in LEAVING_NOTHING]
    return changes[:1] + [point for point in changes if point.when == "after"]


def some(points):
    """Half of those."""
    return changing(points)[::2]


def by(workers):
    """All points for one worker; where several recover what is left, every state that they can find."""
    return list if workers == 1 else changing
