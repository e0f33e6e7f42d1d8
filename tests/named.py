"""Tests named in tables: what such a name must point to, so that a table cannot outlive its tests."""

from __future__ import annotations

import ast
from functools import cache

from counterfoil import testing
from tools.tree import ROOT

SUITES = ("StoreContract", "FaultContract", "KeyStoreContract")
"""Shipped suites; a test of one runs on every adapter and wrapper, and is named by its suite."""


def missing(table: dict[object, str]) -> list[str]:
    """The names in a table, one a line, that are no test."""
    named = [name for text in table.values() for name in text.split()]
    return [name for name in named if not _is_there(name)]


def _is_there(name: str) -> bool:
    place, _, test = name.partition("::")
    if place in SUITES:
        return hasattr(getattr(testing, place), test)
    return test in _tests_of(place)


@cache
def _tests_of(place: str) -> frozenset[str]:
    path = ROOT / "tests" / place
    if not path.is_file():
        return frozenset()
    body = ast.parse(path.read_text("utf-8")).body
    return frozenset(
        node.name for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )
