"""Which records of a session the last one can still be reached from: lost parents and abandoned branches are flagged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from counterfoil.importers.entry import Entry, Response


class Node(Struct, frozen=True):
    """A record among its links. Only one that is ``judged`` can be called unreachable."""

    line: int
    parents: tuple[str, ...]
    message_id: str | None
    judged: bool

    @classmethod
    def of(cls, line: int, entry: Entry) -> Node:
        """The node of a record."""
        said = entry.items[0]
        message_id = said.message_id if isinstance(said, Response) else None
        return cls(line, entry.parents, message_id, entry.linked and not entry.aside)


def orphans(nodes: Iterable[Node], lines_of: Mapping[str, Sequence[int]]) -> set[int]:
    """Lines whose record continues from records that the file does not hold (case X6: never written, or cut off)."""
    return {
        node.line for node in nodes if node.parents and not any(parent in lines_of for parent in node.parents)
    }


def unreachable(
    nodes: Sequence[Node], lines_of: Mapping[str, Sequence[int]], answers: Mapping[int, Sequence[int]]
) -> set[int]:
    """Lines of one session that cannot be reached by walking up from its last record.

    All lines of one message are reached together, and so are the results of its calls (``answers``, by line): agents
    chain parallel results to one of them only. A record that names no parent continues from the one before it.
    """
    judged = [node for node in nodes if node.judged]
    if not judged:
        return set()
    by_line = {node.line: node for node in nodes}
    before = {later.line: earlier.line for earlier, later in pairwise(judged)}
    message = _by_message(nodes)
    reached: set[int] = set()
    pending = [judged[-1].line]
    while pending:
        line = pending.pop()
        if line in reached:
            continue
        reached.add(line)
        node = by_line.get(line)
        if node is None:
            continue
        for parent in node.parents:
            pending.extend(lines_of.get(parent, ()))
        if not node.parents and line in before:
            pending.append(before[line])
        if node.message_id is not None:
            pending.extend(message[node.message_id])
        pending.extend(answers.get(line, ()))
    return {node.line for node in judged} - reached


def _by_message(nodes: Iterable[Node]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for node in nodes:
        if node.message_id is not None:
            found.setdefault(node.message_id, []).append(node.line)
    return found
