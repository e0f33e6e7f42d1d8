"""The lock pins every package by hash and says nothing of where packages come from."""

from __future__ import annotations

import re
import tomllib

from tools.tree import ROOT

LOCK = (ROOT / "requirements.lock").read_text("utf-8")
PIN = re.compile(r"^(?P<name>[a-z0-9.-]+)==(?P<version>\S+)(?P<rest>.*)$")


def entries() -> dict[str, list[str]]:
    """The lines of each pinned package, by its name."""
    found: dict[str, list[str]] = {}
    for line in LOCK.splitlines():
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


def test_every_locked_package_has_hashes():
    without = [
        name for name, lines in entries().items() if not any("--hash=sha256:" in line for line in lines)
    ]
    assert without == []


def test_the_lock_holds_pins_hashes_and_comments_and_nothing_else():
    known = re.compile(
        r"^(#|    #|    --hash=sha256:[0-9a-f]{64}( \\)?$|[a-z0-9.-]+==\S+( ; [^\\]+)?( \\)?$)"
    )
    assert [line for line in LOCK.splitlines() if line and not known.match(line)] == []
