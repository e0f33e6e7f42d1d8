"""Open stores: what each says of itself, that it leaves a fork's child alone, and that it never blocks an event loop."""

from __future__ import annotations

import os
import sys
import time
import weakref
from collections.abc import Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

from counterfoil.adapters.shared.declared import DeclaredTables
from counterfoil.errors import StoreReadOnly
from counterfoil.store.writer import GroupWriter

REST_S: Final = 0.5
"""How long a fork waits for the stores of this process to come to rest."""

E = TypeVar("E")
R = TypeVar("R", bound=DeclaredTables[Any])


class Abandoned(Protocol):
    """Somebody whose connections must not be used after a fork."""

    def rest(self, timeout_s: float) -> None:
        """Before a fork: finish what is under way and begin nothing until :meth:`resume`, if that can be had in time."""
        ...

    def resume(self) -> None:
        """After a fork, in the parent."""
        ...

    def abandon(self) -> list[object]:
        """In the child: let go of the connections, and hand out those that must be neither used nor closed there."""
        ...


class StoreHandle(Generic[E, R]):
    """The part of an open store that does not depend on its engine. ``_engine`` is None where it only reads."""

    _tables: R
    _writer: GroupWriter[Any]
    _ledger_id: str
    _engine: E | None
    _shown: str
    """The place as messages show it."""
    _named: Mapping[str, str]
    """The place as fields of an error."""

    @property
    def ledger_id(self) -> str:
        """See ``Store.ledger_id``."""
        return self._ledger_id

    @property
    def read_only(self) -> bool:
        """Whether this handle refuses to write."""
        return self._engine is None

    @property
    def stale_tables(self) -> frozenset[str]:
        """Declared row tables that appeared or changed after events were recorded: ``rebuild_rows(None, …)``."""
        return self._tables.stale

    def rest(self, timeout_s: float) -> None:
        """Before a fork: nothing, where a connection that the child leaves alone harms nobody."""

    def resume(self) -> None:
        """After a fork, in the parent: nothing."""

    def _writing(self) -> E:
        """The engine. Raises StoreReadOnly, or what says that the handle is of no use any more."""
        self._writer.check_usable()
        if self._engine is None:
            raise StoreReadOnly(
                f"{self._shown} was opened for reading only", hint="open it without read_only", **self._named
            )
        return self._engine


_open: Final[weakref.WeakSet[Abandoned]] = weakref.WeakSet()
_resting: Final[list[Abandoned]] = []
_inherited: Final[list[object]] = []
"""Connections that came into this process by fork. Closing one here would meddle with what the parent does."""


def abandoned_after_fork(store: Abandoned) -> None:
    """From now on the child of a fork lets go of this store's connections, without closing them."""
    _open.add(store)


def _rest_all() -> None:
    until_s = time.monotonic() + REST_S
    for store in list(_open):
        _resting.append(store)
        store.rest(max(0.0, until_s - time.monotonic()))


def _resume_all() -> None:
    while _resting:
        _resting.pop().resume()


def _abandon_inherited() -> None:
    _resting.clear()
    for store in list(_open):
        _inherited.extend(store.abandon())


os.register_at_fork(before=_rest_all, after_in_parent=_resume_all, after_in_child=_abandon_inherited)


def on_event_loop() -> bool:
    """Whether this thread runs an asyncio loop right now; asyncio is not imported to find out."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None  # noqa: SLF001 - exported for this use
