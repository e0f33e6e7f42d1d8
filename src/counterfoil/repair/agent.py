"""The code of the agent ``repair``: what a worker enters again when people have answered, or its worker is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterfoil.effects.registry import find_tool
from counterfoil.flow.context import current_scope
from counterfoil.flow.drive import adrive
from counterfoil.repair.close import close_by_itself
from counterfoil.repair.look import look_at
from counterfoil.repair.play import amake_calls, next_turn

if TYPE_CHECKING:
    from counterfoil.runtime.run import Run


async def take_up(run: Run) -> None:
    """Go on with a repair inside its run, and close it when every call is done.

    To be registered beside the tools that repairs call, with the policy that rules them:
    ``counterfoil.agent("repair", policy=policy)(take_up)``. A worker that dies between closing and the run's end leaves
    a run that ends at its next entry.
    """
    ports = current_scope().ports
    repair_id = str(run.message["repair"])
    turn = await adrive(next_turn(ports.index, repair_id, find_tool), ports)
    await amake_calls(turn)
    look = await adrive(look_at(ports.index, repair_id, find_tool), ports)
    if look.repair.state == "open":
        await adrive(close_by_itself(look), ports)
