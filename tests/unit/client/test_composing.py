"""A ledger's features are loaded when they are first asked for, and are then bases as any other."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib import import_module

import pytest

import counterfoil
from counterfoil.client import composing
from counterfoil.client.composing import HOMES
from counterfoil.client.ledger import Ledger
from counterfoil.client.nursing import Nursing
from counterfoil.client.search_place import SearchPlaced


def feature(home: str) -> type:
    module, _, name = home.rpartition(".")
    return getattr(import_module(f"counterfoil.client.{module}"), name)


def own(home: str) -> dict[str, object]:
    return {name: found for name, found in vars(feature(home)).items() if not name.startswith("_")}


@pytest.mark.parametrize("home", HOMES)
def test_every_public_name_of_a_feature_leads_to_it(home):
    assert sorted(HOMES[home]) == sorted(own(home))


@pytest.mark.parametrize("home", HOMES)
def test_no_feature_has_a_name_that_is_assigned_to(home):
    """Assigning loads nothing, so the value would land in the ledger and its setter would not be asked."""
    settable = [name for name, found in own(home).items() if hasattr(found, "__set__") and found.fset]
    assert settable == []


def test_the_type_checkers_and_the_process_see_the_same_features():
    tree = ast.parse(inspect.getsource(composing))
    typed = next(found for found in ast.walk(tree) if isinstance(found, ast.ClassDef))
    at_run_time = [*(home.rpartition(".")[2] for home in HOMES), "SearchPlaced", "Nursing"]
    assert [ast.unparse(base) for base in typed.bases] == at_run_time


def test_features_agree_as_bases_whichever_are_loaded():
    """An order of all in which no two contradict each other is one for any of them."""
    every = type("Every", (*map(feature, HOMES), SearchPlaced, Nursing), {})
    for names in HOMES.values():
        for name in names:
            assert getattr(Ledger, name) is getattr(every, name)


def in_a_new_process(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


FIRST_USES = """
import sys, counterfoil
def loaded():
    return "counterfoil.client.stating" in sys.modules
with counterfoil.open(":memory:") as ledger:
    with ledger.run("agent", conversation="case"): pass
    print(loaded(), "slots" in dir(ledger), "slots" in dir(counterfoil.Ledger), loaded())
    print(hasattr(ledger, "slot"), hasattr(counterfoil.Ledger, "slot"), loaded())
    print(ledger.slots("case"), loaded())
    print(isinstance(ledger, sys.modules["counterfoil.client.stating"].Stating))
"""


def test_a_feature_is_listed_before_it_is_loaded_and_loaded_when_it_is_used():
    assert in_a_new_process(FIRST_USES) == [
        *("False", "True", "True", "False"),
        *("False", "False", "False"),
        *("[]", "True"),
        "True",
    ]


AT_ONCE = """
import threading, counterfoil
from counterfoil.client.composing import HOMES
failed, barrier = [], threading.Barrier(8)
def ask(names):
    barrier.wait()
    try:
        for name in names: getattr(counterfoil.Ledger, name)
    except BaseException as error:
        failed.append(error)
names = [name for several in HOMES.values() for name in several]
threads = [threading.Thread(target=ask, args=(names[n:] + names[:n],)) for n in range(0, 64, 8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(failed))
"""


def test_threads_that_ask_for_features_at_once_all_get_them():
    assert in_a_new_process(AT_ONCE) == ["0"]


def test_a_name_that_no_feature_has_is_refused_by_its_name():
    with (
        counterfoil.open(":memory:") as ledger,
        pytest.raises(AttributeError, match="'Ledger' object has no attribute 'repairr'"),
    ):
        ledger.repairr  # noqa: B018
    with pytest.raises(AttributeError, match="type object 'Ledger' has no attribute 'repairr'"):
        Ledger.repairr  # noqa: B018
