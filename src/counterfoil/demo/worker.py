"""One worker process of the demo: enters the run of a case, works on it, and says how that went.

``python -m counterfoil.demo.worker --ledger DIR --case NAME`` writes one line of JSON to standard output when it is
inside the run and one when it has left it. Killed at any point and started again, it goes on with the same run.
"""

from __future__ import annotations

import argparse

import counterfoil
from counterfoil.demo.agent import AGENT, CASES, Case, policy, work
from counterfoil.demo.provider import tell
from counterfoil.errors import RunWaiting

WAIT_S_MAX = 60.0
"""How long a worker waits in line for a conversation that another one holds: longer than a dead worker's lease."""


def handle(ledger: counterfoil.Ledger, case: Case) -> None:
    """Work on one case; says what came of it."""
    entered = ledger.run(
        AGENT, conversation=case.name, message=case.message, dedupe=case.dedupe, wait_s=WAIT_S_MAX
    )
    try:
        with entered as run:
            tell(entered=run.id)
            run.finish(work(run, case))
    except RunWaiting as waiting:
        tell(left={"run": entered.id, "terminal": None, "waits_for": list(waiting.fields["waits_for"])})
    else:
        tell(left={"run": entered.id, "terminal": entered.terminal, "waits_for": []})


def main() -> None:
    """Read the command line and work."""
    parser = argparse.ArgumentParser(description="A worker of the demo.")
    parser.add_argument("--ledger", required=True, help="the directory of the ledger")
    parser.add_argument("--case", choices=sorted(CASES), required=True, help="the case to work on")
    options = parser.parse_args()
    with counterfoil.open(options.ledger, policy=policy) as ledger:
        handle(ledger, CASES[options.case])


if __name__ == "__main__":
    main()
