"""The public names of ``counterfoil`` are few, sorted, and change only on purpose."""

from __future__ import annotations

import builtins
import doctest
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import counterfoil

NAMES_MAX = 25
INSIDE = ("adapters", "bench", "cli", "demo")
"""Packages that nobody imports from outside: engines, and programs."""

PUBLIC = sorted((*counterfoil.__all__, "open"))
"""``open`` is public and called by its whole name; a star import leaves the builtin alone."""

SNAPSHOT = Path(__file__).with_name("public_api.txt")


def test_public_names_are_those_of_the_snapshot():
    assert SNAPSHOT.read_text("utf-8").split() == PUBLIC


def test_public_names_are_sorted_and_few():
    assert list(counterfoil.__all__) == sorted(set(counterfoil.__all__))
    assert len(PUBLIC) <= NAMES_MAX


def test_a_star_import_replaces_no_builtin():
    names: dict[str, object] = {}
    exec("from counterfoil import *", names)
    assert set(names) - {"__builtins__"} == set(counterfoil.__all__)
    assert not {name for name in counterfoil.__all__ if hasattr(builtins, name)}


def test_every_public_name_is_there_and_documented():
    undocumented = [name for name in PUBLIC if not getattr(counterfoil, name).__doc__]
    assert undocumented == []


def shows_how(name: str) -> bool:
    """Whether the name says by an example how it is used; of an error its kind says all there is."""
    found = getattr(counterfoil, name)
    is_error = isinstance(found, type) and issubclass(found, Exception)
    return is_error or ">>> " in found.__doc__ or "Example::" in found.__doc__


def test_every_public_name_shows_how_it_is_used():
    assert [name for name in PUBLIC if not shows_how(name)] == []


WITH_EXAMPLES = [name for name in PUBLIC if ">>> " in getattr(counterfoil, name).__doc__]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_name_run_as_they_stand(name: str):
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    known = {"counterfoil": counterfoil, "__name__": "examples"}
    (examples,) = finder.find(getattr(counterfoil, name), name, module=False, globs=known)
    said: list[str] = []
    runner.run(examples, out=said.append)
    assert "".join(said) == ""
    assert runner.tries > 0


def test_dir_shows_the_public_names():
    assert set(PUBLIC) <= set(dir(counterfoil))


def untyped(symbols: list[dict[str, object]]) -> list[str]:
    """Names that another type checker would have to guess the type of."""
    return [
        str(symbol["name"])
        for symbol in symbols
        if symbol["isExported"] and (not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"])
    ]


def test_whoever_imports_a_name_gets_its_whole_type():
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    command = [
        sys.executable,
        "-m",
        "pyright",
        "--verifytypes",
        "counterfoil",
        "--ignoreexternal",
        "--outputjson",
    ]
    told = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PATH": path})
    found = json.loads(told.stdout)["typeCompleteness"]["symbols"]
    assert len(found) > 1000
    assert [name for name in untyped(found) if name.split(".")[1] not in INSIDE] == []
