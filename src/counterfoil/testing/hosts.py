"""A host for children that does nothing by itself: tests say when a child is carried out, and what its host answers."""

from __future__ import annotations

from counterfoil.abc import ChildLink, HostAnswer


class ManualHost:
    """A ``ChildHost`` that notes what it is told. ``answers`` is what it says of each child, ``gone`` unless set.

    With ``unreachable=True`` it raises whatever it is asked, as a host behind a broken network does.
    """

    def __init__(self, *, unreachable: bool = False) -> None:
        self.unreachable: bool = unreachable
        self.answers: dict[str, HostAnswer] = {}
        self.started: list[ChildLink] = []
        self.stopped: list[ChildLink] = []

    def start(self, child: ChildLink) -> None:
        """Note it; nobody carries it out before the test does."""
        self._reach()
        self.started.append(child)

    def stop(self, child: ChildLink) -> HostAnswer:
        """Note it, and answer what was set."""
        self._reach()
        self.stopped.append(child)
        return self.probe(child)

    def probe(self, child: ChildLink) -> HostAnswer:
        """What was set for this child."""
        self._reach()
        return self.answers.get(child.run_id, "gone")

    def _reach(self) -> None:
        if self.unreachable:
            raise ConnectionError("the host of children cannot be reached")
