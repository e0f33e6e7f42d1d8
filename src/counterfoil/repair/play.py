"""Playing a repair: a run in the conversation makes the planned calls, each an effect as ever; what stops it is told."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from counterfoil.core.values import from_json
from counterfoil.effects.compensation import Compensating, PlannedCall
from counterfoil.errors import ConflictError, EffectError, RunWaiting, ToolInvalid, ToolNotFound
from counterfoil.flow.context import current_scope
from counterfoil.flow.requests import Flow
from counterfoil.repair.close import close_by_itself
from counterfoil.repair.decide import Next, StepState, next_step
from counterfoil.repair.look import Look, look_at
from counterfoil.repair.plan import FindTool, Step, StepStanding
from counterfoil.repair.state import RepairState
from counterfoil.runtime.block import RunHost
from counterfoil.runtime.run import Run
from counterfoil.runtime.spec import make_spec
from counterfoil.store.rows import Index

AGENT: Final = "repair"
"""The agent of the runs that repairs are made of."""

_STOPPED = (EffectError, ConflictError)
"""What a call, the policy, people or another run say no or not yet with: the repair stays open."""


class Turn(Struct, frozen=True):
    """What there is to do about a repair now. ``calls`` are all of its plan when a run is to be played."""

    look: Look
    next: Next | None
    calls: tuple[PlannedCall, ...] = ()

    @property
    def asynchronous(self) -> bool:
        """Whether a call of it needs an event loop."""
        return any(call.tool.asynchronous for call in self.calls)


def next_turn(index: Index, repair_id: str, find_tool: FindTool) -> Flow[Turn]:
    """Look, and see what there is to do. Raises ``RepairNotFound``, ``ToolNotFound``, ``ToolInvalid`` or ``ContentUnavailable``."""
    look = yield from look_at(index, repair_id, find_tool)
    if look.repair.state != "open":
        # A run whose worker died right after it had closed the repair has nothing left to do but to end.
        return Turn(look, "play" if look.run_open else None)
    if not look.told.readable:
        # The plan is needed from here on; this says what became of it.
        _ = look.told.content
    following = next_step([step.state for step in look.steps], run_open=look.run_open)
    calls = tuple(_call(standing.step, find_tool) for standing in look.steps) if following == "play" else ()
    return Turn(look, following, calls)


def _call(step: Step, find_tool: FindTool) -> PlannedCall:
    """The call as it was planned, for today's tool."""
    tool = find_tool(step.tool, step.tool_version)
    if tool is None:
        raise ToolNotFound(f"no tool {step.tool} is declared here, which this repair calls", tool=step.tool)
    if not tool.parameters.accepts(step.arguments):
        raise ToolInvalid(
            f"today's {step.tool} does not take the arguments that this repair planned",
            hint="close it as partial, and open another repair with calls that fit",
            tool=step.tool,
        )
    return PlannedCall(tool, from_json(dict(step.arguments), "arguments"))


def run_of(host: RunHost, look: Look, place: str | None) -> Run:
    """The run that goes on with a repair: in the conversation of what is repaired, in the name of who opened it.

    So a policy that has people asked does not let that person approve (DESIGN 7).
    """
    spec = make_spec(
        AGENT,
        message={"repair": look.repair.repair_id, "subject": look.repair.subject},
        conversation=look.repair.stream_id,
        dedupe=look.dedupe,
        principal=look.told.opener,
        while_running="queue",
        while_suspended="start",
        policy_revision=None if host.policy is None else host.policy.revision,
        place=place,
    )
    return Run(host, spec)


def play(run: Run, turn: Turn) -> Exception | None:
    """Make the calls in order, up to the first that does not succeed; returns what stopped it.

    Calls that an earlier run made are answered from the record.
    """
    try:
        with run:
            _begin(turn)
            for call in turn.calls:
                call.tool(**call.arguments)
    except _STOPPED as stopped:
        return stopped
    return None


async def aplay(run: Run, turn: Turn) -> Exception | None:
    """As :func:`play`, for tasks."""
    try:
        async with run:
            await amake_calls(turn)
    except _STOPPED as stopped:
        return stopped
    return None


async def amake_calls(turn: Turn) -> None:
    """Make the calls in order inside an async run of the repair."""
    _begin(turn)
    for call in turn.calls:
        await call.tool.acall(**call.arguments)


