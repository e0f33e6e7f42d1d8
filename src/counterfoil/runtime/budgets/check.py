"""Holding a run to its budget: looked at before each request to a provider, and its time before each effect too."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from counterfoil.core.event import Draft
from counterfoil.errors import BudgetExceeded
from counterfoil.flow.context import RunScope
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Events, Flow, Read
from counterfoil.runtime.budgets import events
from counterfoil.runtime.budgets.decide import Over, Spent, over
from counterfoil.runtime.budgets.limits import Limit, decimal_text, limits_of, merged
from counterfoil.runtime.budgets.shared import shared_by
from counterfoil.runtime.budgets.state import Worked, limits_in, worked_of
from counterfoil.runtime.recording import draft, record
from counterfoil.runtime.resume import Record
from counterfoil.runtime.spec import RunSpec


def starting_limits(spec: RunSpec) -> tuple[Limit, ...]:
    """The limits that a run begins with: its agent's, and those of the call that asks for the run before them."""
    from counterfoil.runtime.agents import find_agent

    agent = find_agent(spec.agent)
    return merged(() if agent is None else limits_of(agent.budget), spec.budget)


class Budgets:
    """The budget of one run (``scope.part(Budgets)``): its limits, what it has begun, and what stopped it."""

    def __init__(self, scope: RunScope) -> None:
        self._scope = scope
        self.limits: tuple[Limit, ...] = limits_in(scope.history)
        self.wanted: tuple[Limit, ...] = ()
        """Limits that the code gave for a run that was resumed; recorded where they differ."""
        self.exceeded: Over | None = None
        self._lock = threading.Lock()
        now_ms = scope.ports.now_ms()
        self._worked = worked_of(scope.history) if scope.history else Worked(0, now_ms, now_ms)
        self._calls: int | None = None if scope.history else 0

    def begin(self, spec: RunSpec) -> None:
        """Take up what the code asked for, and watch the time if it is limited."""
        if self._scope.terminal is not None:
            return
        if self._scope.history:
            self.wanted = tuple(limit for limit in spec.budget if limit not in self.limits)
        else:
            self.limits = starting_limits(spec)
        if any(limit.kind == "wall" for limit in (*self.limits, *self.wanted)):
            self._scope.bound = self.check_time

    def check_time(self) -> None:
        """Raise ``BudgetExceeded`` when the run's time is used up; asked before whatever the run begins."""
        limits = [limit for limit in merged(self.limits, self.wanted) if limit.kind == "wall"]
        found = over(limits, Spent(wall_ms=self._worked.at(self._scope.ports.now_ms())))
        if found is not None:
            raise self.stop(found)

    def stop(self, found: Over, run_id: str | None = None) -> BaseException:
        """Park the run for good; its end is recorded as ``policy_stop`` when its block is left."""
        error = exceeded_error(found, run_id or self._scope.run_id)
        parked = self._scope.latch(error)
        if parked is error:
            self.exceeded = found
        return parked

    def spent(self) -> Spent:
        """What this run has used so far, this entry and those before it."""
        tally = self._scope.part(Record).tally
        return Spent(
            tokens=tally.input_tokens + tally.output_tokens,
            calls=self._calls or 0,
            wall_ms=self._worked.at(self._scope.ports.now_ms()),
            money=dict(tally.money),
        )

    def look(self) -> Flow[None]:
        """Find out what is not known without reading: the requests of earlier entries, where they are limited."""
        if self._calls is None and any(limit.kind == "calls" for limit in self.limits):
            types = frozenset({"provider.requested"})
            sent: list[Event] = yield Read(
                Events(self._scope.stream_id, types=types, run_id=self._scope.run_id)
            )
            self._calls = len(sent)

    def take_call(self, below: Spent) -> Over | None:
        """Count one more request if it fits beside what was used ``below``; siblings that ask at the same time are counted one after the other."""
        with self._lock:
            found = over(self.limits, self.spent() + below)
            if found is None and self._calls is not None:
                self._calls += 1
            return found


def within_budget(scope: RunScope) -> Flow[None]:
    """Asked once before each request to a provider is recorded: raises ``BudgetExceeded`` when one more does not fit.

    The run is parked then, so nothing else begins either, and ends as ``policy_stop``.
    """
    budgets = scope.part(Budgets)
    if budgets.wanted:
        wanted, budgets.wanted = budgets.wanted, ()
        budgets.limits = merged(budgets.limits, wanted)
        yield from record(scope, *(draft(scope, events.budget_set(limit)) for limit in wanted))
    shared = scope.part(shared_by)
    for account in (yield from shared.accounts()):
        drawn = over(account.limits, (yield from shared.used_by(account.stream_id, account.run_id)))
        if drawn is not None:
            raise budgets.stop(drawn, account.run_id)
    if not budgets.limits:
        return
    yield from budgets.look()
    found = budgets.take_call((yield from shared.used_below(scope.stream_id, scope.run_id)))
    if found is not None:
        raise budgets.stop(found)


def exceeded_drafts(scope: RunScope) -> list[Draft]:
    """The fact that goes with the end of a run which its budget stopped."""
    found = scope.part(Budgets).exceeded
    return [] if found is None else [draft(scope, events.budget_exceeded(found.limit, found.spent))]


def exceeded_error(found: Over, run_id: str) -> BudgetExceeded:
    """The error for whoever runs the code: which budget, its limit, and what was spent."""
    limit = found.limit
    unit = {"tokens": " tokens", "calls": " calls", "wall": " s"}.get(limit.kind, f" {limit.currency}")
    fields = {"budget": limit.kind, "limit": limit.text, "currency": limit.currency, "run_id": run_id}
    if found.spent is None:
        others = _named(found.foreign)
        return BudgetExceeded(
            f"run {run_id} has a budget of {limit.text}{unit} and spent in {others}: different currencies have no sum",
            hint="have every model say its cost in the budget's currency (Response.currency)",
            spent=None,
            **fields,
        )
    spent = decimal_text(found.spent)
    return BudgetExceeded(
        f"run {run_id} has used {spent} of {limit.text}{unit}, its budget of {limit.kind}",
        hint="the run ended as policy_stop; give a new message a larger budget",
        spent=spent,
        **fields,
    )


def _named(currencies: Iterable[str]) -> str:
    return ", ".join(currency or "no currency" for currency in currencies)
