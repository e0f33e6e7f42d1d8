"""``counterfoil hold``: pulled in one process, felt in another; listed, released, and never by an option left out."""

from __future__ import annotations

from pathlib import Path

import pytest

import counterfoil
from counterfoil.effects.registry import own_tools
from counterfoil.errors import EffectHeld
from tests.command import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = Shell(tmp_path)
    with made.open():
        return made


def serve(shell: Shell, dedupe: str) -> str:
    with own_tools(), shell.open() as ledger:
        pay = counterfoil.effect("pay", version="1", touches={"money"}, doubt=counterfoil.by_review())(
            lambda order: order
        )
        with ledger.run("agent", conversation=dedupe, dedupe=dedupe) as run:
            run.finish(pay("o-1"))
        return run.output


def test_what_is_held_is_refused_elsewhere_listed_and_released(shell):
    done = shell("hold", "set", "--tool", "pay", "--by", "Ines", "--reason", "wrong amounts")
    assert (done.code, "tool pay is held: no new effect begins" in done.out) == (0, True)
    with pytest.raises(EffectHeld):
        serve(shell, "m1")
    shell.clock.advance(3_600_000)
    (_, row) = shell("hold", "ls").out.splitlines()
    for part in ("■ pay", "1 h", "Ines", "wrong amounts"):
        assert part in row
    done = shell("hold", "release", "--tool", "pay", "--by", "Tom", "--reason", "mended")
    assert "tool pay is not held" in done.out
    assert serve(shell, "m2") == "o-1"
    assert shell("hold", "ls").out == "✓ nothing is held\n"


def test_programs_get_one_object_for_a_command_and_one_a_line_for_a_list(shell):
    words = ("--by", "Ines", "--reason", "incident", "--json")
    levers = [{"tenant": "default", "scope": "all", "tool": None, "state": "held", "repeated": False}]
    assert shell("hold", "set", "--all", *words).json == {"levers": levers, "under_way": 0}
    (held,) = shell("hold", "ls", "--json").lines
    assert {name: held[name] for name in ("scope", "tool", "by", "reason")} == {
        "scope": "all",
        "tool": None,
        "by": "Ines",
        "reason": "incident",
    }
    assert shell("hold", "set", "--all", *words).json["levers"][0]["repeated"]


def test_a_whole_tenant_is_named_and_never_meant_by_leaving_something_out(shell):
    words = ("--by", "Ines", "--reason", "incident")
    assert shell("hold", "set", *words).code == 64
    assert shell("hold", "set", "--all", "--tool", "pay", *words).code == 64
    assert shell("hold", "ls").out == "✓ nothing is held\n"
    done = shell("hold", "set", "--tenant", "default", *words)
    assert (done.code, "tenant default is held" in done.out) == (0, True)


def test_effects_under_way_are_counted_because_no_lever_stops_them(tmp_path):
    shell = Shell(tmp_path)
    with own_tools(), shell.open() as ledger:
        pay = counterfoil.effect("pay", version="1", touches={"money"}, doubt=counterfoil.by_review())(
            hold_while_paying(shell)
        )
        with ledger.run("agent", conversation="c", dedupe="m") as run:
            run.finish(pay("o-1"))
    assert "1 effect under way" in run.output


def hold_while_paying(shell):
    def pay(order):
        return shell("hold", "set", "--tool", "pay", "--by", "Ines", "--reason", "now").out

    return pay


def test_hostile_names_and_reasons_are_shown_with_marks(shell):
    shell("hold", "set", "--tool", "pay", "--by", "I\x1b[31mnes", "--reason", "a\x07b")
    printed = shell("hold", "ls").out
    assert "\x1b" not in printed
    assert "\x07" not in printed
