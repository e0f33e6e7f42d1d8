"""Lists that are asked for with what is no limit and no name are refused by type, before a row is read."""

from __future__ import annotations

import pytest

import counterfoil
from counterfoil.errors import InputError, NotFoundError

NO_LIMITS = [-1, 1.5, "3", True, 2**70, [], b"1"]
NO_TEXTS = [5, b"x", ["a"], "half \ud800", object()]

LISTS = {
    "events": lambda ledger, **said: list(ledger.events("case", **said)),
    "conversations": lambda ledger, **said: ledger.conversations(**said),
    "runs": lambda ledger, **said: ledger.runs(**said),
    "runs of one conversation": lambda ledger, **said: ledger.runs("case", **said),
    "effects": lambda ledger, **said: ledger.effects(**said),
    "effects of one conversation": lambda ledger, **said: ledger.effects(stream="case", **said),
    "reviews": lambda ledger, **said: ledger.reviews(**said),
    "approvals": lambda ledger, **said: ledger.approvals(**said),
    "children": lambda ledger, **said: ledger.children(**said),
    "schedules": lambda ledger, **said: ledger.schedules(**said),
    "artifacts": lambda ledger, **said: ledger.artifacts.rows(**said),
}
FILTERS = {
    "events": "run_id",
    "conversations": "after",
    "runs": "state",
    "effects": "run_id",
    "reviews": "run_id",
    "approvals": "run_id",
    "children": "of",
    "schedules": "state",
}


@pytest.fixture
def ledger():
    with counterfoil.open(":memory:") as ledger:
        with ledger.run("agent", conversation="case", message="hello"):
            pass
        yield ledger


@pytest.mark.parametrize("limit", NO_LIMITS, ids=[type(each).__name__ for each in NO_LIMITS])
@pytest.mark.parametrize("name", LISTS)
def test_what_is_no_limit_is_refused(name, limit, ledger):
    with pytest.raises(InputError, match="limit is a whole number"):
        LISTS[name](ledger, limit=limit)


@pytest.mark.parametrize("text", NO_TEXTS, ids=["integer", "bytes", "list", "half", "object"])
@pytest.mark.parametrize("name", FILTERS)
def test_what_is_no_text_is_refused(name, text, ledger):
    with pytest.raises((InputError, NotFoundError)):
        LISTS[name](ledger, **{FILTERS[name]: text})


@pytest.mark.parametrize("after", [-1, "1", 1.0, None, 2**70], ids=["less", "text", "float", "none", "more"])
def test_what_is_no_sequence_is_refused(after, ledger):
    with pytest.raises(InputError, match="after is a whole number"):
        list(ledger.events("case", after=after))


def test_a_limit_bounds_and_none_does_not(ledger):
    assert len(list(ledger.events("case", limit=2))) == 2
    assert list(ledger.events("case", limit=0)) == []
    assert len(ledger.runs(limit=5)) == 1
