"""``counterfoil shadow``: what a policy that is tried out would have refused, for people and for programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterfoil.effects.registry import own_tools
from counterfoil.policy import shadow
from tests.approving import Shop, policy
from tests.command import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = Shell(tmp_path)
    with own_tools(), made.open() as ledger:
        shop = Shop(ledger, shadow(policy()))
        for order, amount in (("a", 2000), ("b", 2000), ("c", 80), ("d", 10)):
            shop.serve(amount, order)
    return made


def test_people_see_what_would_have_been_refused(shell):
    done = shell("shadow")
    assert done.code == 0
    for part in ("limits 1", "would be denied", "too-much", "would be put to people", "shop.refund"):
        assert part in done.out
    assert "4 calls judged in shadow, 3 of them" in done.out
    assert "in shadow: DENIES it" in shell("show", "case").out


def test_programs_get_counts_and_single_calls(shell):
    assert [(line["outcome"], line["calls"]) for line in shell("shadow", "--json").lines] == [
        ("deny", 2),
        ("ask", 1),
        ("allow", 1),
    ]
    calls = shell("shadow", "--calls", "--policy", "limits").lines
    assert [(call["outcome"], call["rules"], call["state"]) for call in calls] == [
        ("deny", ["too-much"], "succeeded"),
        ("deny", ["too-much"], "succeeded"),
        ("ask", ["large"], "succeeded"),
    ]


def test_a_ledger_without_shadow_says_so(tmp_path):
    shell = Shell(tmp_path)
    with shell.open():
        pass
    assert shell("shadow").out == "· no call was judged in shadow\n"
