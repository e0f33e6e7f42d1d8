"""The limits of style hold in the repository, and each rule finds the fault it is there for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import tidy


def test_the_repository_keeps_every_limit():
    assert [str(finding) for finding in tidy.check()] == []


def findings(root: Path, name: str, text: str) -> list[str]:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return [finding.what for finding in tidy.check(root)]


DOC = '"""A module."""\n'
FAULTS = {
    "a long function": ("src/p/a.py", DOC + "def f():\n" + "    x = 1\n" * 61, "f has 61 lines"),
    "a long method": (
        "src/p/a.py",
        DOC + "class C:\n  async def m(self):\n" + "    x = 1\n" * 61,
        "m has 61 lines",
    ),
    "a long module": ("src/p/a.py", DOC + "x = 1\n" * 500, "501 lines"),
    "a module named utils": ("src/p/utils.py", DOC, "says nothing"),
    "a package named helpers": ("src/p/helpers/__init__.py", DOC, "says nothing"),
    "a module without a docstring": ("src/p/a.py", "x = 1\n", "no docstring"),
    "a docstring that runs on": ("src/p/a.py", '"""A module\nthat runs on."""\n', "not a sentence"),
    "a print in the library": ("src/p/core/a.py", DOC + "print(1)  # noqa: T201 - wanted\n", "print outside"),
    "a bare type: ignore": ("src/p/a.py", DOC + "x = 1  # type: ignore\n", "says why"),
    "an ignore without a reason": ("src/p/a.py", DOC + "x = 1  # type: ignore[misc]\n", "says why"),
    "a noqa without a reason": ("src/p/a.py", DOC + "x = 1  # noqa: E501\n", "says why"),
    "a sleep in a test": ("tests/test_a.py", "import time\ntime.sleep(1)\n", "a sleep"),
    "an imported sleep": ("tests/test_a.py", "from time import sleep\n", "a sleep"),
    "the path of a machine": ("docs/a.md", "see /ro" + "ot/notes\n", "machine's path"),
    "a home directory": ("docs/a.md", "see /home" + "/carol/notes\n", "machine's path"),
    "a registry's host": ("docs/a.md", "from py" + "pi.org\n", "registry's host"),
    "a source in a lock": ("a.lock", "--index-url x\n", "not from where"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_tidy_finds(fault: str, tmp_path: Path):
    name, text, what = FAULTS[fault]
    assert any(what in found for found in findings(tmp_path, name, text))


CLEAN = {
    "sixty lines": ("src/p/a.py", DOC + "def f():\n" + "    x = 1\n" * 60),
    "a print in the command line": ("src/p/cli/a.py", DOC + "print(1)\n"),
    "an ignore with its reason": ("src/p/a.py", DOC + "x = 1  # type: ignore[misc]  # the stub is wrong\n"),
    "a noqa with its reason": ("src/p/a.py", DOC + "x = 1  # noqa: E501 - a link\n"),
    "a sleep with its reason": (
        "tests/test_a.py",
        "import time\ntime.sleep(1)  # sleeps because it is killed asleep\n",
    ),
    "the home of an example user": ("docs/a.md", "/home/alice/notes\n"),
}


@pytest.mark.parametrize("case", CLEAN)
def test_tidy_lets_pass(case: str, tmp_path: Path):
    name, text = CLEAN[case]
    assert findings(tmp_path, name, text) == []


def test_reasons_do_not_let_sleeps_multiply(tmp_path: Path):
    line = "time.sleep(1)  # sleeps because it may\n"
    found = findings(tmp_path, "tests/test_a.py", "import time\n" + line * (tidy.SLEEPS_MAX + 1))
    assert found == [f"more than {tidy.SLEEPS_MAX} sleeps in the suite, reasons or not"]
