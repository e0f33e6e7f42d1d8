"""The lock pins every package by hash and says nothing of where packages come from."""

from __future__ import annotations

import re
import tomllib

import pytest

from tools.tree import ROOT

LOCK = (ROOT / "requirements.lock").read_text("utf-8")
PEERS = (ROOT / "benchmarks" / "requirements.lock").read_text("utf-8")
PIN = re.compile(r"^(?P<name>[a-z0-9.-]+)==(?P<version>\S+)(?P<rest>.*)$")


def entries(lock: str = LOCK) -> dict[str, list[str]]:
    """The lines of each pinned package, by its name."""
    found: dict[str, list[str]] = {}
    for line in lock.splitlines():
        pin = PIN.match(line)
        if pin:
            lines = found[pin["name"]] = []
        elif line.strip() and not line.startswith("#"):
            lines.append(line.strip())
    return found


def requirements() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    named = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    for extra in project["project"]["optional-dependencies"].values():
        named += extra
    return {re.split(r"[\[<>=!~; ]", name)[0].lower() for name in named} - {"counterfoil"}


def test_every_requirement_is_locked():
    assert requirements() <= set(entries())


def test_everything_that_the_peers_need_is_locked():
    asked = (ROOT / "benchmarks" / "requirements.in").read_text("utf-8").splitlines()
    assert {re.split(r"\[", line)[0] for line in asked if line and not line.startswith("#")} <= set(
        entries(PEERS)
    )


@pytest.mark.parametrize("lock", [LOCK, PEERS], ids=["ours", "peers"])
def test_every_locked_package_has_hashes(lock: str):
    without = [
        name for name, lines in entries(lock).items() if not any("--hash=sha256:" in line for line in lines)
    ]
    assert without == []


@pytest.mark.parametrize("lock", [LOCK, PEERS], ids=["ours", "peers"])
def test_the_lock_holds_pins_hashes_and_comments_and_nothing_else(lock: str):
    known = re.compile(
        r"^(#|    #|    --hash=sha256:[0-9a-f]{64}( \\)?$|[a-z0-9.-]+==\S+( ; [^\\]+)?( \\)?$)"
    )
    assert [line for line in lock.splitlines() if line and not known.match(line)] == []
