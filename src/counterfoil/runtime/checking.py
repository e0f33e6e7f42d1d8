"""Checks of what comes in and goes out, as the application makes them in a run: stages of its turn (seed 000)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, TypeVar

from counterfoil.core.catalogue import Registry
from counterfoil.core.forms import is_label
from counterfoil.errors import InvalidForm
from counterfoil.flow.context import RunScope
from counterfoil.flow.requests import Flow
from counterfoil.runtime.facts import record_flow
from counterfoil.runtime.recording import shown_name
from counterfoil.runtime.spec import check_text

T = TypeVar("T")

Side = Literal["inbound", "outbound", "model"]

CHECKED = "turn.checked"

SIDES = frozenset({"inbound", "outbound", "model"})


class Checking:
    """What a run offers to record checks; resuming records nothing twice."""

    def guard(self, name: str, outcome: str, *, reason: str | None = None, side: Side | None = None) -> None:
        """Record that a guard looked at something and what it said, a label such as ``pass`` or ``blocked``.

        ``side`` is ``inbound``, ``outbound`` or ``model``; ``reason`` is content. It stands as GUARD in the run's turn.
        """
        self._drive(self._guarded(name, outcome, reason, side))

    async def aguard(
        self, name: str, outcome: str, *, reason: str | None = None, side: Side | None = None
    ) -> None:
        """As :meth:`guard`, for tasks."""
        await self._adrive(self._guarded(name, outcome, reason, side))

    def verify(self, name: str, ok: bool, *, found: int | None = None) -> None:
        """Record a check of the answer, such as for addresses that nobody generated; ``found`` counts what it found.

        It stands as VERIFY in the run's turn.
        """
        self._drive(self._verified(name, ok, found))

    async def averify(self, name: str, ok: bool, *, found: int | None = None) -> None:
        """As :meth:`verify`, for tasks."""
        await self._adrive(self._verified(name, ok, found))

    def _guarded(self, name: str, outcome: str, reason: str | None, side: str | None) -> Flow[None]:
        if not is_label(outcome):
            raise InvalidForm("outcome is a label: 1 to 128 of A-Za-z0-9_.:/+-", argument="outcome")
        if side is not None and side not in SIDES:
            raise InvalidForm("side is inbound, outbound or model", argument="side")
        if reason is not None and not isinstance(reason, str):
            raise InvalidForm("reason is a text", argument="reason")
        return self._checked("guard", name, {"outcome": outcome, "side": side, "reason": reason})

    def _verified(self, name: str, ok: bool, found: int | None) -> Flow[None]:
        if found is not None and (type(found) is not int or found < 0):
            raise InvalidForm("found is a count", argument="found")
        return self._checked("verify", name, {"outcome": "ok" if ok else "failed", "found": found})

    def _checked(self, stage: str, name: str, said: dict[str, Any]) -> Flow[None]:
        check_text("name", name or "")
        scope = self._open_scope()
        shown = shown_name(scope, name)
        data: dict[str, Any] = {"stage": stage, "check": shown}
        data |= {member: value for member, value in said.items() if value is not None}
        if shown != name:
            data["name"] = name
        return record_flow(scope, self._event_types(), CHECKED, data, 1, False)

    @abstractmethod
    def _drive(self, flow: Flow[T]) -> T: ...

    @abstractmethod
    async def _adrive(self, flow: Flow[T]) -> T: ...

    @abstractmethod
    def _open_scope(self) -> RunScope: ...

    @abstractmethod
    def _event_types(self) -> Registry: ...
