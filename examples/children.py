"""A coordinator asks two researchers and is killed while they are at it; the next process spawns nobody twice.

    python examples/children.py --crash
    python examples/children.py

The first call dies after its children were spawned. The second one resumes the coordinator, has the children carried out
from where they were left, and prints what they found. `counterfoil ls children` shows both.
"""

from __future__ import annotations

import os
import sys

import counterfoil


@counterfoil.agent("researcher")
def research(run: counterfoil.Run) -> None:
    """A child: it looks one thing up. Its steps are recorded like those of any run."""
    found = run.step("look up", str.upper, run.message["topic"])
    run.finish(found)


def coordinate(run: counterfoil.Run) -> None:
    """The parent: it spawns a child for each topic and puts together what they bring."""
    children = [run.spawn("researcher", {"topic": topic}, title=topic) for topic in run.message]
    if "--crash" in sys.argv:
        os._exit(9)  # nobody is told
    run.finish(" and ".join(run.wait(child) for child in children))


with counterfoil.open("./ledger") as ledger:
    with ledger.run(
        "coordinator", conversation="report", message=["cost", "risk"], dedupe="m1", wait_s=60
    ) as run:
        if not run.done:
            coordinate(run)
    states = [child.state for child in ledger.children("report")]
    print(f"{run.output}: {len(states)} children, {', '.join(states)}")
