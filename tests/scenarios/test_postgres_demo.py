"""The demo on PostgreSQL, played once as a user plays it: the same kills, and both sides agree on one refund each."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.servers.fixtures import schema_for

pytestmark = [pytest.mark.postgres, pytest.mark.processes, pytest.mark.timeout(180)]

PROGRAM = (sys.executable, "-W", "error", "-c", "from counterfoil.cli import main; main()")


@pytest.mark.parametrize(
    "kind", ["packaged", pytest.param("system", marks=pytest.mark.older_postgres)], ids=["packaged", "system"]
)
def test_the_demo_ends_with_one_refund_on_each_side(kind, clusters, tmp_path):
    place = clusters(kind).url(schema=schema_for(tmp_path), kek=str(tmp_path / "kek"))
    words = ("demo", "--directory", str(tmp_path / "played"), "--ledger", place, "--json")
    ended = subprocess.run([*PROGRAM, *words], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    told = json.loads(ended.stdout)
    assert (told["ok"], told["commands_failed"], told["ledger"]) == (True, [], place)
    assert [case["refund_was"][0] for case in told["cases"]] == [
        "intended",
        "intended",
        "succeeded",
    ]
    again = subprocess.run(
        [*PROGRAM, "demo", "--directory", str(tmp_path / "again"), "--ledger", place],
        capture_output=True,
        text=True,
    )
    assert again.returncode == 65
    assert "a ledger of its own" in again.stderr
