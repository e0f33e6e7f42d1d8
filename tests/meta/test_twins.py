"""Each method for tasks takes what its plain twin takes: they differ in the ``a`` of their names and in nothing else."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import counterfoil

NAMES = {"wait": "await_"}
"""Twins whose name is another, since Python keeps the plain one for itself."""

HELPERS = ("counterfoil.testing.", "counterfoil.demo.", "counterfoil.bench.")


def classes() -> Iterator[type]:
    seen = set()
    for module in pkgutil.walk_packages(counterfoil.__path__, "counterfoil."):
        if module.name.startswith(HELPERS) or module.name.endswith("__main__"):
            continue
        for found in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(found) and found.__module__ == module.name and found not in seen:
                seen.add(found)
                yield found


def taken(method):
    """What a method takes: names, how they are given, and what they are where they are left out."""
    found = inspect.signature(method).parameters.values()
    return [(each.name, each.kind, each.default) for each in found]


def test_a_method_for_tasks_takes_what_its_twin_takes():
    twins, wrong = 0, []
    for owner in classes():
        for name in (name for name in dir(owner) if not name.startswith("_")):
            task = getattr(owner, NAMES.get(name, f"a{name}"), None)
            plain = getattr(owner, name, None)
            if not (inspect.isfunction(plain) and inspect.iscoroutinefunction(task)):
                continue
            twins += 1
            if taken(plain) != taken(task):
                wrong.append(f"{owner.__module__}.{owner.__qualname__}.{name}")
    assert wrong == []
    assert twins >= 30
