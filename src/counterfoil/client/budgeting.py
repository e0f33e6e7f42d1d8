"""What is left of a run's budgets (DESIGN 6)."""

from __future__ import annotations

from counterfoil.client.handle import Handle
from counterfoil.core.ids import is_id
from counterfoil.errors import RunNotFound
from counterfoil.flow.drive import drive
from counterfoil.runtime.budgets.look import BudgetStanding, budgets_of
from counterfoil.runtime.recover import is_held
from counterfoil.runtime.rows import RUNS
from counterfoil.runtime.state import RUNNING


class Budgeting(Handle):
    """Budgets as they stand."""

    def budgets(self, run_id: str) -> list[BudgetStanding]:
        """The budgets of a run, each with its limit and what was spent; none where the run has none.

        Raises ``RunNotFound``.
        """
        row = self.store.get(RUNS, (run_id,)) if is_id(run_id, "run") else None
        if row is None or row["tenant"] != self.tenant:
            raise RunNotFound(f"there is no run {run_id} in {self.place}", run_id=run_id)
        stream_id = str(row["stream_id"])
        held = row["state"] == RUNNING and is_held(self.ports, stream_id)
        return drive(budgets_of(stream_id, run_id, self.ports.now_ms(), held=held), self.ports)
