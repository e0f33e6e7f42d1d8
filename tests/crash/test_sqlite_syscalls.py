"""EIO, ENOSPC and SIGKILL at every write and fsync of an append, injected by strace."""

from __future__ import annotations

import pytest

from counterfoil.testing.syscalls import POINTS_MIN, run_faults


@pytest.mark.strace
@pytest.mark.processes
@pytest.mark.timeout(300)
def test_a_fault_at_every_write_and_fsync_leaves_a_ledger_that_keeps_its_word(tmp_path):
    found = run_faults(tmp_path, 0.0, seed=1, tell=lambda _: None)
    assert found.problems == []
    assert found.points >= POINTS_MIN
    assert found.tried == found.points
    # Both kinds of answer were given, so faults were met and appends went on beside them.
    assert found.answers["acknowledged"] > 0
    assert found.answers["refused"] > 0
