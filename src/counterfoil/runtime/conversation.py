"""Finding a conversation by its name, or opening it: two processes that race open one (FORMAT 4)."""

from __future__ import annotations

from collections.abc import Mapping

from counterfoil.errors import ConflictError, GuardFailed
from counterfoil.flow.ports import Ports
from counterfoil.flow.requests import Append, Call, Entry, Flow, Raised, Returned, UnitDraft
from counterfoil.runtime import events, rows
from counterfoil.runtime.events import Origin
from counterfoil.runtime.look import find_conversation
from counterfoil.store.rows import Absent

TRIES_MAX = 8


def open_conversation(
    ports: Ports, name: str, agent: str, origin: Origin, above: Mapping[str, str] | None = None
) -> Flow[str]:
    """Stream of the conversation of this name; it is opened with ``agent`` and ``origin`` if there is none.

    ``above`` are the public fields that name the conversation it comes from: ``parent_stream_id`` and what goes with it.
    """
    moved: ConflictError | None = None
    for _ in range(TRIES_MAX):
        found = yield from find_conversation(ports, name)
        if found is not None:
            return found
        made: Returned | Raised = yield Call("new conversation", ports.new_genesis, ("conversation",))
        if isinstance(made, Raised):
            raise made.error
        genesis = made.value
        said = events.conversation_opened(agent, "queue", "start", origin, name=name, above=above)
        opened = said.draft(ports.new_id("evt"), ports.now_ms(), {"type": "agent", "id": agent})
        guard = Absent(rows.NAMES, (ports.tenant, rows.name_index(ports.index, name)))
        try:
            yield Append(UnitDraft((Entry(genesis.stream_id, (opened,), create=genesis),), (guard,)))
        except GuardFailed as other:
            moved = other
            continue
        return str(genesis.stream_id)
    raise moved or GuardFailed(f"a conversation could not be opened in {TRIES_MAX} tries")
