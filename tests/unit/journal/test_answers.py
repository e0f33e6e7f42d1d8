from __future__ import annotations

import pytest
from msgspec.structs import replace

from counterfoil.errors import ConfigInvalid, NotPermitted, TurnNotFound
from counterfoil.journal import (
    JournalSettings,
    MemoryJournal,
    begin,
    check_start,
    install,
    open_journal,
    uninstall,
)
from counterfoil.journal.answers import session_answer, turn_answer
from counterfoil.journal.gateway import installed
from tests.journals import NOW_MS, OTHER, TURN, journals, whole, written

TURN_KEYS = {"turnId", "agentId", "events", "chainIntact", "brokenAtSeq"}
EVENT_KEYS = {
    "turnId",
    "agentId",
    "seq",
    "type",
    "payloadHash",
    "summary",
    "prevHash",
    "hash",
    "createdAt",
    "createdAtMillis",
    "sessionHash",
}


@pytest.fixture
def journal():
    made = MemoryJournal()
    made.append(whole(TURN))
    made.append(whole(OTHER, NOW_MS + 5, status="cancelled"))
    return made


def anybody(permission, agent_id):
    return True


def test_a_turn_has_its_events_and_its_chain(journal):
    answer = turn_answer(journal, tenant="default", agent_id="support", turn_id=TURN, may=anybody)
    assert set(answer) == TURN_KEYS
    assert set(answer["events"][0]) == EVENT_KEYS
    assert (answer["chainIntact"], answer["brokenAtSeq"]) == (True, None)
    assert answer["events"][0]["createdAt"] == "2026-09-01T14:31:08.412Z"


def test_a_broken_turn_says_where(journal):
    events = journal._turns[TURN].events
    events[1] = replace(events[1], summary="tool=other status=ok")
    answer = turn_answer(journal, tenant="default", agent_id="support", turn_id=TURN, may=anybody)
    assert (answer["chainIntact"], answer["brokenAtSeq"]) == (False, 1)


@pytest.mark.parametrize(
    "wrong", [{"agent_id": "billing"}, {"tenant": "north"}, {"turn_id": "trn_none"}], ids=repr
)
def test_a_turn_that_is_not_this_agents_is_not_found(journal, wrong):
    asked = {"tenant": "default", "agent_id": "support", "turn_id": TURN} | wrong
    with pytest.raises(TurnNotFound):
        turn_answer(journal, may=anybody, **asked)


def test_a_session_lists_its_turns_newest_first(journal):
    answer = session_answer(
        journal, tenant="default", agent_id="support", session_hash="ab" * 32, may=anybody
    )
    assert [(turn["turnId"], turn["status"]) for turn in answer["turns"]] == [
        (OTHER, "cancelled"),
        (TURN, "completed"),
    ]


@pytest.mark.parametrize("limit, found", [(None, 1), (5, 1), (0, 0), (-3, 0)])
def test_a_list_is_bounded_by_the_setting_whatever_is_asked(journal, limit, found):
    answer = session_answer(
        journal,
        tenant="default",
        agent_id="support",
        session_hash="ab" * 32,
        may=anybody,
        limit=limit,
        max_list=1,
    )
    assert len(answer["turns"]) == found


@pytest.mark.parametrize("missing", ["VIEW_AUDIT_LOG", "VIEWER"])
def test_both_answers_need_the_permission_and_the_role(journal, missing):
    def may(permission, agent_id):
        assert agent_id == ("support" if permission == "VIEWER" else None)
        return permission != missing

    with pytest.raises(NotPermitted):
        turn_answer(journal, tenant="default", agent_id="support", turn_id=TURN, may=may)
    with pytest.raises(NotPermitted):
        session_answer(journal, tenant="default", agent_id="support", session_hash="ab" * 32, may=may)


# ---- one journal for the process ----


@pytest.fixture
def gateway():
    uninstall()
    yield
    uninstall()


@pytest.mark.usefixtures("gateway")
def test_a_turn_begun_anywhere_goes_to_the_journal_of_the_process():
    made = install(journals())
    with begin("support", message="m", session="case-1") as turn:
        pass
    assert [event.type for event in written(made, turn.turn_id)] == ["INTAKE", "COMMIT"]
    assert installed() is made


@pytest.mark.usefixtures("gateway")
def test_without_a_journal_of_the_process_turns_are_not_journaled():
    assert not begin("support").enabled


@pytest.mark.usefixtures("gateway")
def test_the_start_is_checked_against_what_is_installed(caplog):
    check_start(JournalSettings(enabled=True))
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    with pytest.raises(ConfigInvalid):
        check_start(JournalSettings(enabled=True, strict=True))
    install(journals())
    check_start(JournalSettings(enabled=True, strict=True))


def test_a_journal_is_opened_by_where_it_lies(tmp_path):
    assert type(open_journal(":memory:")).__name__ == "MemoryJournal"
    assert type(open_journal(tmp_path / "turns.db")).__name__ == "SqliteJournal"
    assert type(open_journal("postgresql://nowhere/x")).__name__ == "PostgresJournal"
    assert list(tmp_path.iterdir()) == []
