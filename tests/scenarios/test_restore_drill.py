"""A restoration is tried and not hoped for: under load, with a destroyed ledger, and the provider's book agrees."""

from __future__ import annotations

import json
import subprocess
import sys


def test_the_drill_ends_with_every_order_paid_once(tmp_path):
    command = [sys.executable, "-m", "counterfoil.testing.restore_drill", "--orders", "40", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    told = json.loads(done.stdout)
    assert (done.returncode, told["wrong"]) == (0, []), done.stderr
    assert told["payments"] == told["orders"] == 40
    assert told["found_by_lookup"] > 0
    assert told["lost_events"] > 0
