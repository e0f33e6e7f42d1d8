"""Where the children of a run are carried out: a host of threads, processes or machines that the application may bring."""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

HostAnswer = Literal["gone", "running", "unreachable"]
"""How a host knows a child: nobody carries it out, somebody does, or it cannot be told."""


class ChildLink(Struct, frozen=True):
    """A child as its host and its parent know it: its conversation and run, whose child it is, and how deep it lies."""

    stream_id: str
    run_id: str
    agent: str
    parent_stream_id: str
    parent_run_id: str
    depth: int


class ChildHost(Protocol):
    """Starts, stops and looks after children. All three may be called from any thread, for one child more than once.

    What became of a child stands in the ledger and is never asked of its host: it only says whether somebody is at it.
    """

    def start(self, child: ChildLink) -> None:
        """Have the child carried out: ``ledger.run(child.agent, resume=child.run_id)``, here or elsewhere.

        Returns at once; a child that is carried out already stays as it is. An exception leaves it unstarted.
        """
        ...

    def stop(self, child: ChildLink) -> HostAnswer:
        """Tell whoever carries the child out to end it, and answer how it stands then, without waiting for its end.

        That it is to end is on record already: whoever holds the run sees it at its next call. An exception counts as
        ``unreachable``.
        """
        ...

    def probe(self, child: ChildLink) -> HostAnswer:
        """How the child stands. An exception counts as ``unreachable``."""
        ...
