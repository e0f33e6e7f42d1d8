"""What a run says about its own work, as its code says it: the methods of ``Run`` for facts of one event."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

from counterfoil.abc import Host, Probed
from counterfoil.flow.context import RunScope
from counterfoil.flow.requests import Flow
from counterfoil.runtime.absorbing import absorb_flow
from counterfoil.runtime.noting import (
    Compaction,
    CompactionCause,
    DraftCheckpoint,
    checkpoint_flow,
    compact_flow,
    probe_flow,
)
from counterfoil.runtime.schedules.sleep import sleep_flow
from counterfoil.runtime.spec import check_seconds, instant_ms

T = TypeVar("T")


class Notes:
    """The methods of a run that record one fact each; a run that is entered again gets what it recorded."""

    def compact(
        self,
        *,
        from_sequence: int,
        to_sequence: int,
        summary: Any,
        cause: CompactionCause = "request",
        messages: Sequence[Any] | str | None = None,
    ) -> Compaction:
        """Say that ``summary`` stands for these events of the conversation from here on, both ends included.

        The events stay as they are. ``messages`` are those with which requests go on from here, so that the record says
        where the new branch of the context tree begins, beside where the old one ended. ``cause`` is ``size``, ``request`` or ``policy``; the summary is content and needs a
        JSON form. Raises ``InvalidForm`` for a range that the conversation does not hold, and records nothing.
        """
        return self._drive(
            compact_flow(self._open_scope(), from_sequence, to_sequence, summary, cause, messages)
        )

    async def acompact(
        self,
        *,
        from_sequence: int,
        to_sequence: int,
        summary: Any,
        cause: CompactionCause = "request",
        messages: Sequence[Any] | str | None = None,
    ) -> Compaction:
        """As :meth:`compact`, for tasks."""
        return await self._adrive(
            compact_flow(self._open_scope(), from_sequence, to_sequence, summary, cause, messages)
        )

    def checkpoint_draft(self, draft: str | bytes, *, chunks: int, name: str = "draft") -> DraftCheckpoint:
        """Record how far a draft has come: its SHA-256 and size, and of how many chunks it is made; never the draft."""
        return self._drive(checkpoint_flow(self._open_scope(), draft, chunks, name))

    async def acheckpoint_draft(
        self, draft: str | bytes, *, chunks: int, name: str = "draft"
    ) -> DraftCheckpoint:
        """As :meth:`checkpoint_draft`, for tasks."""
        return await self._adrive(checkpoint_flow(self._open_scope(), draft, chunks, name))

    def absorb(self, run_id: str) -> str:
        """Take over a run of this conversation that waits: it ends as ``absorbed``, and :meth:`inputs` hands out its input.

        What it left in doubt is recovered all the same. Returns the id of the admission. Raises ``NotWaiting`` for a run
        that does not wait, ``RunNotFound`` for one of another conversation.
        """
        return self._drive(absorb_flow(self._open_scope(), run_id))

    async def aabsorb(self, run_id: str) -> str:
        """As :meth:`absorb`, for tasks."""
        return await self._adrive(absorb_flow(self._open_scope(), run_id))

    def sleep(self, seconds: float) -> None:
        """Go on so many seconds after the code first came here, in days if need be, in whatever process.

        A longer sleep than a moment parks the run: it holds no lease and no slot, ``RunWaiting`` leaves the block, and a
        worker goes on with it in time.
        """
        self._drive(self._sleeping(seconds))

    async def asleep(self, seconds: float) -> None:
        """As :meth:`sleep`, for tasks."""
        await self._adrive(self._sleeping(seconds))

    def sleep_until(self, at: datetime) -> None:
        """As :meth:`sleep`, until a time with a zone."""
        self._drive(sleep_flow(self._open_scope(), instant_ms("at", at), 0))

    async def asleep_until(self, at: datetime) -> None:
        """As :meth:`sleep_until`, for tasks."""
        await self._adrive(sleep_flow(self._open_scope(), instant_ms("at", at), 0))

    def _sleeping(self, seconds: float) -> Flow[None]:
        check_seconds("seconds", seconds, least="from 0")
        return sleep_flow(self._open_scope(), None, round(seconds * 1000))

    def probe(self, sandbox: str = "process") -> Probed:
        """Ask the host what the code of tools may reach in this sandbox, on record as ``sandbox.probed``.

        ``counterfoil.open(…, host=Host(sandbox=…))`` says who answers; the default says that it cannot tell.
        """
        return self._drive(probe_flow(self._open_scope(), self._lends().sandbox, sandbox))

    async def aprobe(self, sandbox: str = "process") -> Probed:
        """As :meth:`probe`, for tasks; the probe is called in a thread."""
        return await self._adrive(probe_flow(self._open_scope(), self._lends().sandbox, sandbox))

    @abstractmethod
    def _open_scope(self) -> RunScope: ...

    @abstractmethod
    def _drive(self, flow: Flow[T]) -> T: ...

    @abstractmethod
    async def _adrive(self, flow: Flow[T]) -> T: ...

    @abstractmethod
    def _lends(self) -> Host: ...
