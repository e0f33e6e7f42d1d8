"""The page about the doctor: its picture is what the command prints, but for what differs between machines."""

from __future__ import annotations

import re

from tests.command import Shell, in_review
from tools import markdown
from tools.tree import ROOT

MACHINE = ("free space", "file system", "write-ahead log")
"""Checks whose values are the machine's own."""


def told(text: str) -> list[str]:
    lines = re.sub(r"kek_\w+", "kek", text).strip().splitlines()
    lines = [" ".join(line.split()) for line in lines]
    return [next((name for name in MACHINE if name in line), line) for line in lines]


def test_the_picture_is_what_the_command_prints(tmp_path):
    shell = Shell(tmp_path)
    in_review(shell)
    shell.clock.advance(7_200_000)
    shell.environment["COUNTERFOIL_LEDGER"] = str(shell.place)
    blocks = markdown.blocks((ROOT / "docs/doctor.md").read_text("utf-8"))
    (picture,) = [block.text for block in blocks if block.text.startswith("$ counterfoil doctor")]
    assert told(picture.partition("\n")[2]) == told(shell("doctor", ledger=False).out)
