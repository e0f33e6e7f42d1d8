"""EIO, ENOSPC and SIGKILL while objects are synced and named, injected by strace."""

from __future__ import annotations

import pytest

from counterfoil.testing.artifact_kills import run_artifact_faults


@pytest.mark.strace
@pytest.mark.processes
@pytest.mark.timeout(300)
def test_whatever_fails_while_an_object_is_stored_what_was_acknowledged_is_whole(tmp_path):
    found = run_artifact_faults(tmp_path, every=7)
    assert found.problems == []
    assert found.points >= 20
    assert found.answers["kept"] > 0
    assert found.answers["refused"] > 0
