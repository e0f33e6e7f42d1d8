"""What every journal does: in memory, in SQLite and in PostgreSQL."""

from __future__ import annotations

import threading

import pytest

from counterfoil.errors import InvalidForm
from counterfoil.journal import check_chain, open_journal
from tests.journals import NOW_MS, OTHER, TURN, note, whole
from tests.servers.fixtures import schema_for

DAY_MS = 86_400_000


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def journal(request, tmp_path):
    if request.param == "memory":
        place = ":memory:"
    elif request.param == "sqlite":
        place = str(tmp_path / "turns.db")
    else:
        place = own_schema(request.getfixturevalue("cluster"), schema_for(tmp_path))
    made = open_journal(place)
    yield made
    made.close()


def own_schema(cluster, schema):
    """An address whose search path is a new schema."""
    import psycopg

    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    address = cluster.url()
    return f"{address}{'&' if '?' in address else '?'}options=-csearch_path%3D{schema}"


def test_what_was_appended_is_read_back(journal):
    made = journal.append(whole())
    assert journal.events("default", TURN) == made
    assert [event.seq for event in made] == [0, 1, 2]
    assert check_chain(made).intact


def test_later_appends_go_on_with_the_chain(journal):
    made = [event for one in whole() for event in journal.append([one])]
    assert check_chain(journal.events("default", TURN)).intact
    assert journal.events("default", TURN) == made


def test_turns_in_one_append_have_a_chain_each(journal):
    journal.append([each for pair in zip(whole(), whole(OTHER), strict=True) for each in pair])
    for turn_id in (TURN, OTHER):
        events = journal.events("default", turn_id)
        assert [event.seq for event in events] == [0, 1, 2]
        assert check_chain(events).intact


def test_of_an_append_all_is_recorded_or_nothing(journal):
    with pytest.raises(InvalidForm):
        journal.append([note(), note(agent_id="a|b", turn_id=OTHER)])
    assert journal.events("default", TURN) == []


def test_tenants_do_not_see_each_others_turns(journal):
    journal.append(whole(tenant="north"))
    assert journal.events("south", TURN) == []
    assert journal.turns("south") == []
    assert journal.erase("south", turn_id=TURN) == 0
    assert len(journal.events("north", TURN)) == 3


def test_a_list_has_the_newest_turn_first_and_its_status(journal):
    journal.append(whole(TURN, NOW_MS))
    journal.append(whole(OTHER, NOW_MS + 5, status="error:ValueError"))
    assert [(info.turn_id, info.status, info.events) for info in journal.turns("default")] == [
        (OTHER, "error:ValueError", 3),
        (TURN, "completed", 3),
    ]


def test_a_list_is_of_one_agent_and_one_session(journal):
    journal.append(whole(TURN))
    journal.append(whole(OTHER, agent_id="billing", session_hash="cd" * 32))
    assert [info.turn_id for info in journal.turns("default", agent_id="billing")] == [OTHER]
    assert [info.turn_id for info in journal.turns("default", session_hash="ab" * 32)] == [TURN]
    assert journal.turns("default", agent_id="billing", session_hash="ab" * 32) == []


def test_a_list_is_no_longer_than_asked(journal):
    journal.append(whole(TURN))
    journal.append(whole(OTHER, NOW_MS + 5))
    assert [info.turn_id for info in journal.turns("default", limit=1)] == [OTHER]


def test_a_turn_without_commit_is_open(journal):
    journal.append(whole()[:2])
    (info,) = journal.turns("default")
    assert (info.status, info.began_at_ms, info.changed_at_ms) == ("open", NOW_MS, NOW_MS + 1)


def test_the_status_is_that_of_the_last_commit_and_attempts_are_counted(journal):
    journal.append(whole(status="error:ConnectionError"))
    journal.append(whole())
    (info,) = journal.turns("default")
    assert (info.status, info.attempts, info.events) == ("completed", 2, 6)


def test_erasure_removes_a_turn_whole(journal):
    journal.append(whole(TURN))
    journal.append(whole(OTHER))
    assert journal.erase("default", turn_id=TURN) == 3
    assert [info.turn_id for info in journal.turns("default")] == [OTHER]


def test_erasure_removes_a_session_whole(journal):
    journal.append(whole(TURN))
    journal.append(whole(OTHER, session_hash="cd" * 32))
    assert journal.erase("default", session_hash="ab" * 32) == 3
    assert [info.turn_id for info in journal.turns("default")] == [OTHER]


def test_erasure_of_nothing_named_removes_nothing(journal):
    journal.append(whole())
    assert journal.erase("default") == 0
    assert len(journal.events("default", TURN)) == 3


def test_retention_removes_old_turns_whole_and_leaves_those_that_go_on(journal):
    journal.append(whole(TURN, NOW_MS - DAY_MS))
    journal.append(whole(OTHER, NOW_MS - DAY_MS)[:2])
    journal.append([note("COMMIT", "status=completed", OTHER)])
    assert journal.prune(NOW_MS - 1000) == 3
    assert journal.events("default", TURN) == []
    assert check_chain(journal.events("default", OTHER)).intact


def test_retention_can_be_of_one_tenant(journal):
    journal.append(whole(TURN, tenant="north"))
    journal.append(whole(OTHER, tenant="south"))
    assert journal.prune(NOW_MS + DAY_MS, tenant="south") == 3
    assert len(journal.events("north", TURN)) == 3


def test_open_turns_are_those_that_nobody_committed_and_nothing_came_to(journal):
    journal.append(whole(TURN, NOW_MS - DAY_MS)[:2])
    journal.append(whole(OTHER, NOW_MS - DAY_MS))
    assert [(last.turn_id, last.type) for last in journal.open_turns(NOW_MS)] == [(TURN, "TOOL_CALL")]
    assert journal.open_turns(NOW_MS - DAY_MS) == []
    assert journal.open_turns(NOW_MS, tenant="north") == []


def test_threads_that_append_to_one_turn_make_one_chain(journal):
    def work(number):
        for each in range(5):
            journal.append([note("GUARD", f"guard=g{number}.{each}")])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    events = journal.events("default", TURN)
    assert len(events) == 20
    assert check_chain(events).intact


def test_closing_twice_is_closing_once(journal):
    journal.close()
    journal.close()


def test_only_a_turn_that_is_open_is_ended_from_outside(journal):
    given_up = note("COMMIT", "status=error:abandoned")
    assert not journal.end_open(given_up)
    assert journal.events("default", TURN) == []
    journal.append(whole()[:2])
    assert journal.end_open(given_up)
    assert not journal.end_open(given_up)
    events = journal.events("default", TURN)
    assert [event.type for event in events] == ["INTAKE", "TOOL_CALL", "COMMIT"]
    assert check_chain(events).intact


def test_of_several_who_end_a_turn_one_does(journal):
    journal.append(whole()[:2])
    ended = []

    def end():
        ended.append(journal.end_open(note("COMMIT", "status=error:abandoned")))

    threads = [threading.Thread(target=end) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(ended) == [False, False, False, True]
    assert len(journal.events("default", TURN)) == 3
