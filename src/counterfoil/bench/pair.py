"""One effect against plain INSERTs, against its own statements without our Python, and against two appends by hand."""

from __future__ import annotations

from pathlib import Path

from counterfoil.bench.effect import effects_in, plain_inserts
from counterfoil.bench.figures import Budget, Figure
from counterfoil.bench.floor import Replay
from counterfoil.bench.raw import RawChain, RawItem, raw_items
from counterfoil.bench.rounds import Contender, Scale, Taken, side_by_side
from counterfoil.bench.sample import Sample


def effect_pair(scale: Scale, directory: Path) -> list[Figure]:
    """Two durable appends and all that is between them; with each floor in the same rounds."""
    rounds, items = scale.rounds(15), scale.items(100)
    raw, chain = RawChain(directory / "raw"), RawChain(directory / "chain")
    replay = Replay(directory, (rounds + 1) * items)  # one turn warms up
    with effects_in(directory / "ledger") as ours:
        contenders = {
            "ours": Contender(ours),
            "statements": replay.contender(),
            "by hand": two_appends(chain),
            "plain": Contender(plain_inserts(raw.insert_plain)),
        }
        taken = side_by_side(contenders, rounds=rounds, items=items)
    for one in (replay, chain, raw):
        one.close()
    return _told(taken, replay.statements)


def two_appends(chain: RawChain) -> Contender:
    """What a loop by hand needs for an intention and its observation: two chained events with one row, durable each.

    The row comes with the first and changes with the second. Nothing keeps a key from being used twice.
    """
    sample = Sample()
    ready: list[RawItem] = []

    def describe(count: int) -> None:
        ready[:] = raw_items(sample, 2 * count)

    def work(_count: int) -> None:
        for item in ready:
            chain.append([item])

    return Contender(work, describe)


def _told(taken: Taken, statements: int) -> list[Figure]:
    """In plain INSERT+COMMITs, then in microseconds. Only the effect has a budget; the floors say where it stands."""
    ours, plain = taken.median("ours"), taken.median("plain")
    floor, by_hand = taken.median("statements"), taken.median("by hand")
    what = f"its {statements} statements without our Python, in plain INSERT+COMMITs"
    return [
        Figure("effect.pair", "an effect, in plain INSERT+COMMITs", ours / plain, "×", Budget(at_most=3.5)),
        Figure("effect.floor", what, floor / plain, "×"),
        Figure("effect.hand", "two appends of the raw loop, in plain INSERT+COMMITs", by_hand / plain, "×"),
        Figure("effect.time", "an effect", ours * 1e6, "µs"),
        Figure("effect.floor.time", "its statements", floor * 1e6, "µs"),
        Figure("effect.hand.time", "two appends by hand", by_hand * 1e6, "µs"),
        Figure("effect.plain", "a plain INSERT+COMMIT", plain * 1e6, "µs"),
    ]
