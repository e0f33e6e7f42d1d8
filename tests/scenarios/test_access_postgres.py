"""Read sessions on a server: on record for every handle, and nothing shown to a login that cannot record."""

from __future__ import annotations

import asyncio
import threading

import pytest

import counterfoil
from counterfoil.access import RoleAuthorizer
from counterfoil.effects.registry import own_tools
from counterfoil.errors import AccessError, AccessRefused, StoreReadOnly

pytestmark = pytest.mark.postgres

LARGE = "x" * 300_000


@pytest.fixture
def url(cluster, tmp_path):
    from tests.servers.fixtures import schema_for

    return cluster.url(schema=schema_for(tmp_path), kek=str(tmp_path / "kek"))


@pytest.fixture
def shared(tmp_path):
    return tmp_path / "artifacts"


def open_ledger(url, shared, **more):
    roles = RoleAuthorizer({"ann": ["auditor"], "sam": ["security"]})
    return counterfoil.open(url, authorizer=roles, artifacts=shared, **more)


def test_sessions_of_many_threads_are_all_on_record(url, shared):
    with open_ledger(url, shared) as ledger:
        with ledger.run("shop", conversation="c", message="hi"):
            pass

        def look():
            with ledger.reading("c", actor="ann", purpose="a complaint") as reader:
                assert list(reader.events())

        threads = [threading.Thread(target=look) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with open_ledger(url, shared) as other:
            assert [line.by for line in other.access.decisions()] == ["ann"] * 6


def test_glass_broken_on_one_handle_counts_on_another(url, shared):
    with open_ledger(url, shared) as ledger, open_ledger(url, shared) as other:
        with ledger.run("shop", conversation="c"):
            pass
        ledger.access.break_glass("sam", "payments fail")
        other.authorizer = RoleAuthorizer()
        with other.reading("c", actor="sam", purpose="an incident") as reader:
            assert reader.decision.decision.rule == "glass"


def test_a_task_spills_with_what_permitted_it_and_is_asked_for_it(url, shared):
    async def serve(ledger):
        @counterfoil.effect("orders.list", version="1", touches=set(), doubt=counterfoil.by_repeating())
        async def orders() -> str:
            return LARGE

        async with ledger.run("shop", conversation="c", principal="ann"):
            assert await orders() == LARGE

    with own_tools(), open_ledger(url, shared) as ledger:
        asyncio.run(serve(ledger))
        (told,) = ledger.events("c", types=["artifact.spilled"])
        assert told.data["permission"] == "orders.list"
        assert told.data["principal"].startswith("dk_")
        with ledger.reading("c", actor="ann", purpose="a complaint") as reader:
            (observed,) = reader.events(types=["effect.observed"])
            assert observed.content["result"] == LARGE
        with pytest.raises(AccessRefused):
            ledger.reading("c", actor="nobody", purpose="curiosity").__enter__()


def test_a_handle_that_cannot_record_shows_nothing(url, shared):
    with open_ledger(url, shared) as ledger, ledger.run("shop", conversation="c"):
        pass
    with open_ledger(url, shared, read_only=True) as ledger, pytest.raises((AccessError, StoreReadOnly)):
        ledger.reading("c", actor="ann", purpose="a complaint").__enter__()