def _begin(turn: Turn) -> None:
    repair = turn.look.repair
    current_scope().part(Compensating).begin(repair.repair_id, repair.effect_id)


# ---- what it came to ---------------------------------------------------------------------------------------------


class RepairStep(Struct, frozen=True):
    """One call of a repair and how it stands: ``to_do done in_doubt in_review refused``."""

    tool: str
    tool_version: str
    state: StepState
    effect_id: str | None


class RepairReport(Struct, frozen=True):
    """A repair as it stands.

    ``state`` is ``open repaired partial irreversible``. While it is open, ``why`` says what it waits for or what
    stopped it, and ``waits_for`` names approvals, reviews or effects. ``repeated``: it had been opened before.
    """

    repair_id: str
    stream_id: str
    subject: str
    effect_id: str | None
    state: RepairState
    steps: tuple[RepairStep, ...] = ()
    why: str = ""
    waits_for: tuple[str, ...] = ()
    residual_impact: Any = None
    repeated: bool = False

    @property
    def open(self) -> bool:
        """Whether it has not ended."""
        return self.state == "open"


def conclude(
    index: Index,
    repair_id: str,
    find_tool: FindTool,
    stopped: Exception | None = None,
    *,
    repeated: bool = False,
) -> Flow[RepairReport]:
    """Close the repair if every call is done, and say how it stands."""
    look = yield from look_at(index, repair_id, find_tool)
    states: list[StepState] = [step.state for step in look.steps]
    is_known = look.repair.state == "open" and look.told.readable
    if is_known and next_step(states, run_open=look.run_open) == "close":
        yield from close_by_itself(look)
        look = yield from look_at(index, repair_id, find_tool)
    return report_of(look, stopped, repeated=repeated)


def report_of(look: Look, stopped: Exception | None = None, *, repeated: bool = False) -> RepairReport:
    """What is to be said of a repair."""
    repair = look.repair
    is_open = repair.state == "open"
    residual = look.told.residual_impact
    return RepairReport(
        repair.repair_id,
        repair.stream_id,
        repair.subject,
        repair.effect_id,
        repair.state,
        tuple(_step(step) for step in look.steps),
        why_open(look, stopped) if is_open else "",
        _waits_for(look, stopped) if is_open else (),
        None if residual is None else from_json(residual),
        repeated,
    )


def _step(standing: StepStanding) -> RepairStep:
    step = standing.step
    return RepairStep(step.tool, step.tool_version, standing.state, standing.effect_id)


def why_open(look: Look, stopped: Exception | None = None) -> str:
    """Why a repair is open, in a sentence that holds no content."""
    if not look.told.readable:
        return f"its plan cannot be read any more ({look.told.event.content_state}): a person closes the case"
    following = next_step([step.state for step in look.steps], run_open=look.run_open)
    first = next((step for step in look.steps if step.state != "done"), None)
    if isinstance(stopped, ConflictError | RunWaiting) and stopped.message:
        return str(stopped.message)
    if following == "by_hand":
        return "no call is planned that undoes it: a person sees to it and closes the case"
    if first is None:
        return "every call is done; it is about to close"
    return _why_not_done(look, first, stopped)


def _why_not_done(look: Look, first: StepStanding, stopped: Exception | None) -> str:
    where = f"call {look.steps.index(first) + 1} of {len(look.steps)}, {first.step.tool},"
    match first.state:
        case "refused":
            return f"{where} was refused for good and is not sent again"
        case "in_doubt":
            return f"{where} is in doubt"
        case "in_review":
            return f"{where} is in review: a person has to say whether it happened"
        case _ if stopped is not None:
            return f"{where} ended with {type(stopped).__name__}"
        case _ if look.waits_for:
            return f"{where} waits for {', '.join(look.waits_for)}"
        case _:
            return f"{where} is yet to be made"


def _waits_for(look: Look, stopped: Exception | None) -> tuple[str, ...]:
    if isinstance(stopped, RunWaiting):
        return tuple(stopped.fields.get("waits_for", ()))
    if look.waits_for:
        return look.waits_for
    open_ = [step.effect_id for step in look.steps if step.state in ("in_doubt", "in_review")]
    return tuple(effect_id for effect_id in open_ if effect_id is not None)
