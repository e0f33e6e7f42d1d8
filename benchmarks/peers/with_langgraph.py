"""LangGraph's savers: a checkpoint of 1 KB is put, with or without the writes of a task.

``with_langgraph.py DIRECTORY`` uses SqliteSaver, ``with_langgraph.py postgresql://…`` PostgresSaver, both as their
``from_conn_string`` sets them up.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from turns import payload, postgres_settings, script, serve, sqlite_settings


class Peer:
    """One thread of a graph, whose state is one message."""

    def __init__(self, saver: Any) -> None:
        self.saver = saver
        self.config: dict[str, Any] = {"configurable": {"thread_id": "refunds", "checkpoint_ns": ""}}
        self.step = 0

    def put(self, items: int) -> None:
        """So many checkpoints, each the child of the one before, durable when ``put`` returns."""
        for _ in range(items):
            self._put()

    def steps(self, items: int) -> None:
        """What a node's step leaves behind: the writes of its task, then the checkpoint that takes them in."""
        for _ in range(items):
            if self.step == 0:
                self._put()
            self.saver.put_writes(self.config, [("messages", payload(self.step))], f"task-{self.step}")
            self._put()

    def growth(self, items: int) -> None:
        """A conversation: each turn writes its new messages, then the checkpoint of the whole state, as a graph does."""
        for turn in script(items):
            if self.step == 0:
                self._put(turn["messages"])
            news = [("messages", message) for message in [*turn["new"], turn["answer"]]]
            self.saver.put_writes(self.config, news, f"task-{self.step}")
            self._put([*turn["messages"], turn["answer"]])

    def _put(self, messages: Any = None) -> None:
        self.step += 1
        version = f"{self.step:032}"
        checkpoint = empty_checkpoint() | {
            "channel_values": {"messages": payload(self.step) if messages is None else messages},
            "channel_versions": {"messages": version},
        }
        metadata = {"source": "loop", "step": self.step, "parents": {}}
        self.config = self.saver.put(self.config, checkpoint, metadata, {"messages": version})

    def durable(self) -> dict[str, object]:
        """Asked on the saver's own connection."""
        connection = self.saver.conn
        if isinstance(self.saver, SqliteSaver):
            return sqlite_settings(lambda sql: connection.execute(sql).fetchone()[0])
        return postgres_settings(lambda sql: next(iter(connection.execute(sql).fetchone().values())))


if __name__ == "__main__":
    place = sys.argv[1]
    with ExitStack() as open_saver:
        if "://" in place:
            package, manager = "langgraph-checkpoint-postgres", PostgresSaver.from_conn_string(place)
        else:
            path = str(Path(place) / "langgraph.db")
            package, manager = "langgraph-checkpoint-sqlite", SqliteSaver.from_conn_string(path)
        saver = open_saver.enter_context(manager)
        saver.setup()
        peer = Peer(saver)
        serve(package, peer.durable(), {"put": peer.put, "steps": peer.steps, "growth": peer.growth})
