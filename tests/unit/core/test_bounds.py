"""Lists that are asked for with what is no limit and no name are refused by type, before a row is read."""

from __future__ import annotations

from contextlib import suppress

import pytest

import counterfoil
from counterfoil.effects.registry import own_tools
from counterfoil.errors import InputError, NotFoundError
from counterfoil.journal.place import open_journal
from counterfoil.policy import RuleList, ask

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
    "repairs": lambda ledger, **said: ledger.repairs(None, **said),
    "repairs of one effect": lambda ledger, **said: ledger.repairs(
        None, subject=first(ledger, "subject"), **said
    ),
    "repairs after another": lambda ledger, **said: ledger.repairs(None, after=first(ledger), **said),
    "turns": lambda ledger, **said: ledger.turns(**said),
    "turns of one conversation": lambda ledger, **said: ledger.turns(session="case", **said),
    "decisions": lambda ledger, **said: list(ledger.access.decisions(**said)),
    "search": lambda ledger, **said: ledger.search("hello", "case", **said).hits,
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
    "repairs": "subject",
    "turns": "agent",
}
UNBOUNDED = set(LISTS) - {"conversations", "turns", "turns of one conversation", "search"}
"""Those that take None for no limit; the others have one of their own."""


def first(ledger, member="repair_id"):
    return str(ledger.store.select("repairs", limit=1)[0][member])


@pytest.fixture
def ledger():
    """Two rows for each list."""
    with own_tools(), counterfoil.open(":memory:") as ledger:

        @counterfoil.effect("letter.send", version="1", touches={"messages"}, doubt=counterfoil.by_review())
        def send(to: str) -> None:
            if to == "nobody":
                raise ConnectionError

        asking = RuleList("limits", revision="1", otherwise="allow", rules=[ask("large", tool="letter.send")])
        for number in range(2):
            with ledger.run("agent", conversation="case", message="hello") as run:
                run.artifact(f"letter {number}".encode())
                run.spawn("other", "hello")
                send("somebody")
            ledger.open_repair(
                str(ledger.effects(run_id=run.id)[0]["effect_id"]), by="Dana", reason="wrong", calls=[]
            )
            with suppress(counterfoil.RunWaiting), ledger.run("agent", conversation=f"doubt {number}"):
                send("nobody")
            ledger.policy = asking
            with suppress(counterfoil.RunWaiting), ledger.run("agent", conversation=f"asks {number}"):
                send("somebody")
            ledger.policy = None
            ledger.schedule("agent", conversation="case", every_s=60, message="hello")
            with ledger.reading("case", actor="ann", purpose="why"):
                pass
        yield ledger


@pytest.mark.parametrize("limit", NO_LIMITS, ids=[type(each).__name__ for each in NO_LIMITS])
@pytest.mark.parametrize("name", LISTS)
def test_what_is_no_limit_is_refused(name, limit, ledger):
    with pytest.raises(InputError, match="limit is a whole number"):
        LISTS[name](ledger, limit=limit)


@pytest.mark.parametrize("name", LISTS)
def test_a_limit_of_nothing_is_nothing_and_one_is_one(name, ledger):
    assert [len(LISTS[name](ledger, limit=limit)) for limit in (0, 1)] == [0, 1]


@pytest.mark.parametrize("name", sorted(UNBOUNDED))
def test_without_a_limit_there_is_none(name, ledger):
    found = LISTS[name](ledger, limit=None)
    assert len(found) >= 1
    assert found == LISTS[name](ledger) or name == "events"


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("limit", NO_LIMITS, ids=[type(each).__name__ for each in NO_LIMITS])
def test_what_is_no_limit_of_a_journal_is_refused(kind, limit, tmp_path):
    journal = open_journal(":memory:" if kind == "memory" else str(tmp_path / "turns.db"))
    for listed in (journal.turns, journal.open_turns):
        with pytest.raises(InputError, match="limit is a whole number"):
            listed("default" if listed == journal.turns else 0, limit=limit)
    journal.close()


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
    assert len(ledger.runs("case", limit=5)) == 2
