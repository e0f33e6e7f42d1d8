"""The totals of a transcript: what the file holds, and how much of it was new to the ledger."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal, Inexact
from typing import Final

from msgspec import Struct, field

from counterfoil.importers.entry import Usage
from counterfoil.importers.exact import money_text

# Amounts have at most 40 characters, so the sum of two million of them is exact; if it were not, this would raise.
_EXACT: Final = Context(prec=128, rounding=ROUND_HALF_EVEN, traps=[Inexact])


class Imported(Struct, frozen=True):
    """One session of the file, and the conversation it became."""

    session: str
    name: str
    stream_id: str
    records: int
    records_added: int
    refused: int
    parent: str | None = None


class Totals(Struct, frozen=True):
    """What one file holds; only ``records_added`` depends on what the ledger held before.

    ``records`` are all lines that are not blank; ``refused`` those kept as ``record.refused``, among them the
    ``not_object``. ``input_tokens`` and the others are sums of what the file says, once for each model message, with
    cached tokens counted as its provider counts them. ``cost`` is exact decimal text, None where the file names none.
    """

    format: str
    records: int
    records_added: int
    refused: int
    not_object: int
    unknown_type: int
    calls: int
    calls_without_result: int
    results_without_call: int
    error_results: int
    compactions: int
    input_tokens: int
    output_tokens: int
    cost: str | None
    currency: str | None
    sessions: tuple[Imported, ...]

    @property
    def conversations(self) -> int:
        """How many conversations the file's sessions became, those of sub-agents apart."""
        return sum(session.parent is None for session in self.sessions)

    @property
    def sub_agents(self) -> int:
        """How many conversations its sub-agents became, each linked with the one that started it."""
        return len(self.sessions) - self.conversations

    def to_json(self) -> dict[str, str | int | None]:
        """The totals as ``counterfoil import --json`` prints them."""
        return {
            "format": self.format,
            "records": self.records,
            "records_added": self.records_added,
            "refused": self.refused,
            "not_object": self.not_object,
            "unknown_type": self.unknown_type,
            "calls": self.calls,
            "calls_without_result": self.calls_without_result,
            "results_without_call": self.results_without_call,
            "error_results": self.error_results,
            "compactions": self.compactions,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost": self.cost,
            "currency": self.currency,
            "conversations": self.conversations,
        }


class Tally(Struct):
    """Counts while the records go by."""

    records: int = 0
    refused: int = 0
    not_object: int = 0
    unknown_type: int = 0
    calls: int = 0
    calls_without_result: int = 0
    results_without_call: int = 0
    error_results: int = 0
    compactions: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal | None = None
    currency: str | None = None
    running: dict[str, dict[str, Decimal]] = field(default_factory=dict)

    def use(self, usage: Usage | None) -> None:
        """Add what one model message used."""
        if usage is None:
            return
        self.input_tokens += usage.input_tokens or 0
        self.output_tokens += usage.output_tokens or 0
        if usage.cost is not None:
            self.cost = usage.cost if self.cost is None else _EXACT.add(self.cost, usage.cost)
            self.currency = usage.currency

    def run_on(self, session: str, running: Usage) -> None:
        """A session's running total: what it rose by since the last one counts, or all of it where it began anew."""
        known = self.running.setdefault(session, {})
        risen: dict[str, Decimal] = {}
        for name in ("input_tokens", "output_tokens", "cost"):
            value = getattr(running, name)
            if value is not None:
                value, before = Decimal(value), known.get(name, Decimal(0))
                risen[name] = value if value < before else _EXACT.subtract(value, before)
                known[name] = value
        tokens = {name: int(value) for name, value in risen.items() if name != "cost"}
        self.use(Usage(**tokens, cost=risen.get("cost"), currency=running.currency))

    def totals(self, kind: str, sessions: tuple[Imported, ...]) -> Totals:
        """The totals at the end."""
        return Totals(
            format=kind,
            records=self.records,
            records_added=sum(session.records_added for session in sessions),
            refused=self.refused,
            not_object=self.not_object,
            unknown_type=self.unknown_type,
            calls=self.calls,
            calls_without_result=self.calls_without_result,
            results_without_call=self.results_without_call,
            error_results=self.error_results,
            compactions=self.compactions,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cost=None if self.cost is None else money_text(self.cost),
            currency=self.currency,
            sessions=sessions,
        )
