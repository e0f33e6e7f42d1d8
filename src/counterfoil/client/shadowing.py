"""What a policy in shadow would have refused, asked about or changed (DESIGN 7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from counterfoil.client.ports import LedgerPorts
from counterfoil.effects.rows import EFFECTS
from counterfoil.effects.shadow import SHADOW_RULINGS
from counterfoil.store.rows import Key, Row

PAGE_ROWS: Final = 500

WOULD: Final = ("deny", "ask", "constrain", "allow")
"""Outcomes in the order in which a report names them."""


class ShadowLine(Struct, frozen=True):
    """So many calls of one tool that one revision of a policy judged alike; ``made`` is how many of them were made."""

    policy: str
    revision: str
    outcome: str
    rules: tuple[str, ...]
    tool: str
    calls: int
    made: int


def shadow_calls(ports: LedgerPorts, policy: str | None = None, revision: str | None = None) -> Iterator[Row]:
    """Each call that was judged in shadow, the oldest first inside a policy's revision; a page in memory at a time.

    A row of ``shadow_rulings`` with ``tool`` and ``state`` of the effect, None where the call was never intended.
    """
    prefix: Key = (ports.tenant,)
    if policy is not None:
        prefix = (ports.tenant, policy) if revision is None else (ports.tenant, policy, revision)
    after: Key | None = None
    while page := ports.store.select(SHADOW_RULINGS.name, "by_policy", prefix, after, PAGE_ROWS):
        for row in page:
            if revision in (None, row["revision"]):
                effect = ports.store.get(EFFECTS.name, (row["effect_id"],)) or {}
                yield {**row, "tool": effect.get("tool"), "state": effect.get("state")}
        after = SHADOW_RULINGS.place_in("by_policy", page[-1])


def shadow_lines(
    ports: LedgerPorts, policy: str | None = None, revision: str | None = None
) -> list[ShadowLine]:
    """Calls judged in shadow, counted by policy, revision, outcome, rules and tool."""
    judged: Counter[tuple[str, ...]] = Counter()
    made: Counter[tuple[str, ...]] = Counter()
    for row in shadow_calls(ports, policy, revision):
        cells = (row[name] or "" for name in ("policy", "revision", "outcome", "rules", "tool"))
        key = tuple(map(str, cells))
        judged[key] += 1
        made[key] += row["state"] is not None
    lines = [
        ShadowLine(key[0], key[1], key[2], tuple(key[3].split()), key[4], count, made[key])
        for key, count in judged.items()
    ]
    return sorted(
        lines, key=lambda line: (line.policy, line.revision, WOULD.index(line.outcome), line.rules, line.tool)
    )
