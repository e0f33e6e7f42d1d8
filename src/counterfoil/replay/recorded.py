"""A recorded run's code run again on its own record, with nothing touched, and what it did otherwise (DESIGN 6)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from counterfoil.abc import ChildLink
from counterfoil.abc.children import HostAnswer
from counterfoil.core.values import to_json
from counterfoil.errors import (
    AccessError,
    Divergence,
    InputError,
    IntegrityError,
    InternalError,
    RunCancelled,
    RunClosed,
    RunSuspended,
    StoreError,
)
from counterfoil.flow.drive import watched
from counterfoil.flow.requests import Append, Call, PutArtifact, Renew, Request
from counterfoil.journal.event import Stage, TurnEvent, TurnNote, linked
from counterfoil.journal.fold import json_hash, status_of
from counterfoil.journal.summary import summary
from counterfoil.replay.asked import Asked, Noted, once
from counterfoil.replay.turn import same_behaviour
from counterfoil.runtime.agents import Agent
from counterfoil.runtime.leave import terminal_of
from counterfoil.runtime.run import Run
from counterfoil.runtime.shutdown import WATCH

BEYOND: Final = "beyond the record"

CUT_SHORT: Final = frozenset({"cancelled", "interrupted", "shutdown", "timeout", "superseded"})
"""Ends that came from outside: how much further the code would have gone is not on record."""


class Side(Struct, frozen=True):
    """What one of the two asked for at the difference, or how it ended: ``kind`` is tool, model, code or end."""

    kind: str
    name: str
    digest: str | None = None


class RunReplay(Struct, frozen=True):
    """What running a recorded run's code again came to. ``at`` counts what was asked for from 0; None: the end.

    ``recorded`` and ``replayed`` are the two sides of the first difference, None where one asked for nothing more.
    """

    run_id: str
    agent: str
    asked: int
    difference: str = ""
    at: int | None = None
    recorded: Side | None = None
    replayed: Side | None = None

    @property
    def same(self) -> bool:
        """Whether no difference was found."""
        return not self.difference

    def check(self) -> None:
        """Raise ``Divergence`` with both sides if there is a difference: names and digests, no content."""
        if not self.same:
            where = "at its end" if self.at is None else f"at {self.at + 1}"
            raise Divergence(
                f"run {self.run_id} replays otherwise than recorded {where}: {self.difference}",
                hint="`counterfoil replay` shows both sides; run the code that made the record",
                run_id=self.run_id,
                recorded=None if self.recorded is None else asdict(self.recorded),
                replayed=None if self.replayed is None else asdict(self.replayed),
            )


class Way(Struct, frozen=True):
    """The way of one of the two: what was asked for in order, and the end with the digest of the answer.

    ``perhaps`` was asked for while something else was under way: by the code, or by that.
    """

    asked: Sequence[Asked]
    terminal: str
    answer: str | None
    perhaps: Counter[Asked] = field(default_factory=Counter)


class _NothingOutside:
    """Stops the code before anything but the record is reached."""

    def before(self, request: Request) -> None:
        if isinstance(request, Append | Call | PutArtifact | Renew):
            raise Divergence(
                f"the code goes on to {type(request).__name__.lower()} where its record holds nothing more",
                hint="run the code that made the record",
            )

    def after(self, request: Request) -> None:
        del request


class NoChildren:
    """The host of a replay's children: there are those on record, and no others."""

    def start(self, child: ChildLink) -> None:
        """Nothing is started."""
        raise Divergence(
            f"the code goes on to start child {child.run_id}", hint="run the code that made the record"
        )

    def stop(self, child: ChildLink) -> HostAnswer:
        """Nobody is at it here."""
        del child
        return "unreachable"

    probe = stop


class ReplayRun(Run):
    """A run that has ended, entered for a replay: it notes what its code asks for and how it finishes."""

    noted: Noted
    given: tuple[str, Any] = ("success", None)

    def _open(self, *args: Any, **kwargs: Any) -> None:
        super()._open(*args, **kwargs)
        self.noted = Noted(self._open_scope())

    def finish(self, output: Any = None, *, terminal: str = "success") -> None:
        """Note what the code finishes with; the record stays as it is."""
        super().finish(output, terminal=terminal)
        self.given = terminal, to_json(output, "output")


def check_no_loop(agent: Agent) -> None:
    """Refuse to run an async agent from inside an event loop: it gets one of its own."""
    if not agent.asynchronous:
        return
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise InputError(
        f"agent {agent.name} is async and cannot be run again from inside an event loop",
        hint="await asyncio.to_thread(ledger.replay, run_id), or ledger.rehearse",
    )


