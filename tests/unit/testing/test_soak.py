"""The soak command: what it prints and how it ends, with its parts replaced by what a test says they found."""

from __future__ import annotations

import pytest

from counterfoil.testing import soak as soak_module
from counterfoil.testing.effect_kills import Effects
from counterfoil.testing.kills import Tally
from counterfoil.testing.soak import main
from counterfoil.testing.syscalls import Faults, Point, _in_order


@pytest.fixture
def parts(monkeypatch):
    """What the parts are to have found."""
    told = {"kills": [], "faults": Faults(points=26, tried=26), "effects": Effects(count=5)}
    monkeypatch.setattr(soak_module, "run_effects", lambda *_: told["effects"])
    monkeypatch.setattr(
        soak_module, "run_kills", lambda *_: (Tally(kills=3, acknowledged={"a"}), told["kills"])
    )
    monkeypatch.setattr(soak_module, "run_faults", lambda *_: told["faults"])
    monkeypatch.setattr(soak_module, "strace_path", lambda: "/usr/bin/strace")
    monkeypatch.delenv("CI", raising=False)
    return told


@pytest.mark.usefixtures("parts")
def test_a_clean_soak_ends_with_a_summary_its_seed_and_nought(capsys):
    assert main(["--seconds", "1", "--seed", "7"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "soak: seed 7, 1 s"
    assert lines[-1] == "soak: 3 kills, 26 faults at 26 points, 5 effects, 0 violations, seed 7"


@pytest.mark.parametrize("part", ["kills", "faults", "effects"])
def test_a_violation_is_printed_and_ends_with_one(parts, capsys, part):
    (parts["kills"] if part == "kills" else parts[part].problems).append("evt_x is lost")
    assert main(["--seconds", "1"]) == 1
    assert "violation: evt_x is lost" in capsys.readouterr().out


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize("ci,code", [("", 0), ("true", 1)])
def test_without_strace_it_says_so_in_one_line_and_fails_only_where_it_must_not_be_missing(
    monkeypatch, capsys, ci, code
):
    monkeypatch.setattr(soak_module, "strace_path", lambda: None)
    monkeypatch.setenv("CI", ci)
    assert main(["--seconds", "1"]) == code
    assert "strace is not installed" in capsys.readouterr().out


@pytest.mark.usefixtures("parts")
def test_a_seed_is_chosen_and_printed_when_none_is_given(capsys):
    main(["--seconds", "1"])
    first = capsys.readouterr().out.splitlines()[0]
    main(["--seconds", "1"])
    assert capsys.readouterr().out.splitlines()[0] != first


def test_every_place_meets_every_fault_and_each_once_before_any_twice():
    import random

    places = [("pwrite64", 1), ("pwrite64", 2), ("fdatasync", 1)]
    points = _in_order(places, random.Random(3))
    assert len(set(points)) == len(points) == 9
    assert {(point.call, point.when) for point in points[:3]} == set(places)
    assert isinstance(points[0], Point)
