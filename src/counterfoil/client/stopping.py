"""Stopping agents: levers that hold a tool, a tenant or the whole ledger, and runs cancelled from outside (DESIGN 7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from counterfoil.client import reading
from counterfoil.client.assembling import keys_and_ports
from counterfoil.client.childing import Childing
from counterfoil.client.ports import LedgerPorts
from counterfoil.client.shadowing import ShadowLine, shadow_lines
from counterfoil.client.streams import system_stream_id
from counterfoil.core.forms import time_text
from counterfoil.core.ids import is_id
from counterfoil.effects.holding import Command, LeverMoved, move_lever
from counterfoil.effects.lever import HELD, LEVERS, LeverScope
from counterfoil.errors import InvalidForm, RunNotFound
from counterfoil.flow.drafting import Person
from counterfoil.flow.drive import drive
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Events
from counterfoil.runtime.cancel import Cancelled, cancel_run
from counterfoil.runtime.rows import RUNS
from counterfoil.store.contract import Store
from counterfoil.store.rows import Row

PAGE_STREAMS: Final = 100


class HeldLever(Struct, frozen=True):
    """A lever that is held: what it stops, since when (ms), by whom and why. None where that cannot be read any more."""

    scope: str
    tool: str | None
    since_ms: int
    event_id: str
    by: str | None
    reason: str | None

    @property
    def since(self) -> str:
        """The time it was pulled, in the form of FORMAT 1."""
        return time_text(self.since_ms)


def tenants(store: Store) -> Iterator[str]:
    """The tenants of a ledger that this login sees: those with a stream of settings.

    System streams come before every conversation (``client.streams``), so no list of conversations is read through.
    """
    after = ""
    while page := store.streams(None, after, PAGE_STREAMS):
        for stored in page:
            if stored.kind == "system/config":
                yield stored.tenant
            elif stored.kind == "conversation":
                return
        after = page[-1].stream_id


def held_levers(ports: LedgerPorts) -> list[HeldLever]:
    """The levers of a tenant that are held, in the order of scope and tool."""
    rows = reading.table_rows(ports, LEVERS.name, "by_state", (ports.tenant, HELD), None)
    return [_held(ports, row) for row in rows]


def _held(ports: LedgerPorts, row: Row) -> HeldLever:
    place = Events(str(row["stream_id"]), after=int(row["sequence"] or 1) - 1, limit=1)
    found: list[Event] = ports.read(place)
    content = (found[0].content_or_none() if found else None) or {}
    return HeldLever(
        scope=str(row["scope"]),
        tool=str(row["tool"]) or None,
        since_ms=int(row["changed_at_ms"] or 0),
        event_id=str(row["event_id"]),
        by=(content.get("by") or {}).get("name"),
        reason=content.get("reason"),
    )


class Stopping(Childing):
    """What people stop from outside: everything that is held, and single runs."""

    def hold(
        self, tool: str | None = None, *, by: str, reason: str, everywhere: bool = False
    ) -> list[LeverMoved]:
        """Let no new effect begin, as the named person ``by``: of one tool, or of the whole tenant without a name.

        ``everywhere`` holds every tenant of the ledger. What is intended after this returns is refused with
        ``EffectHeld``, in every process; calls that are under way go on and are recorded. Holding again changes
        nothing. Raises ``InvalidForm``.
        """
        return self._move("hold", tool, by, reason, everywhere=everywhere)

    def release(
        self, tool: str | None = None, *, by: str, reason: str, everywhere: bool = False
    ) -> list[LeverMoved]:
        """Undo a :meth:`hold` of the same tool, tenant or ledger. Each lever is released by itself."""
        return self._move("release", tool, by, reason, everywhere=everywhere)

    def holds(self) -> list[HeldLever]:
        """The levers of this tenant that are held, with who pulled them and why."""
        return held_levers(self.ports)

    def shadowed(self, policy: str | None = None, revision: str | None = None) -> list[ShadowLine]:
        """What policies in shadow ruled (:func:`counterfoil.policy.shadow`), counted by outcome, rule and tool.

        Of one policy, or one revision of it, if they are named.
        """
        return shadow_lines(self.ports, policy, revision)

    def cancel(self, run_id: str, *, by: str, reason: str) -> Cancelled:
        """End a run from outside, as the named person ``by``; it ends as ``cancelled``.

        A worker that holds it ends it at its next call: an effect under way is never aborted, and no other one is sent
        after this returns. A run that waits, or whose worker is gone, ends here. Its children are
        stopped with it. Cancelling again changes nothing. Raises ``RunNotFound``, ``RunEnded`` or ``InvalidForm``.
        """
        self.check_writable()
        _check_said(by, reason)
        row = self.store.get(RUNS, (run_id,)) if is_id(run_id, "run") else None
        if row is None or row["tenant"] != self.tenant:
            raise RunNotFound(
                f"there is no run {run_id} in {self.place}",
                hint="`counterfoil ls runs` lists them",
                run_id=run_id,
            )
        person = Person(self.ports.subject_key(str(row["stream_id"]), by), by)
        flow = cancel_run(run_id, owner=self.owner, person=person, reason=reason, ports=self.ports)
        done = drive(flow, self.ports)
        self._heartbeat.cancel(run_id)
        if done.done == "ended" and not done.repeated:
            self._stop_children(done.stream_id)
        return done

    def _move(
        self, command: Command, tool: str | None, by: str, reason: str, *, everywhere: bool
    ) -> list[LeverMoved]:
        self.check_writable()
        _check_said(by, reason)
        if not everywhere:
            scope: LeverScope = "tenant" if tool is None else "tool"
            return [_moved(self.ports, command, scope, tool or "", by, reason)]
        if tool is not None:
            raise InvalidForm("a lever is on one tool or on everything, not on both", argument="tool")
        return [
            _moved(self._ports_of(tenant), command, "all", "", by, reason)
            for tenant in list(tenants(self.store))
        ]

    def _ports_of(self, tenant: str) -> LedgerPorts:
        """The same ledger for another tenant."""
        if tenant == self.tenant:
            return self.ports
        ports = self.ports
        return keys_and_ports(self._parts, tenant, None, ports.clock, ports.ids, self.registry)[1]


def _check_said(by: str, reason: str) -> None:
    if not by.strip() or not reason.strip():
        raise InvalidForm("by and reason say who and why; neither may be empty", argument="by")


def _moved(
    ports: LedgerPorts, command: Command, scope: LeverScope, tool: str, by: str, reason: str
) -> LeverMoved:
    stream_id = system_stream_id(ports.store.ledger_id, ports.tenant, "system/config")
    person = Person(ports.subject_key(stream_id, by), by)
    return drive(
        move_lever(
            command, scope, tool, tenant=ports.tenant, stream_id=stream_id, person=person, reason=reason
        ),
        ports,
    )