def replay_run(run: ReplayRun, agent: Agent, recorded: Way) -> RunReplay:
    """Run the agent's code on the record of a run that has ended, and compare. Raises what reading the record raises."""
    terminal, output = "", None
    try:
        with watched(_NothingOutside()):
            asyncio.run(_through_async(run, agent)) if agent.asynchronous else _through(run, agent)
        terminal, output = run.given
    except (Divergence, RunClosed, RunSuspended):
        # What it asked for last is not on record: the comparison below shows it.
        terminal = BEYOND
    except (AccessError, IntegrityError, InternalError, StoreError):
        raise
    except (Exception, asyncio.CancelledError, RunCancelled) as error:  # noqa: BLE001 - the code's own, compared with the recorded end
        terminal = terminal_of(error)
    except SystemExit as left:
        if WATCH.may_have_left():
            raise
        terminal = terminal_of(left)
    recorded = _with_siblings(recorded, run.noted.asked)
    asked = once(run.noted.asked, Counter(recorded.asked))
    replayed = Way(asked, terminal, json_hash(output))
    found = compared(run.id, agent.name, recorded, replayed, in_order=run.noted.in_order)
    if found.replayed == Side("end", BEYOND) and run.noted.asked:
        # It stopped at a repeat of what is on record less often.
        last = _side(run.noted.asked[-1])
        return replace(found, difference=_MORE, at=len(recorded.asked), recorded=None, replayed=last)
    return found


def _with_siblings(recorded: Way, asked: Sequence[Asked]) -> Way:
    """Of what was perhaps asked for inside of something else, what the code asks for by itself was not."""
    inside = (Counter(recorded.asked) - Counter(asked)) & recorded.perhaps
    kept: list[Asked] = []
    for one in reversed(recorded.asked):
        if inside[one]:
            inside[one] -= 1
        else:
            kept.append(one)
    return replace(recorded, asked=kept[::-1])


def _through(run: ReplayRun, agent: Agent) -> None:
    with run:
        agent.fn(run)


async def _through_async(run: ReplayRun, agent: Agent) -> None:
    async with run:
        await agent.fn(run)


def compared(run_id: str, agent: str, recorded: Way, replayed: Way, *, in_order: bool = True) -> RunReplay:
    """The first difference of two ways; where siblings asked side by side their order is a matter of chance."""
    before, after = list(recorded.asked), list(replayed.asked)
    if not in_order:
        before, after = sorted(before, key=_by_name), sorted(after, key=_by_name)
    if recorded.terminal in CUT_SHORT:
        after = after[: len(before)]
    for at in range(max(len(before), len(after))):
        one = before[at] if at < len(before) else None
        other = after[at] if at < len(after) else None
        if one != other:
            return RunReplay(run_id, agent, len(after), _said(one, other), at, _side(one), _side(other))
    if recorded.terminal in CUT_SHORT:
        return RunReplay(run_id, agent, len(after))
    return _ends(run_id, agent, replace(recorded, asked=before), replace(replayed, asked=after))


def _ends(run_id: str, agent: str, recorded: Way, replayed: Way) -> RunReplay:
    asked = len(replayed.asked)
    sides = (
        Side("end", recorded.terminal, recorded.answer),
        Side("end", replayed.terminal, replayed.answer),
    )
    if recorded.terminal != replayed.terminal:
        return RunReplay(run_id, agent, asked, "the run ends otherwise than recorded", None, *sides)
    behaviour = same_behaviour(_turn(run_id, agent, recorded), _turn(run_id, agent, replayed))
    if behaviour.same:
        return RunReplay(run_id, agent, asked)
    return RunReplay(run_id, agent, asked, behaviour.difference, None, *sides)


_MORE: Final = "the code asks for more than is recorded"


def _said(one: Asked | None, other: Asked | None) -> str:
    if one is None:
        return _MORE
    if other is None:
        return "the code does not ask for all that is recorded"
    if (one.kind, one.name) == (other.kind, other.name):
        return "the code asks for the same with other arguments"
    return "the code asks for something else than is recorded"


def _side(asked: Asked | None) -> Side | None:
    return None if asked is None else Side(asked.kind, asked.name or asked.shown, asked.digest)


def _by_name(asked: Asked) -> tuple[str, str, str]:
    return asked.kind, asked.name, asked.digest


def _turn(run_id: str, agent: str, way: Way) -> list[TurnEvent]:
    """The way as a turn: its calls of tools and its end, for the comparison that all turns have."""
    stages: list[tuple[Stage, str, str | None]] = [
        ("TOOL_CALL", summary({"tool": one.name}), one.digest) for one in way.asked if one.kind == "tool"
    ]
    stages.append(("COMMIT", summary({"status": status_of(way.terminal)}), way.answer))
    turn: list[TurnEvent] = []
    for stage, told, payload in stages:
        last = (turn[-1].seq, turn[-1].hash) if turn else None
        turn.append(linked(TurnNote("replay", f"trn_{run_id[4:]}", agent, stage, told, 0, payload), last))
    return turn
