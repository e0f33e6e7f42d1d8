from __future__ import annotations

import asyncio
import hashlib
import threading

import pytest

from counterfoil.errors import ConfigInvalid, PolicyDenied, RunCancelled, TurnRefused
from counterfoil.journal import JournalSettings, MemoryJournal, TurnJournals, current_turn, tenant_scope
from counterfoil.journal.digests import payload_hash, session_digest
from counterfoil.journal.recorder import status_of
from tests.journals import NOW_MS, journals, stages, written


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_turn_has_its_message_its_stages_and_its_answer():
    made = journals()
    with made.begin("support", session="case-1", message="Where is it?") as turn:
        turn.guard("tone", "pass")
        turn.model_call("acme", "acme-1", ms=40)
        turn.verify("addresses", ok=True, found=0)
        turn.answer("On its way.")
    events = written(made, turn.turn_id)
    assert stages(events)[1:] == [
        "GUARD guard=tone outcome=pass",
        "MODEL_CALL provider=acme model=acme-1 route=primary status=ok ms=40",
        "VERIFY check=addresses outcome=ok found=0",
        "COMMIT status=completed",
    ]
    assert (events[0].payload_hash, events[-1].payload_hash) == (sha("Where is it?"), sha("On its way."))


def test_the_session_is_a_digest_in_its_column_and_in_the_chain():
    made = journals(session_key=b"k" * 32)
    with made.begin("support", session="case-1") as turn:
        pass
    intake = written(made, turn.turn_id)[0]
    assert intake.session_hash == session_digest("case-1", b"k" * 32) != session_digest("case-1")
    assert intake.summary == f"session={intake.session_hash}"


@pytest.mark.parametrize(
    "error, status",
    [
        (None, "completed"),
        (ValueError("ines@example.org"), "error:ValueError"),
        (asyncio.CancelledError(), "cancelled"),
        (KeyboardInterrupt(), "cancelled"),
        (GeneratorExit(), "cancelled"),
        (RunCancelled("x"), "cancelled"),
        (TurnRefused("x"), "refused"),
        (PolicyDenied("x"), "refused"),
        (type("odd name", (Exception,), {})(), "error:error"),
    ],
    ids=repr,
)
def test_the_status_of_a_turn_that_was_left_by(error, status):
    assert status_of(error) == status


def test_what_leaves_the_block_goes_on_and_is_the_status():
    made = journals()
    with pytest.raises(ValueError, match="wrong"), made.begin("support") as turn:
        raise ValueError("wrong")
    assert stages(written(made, turn.turn_id))[-1] == "COMMIT status=error:ValueError"


def test_a_turn_commits_once():
    made = journals()
    with made.begin("support") as turn:
        turn.commit("refused")
        turn.commit("completed")
    assert stages(written(made, turn.turn_id)) == ["INTAKE", "COMMIT status=refused"]


def test_of_many_threads_that_commit_one_turn_one_does():
    made = journals()
    turn = made.begin("support")
    gate = threading.Barrier(8)

    def work():
        gate.wait(60)
        turn.commit()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert stages(written(made, turn.turn_id)) == ["INTAKE", "COMMIT status=completed"]
    assert turn.committed


def test_a_status_that_is_none_of_the_four_is_an_errors():
    made = journals()
    turn = made.begin("support")
    turn.commit("weird status=ok")
    assert stages(written(made, turn.turn_id))[-1] == "COMMIT status=error:error"


def test_the_current_turn_is_the_one_whose_block_this_is():
    made = journals()
    assert current_turn() is None
    with made.begin("support") as outer:
        assert current_turn() is outer
        with made.begin("research") as inner:
            assert current_turn() is inner
        assert current_turn() is outer
    assert current_turn() is None


def test_a_turn_inside_another_names_it_and_has_a_session_of_its_own():
    made = journals()
    with made.begin("support", session="case-1") as outer, made.begin("research") as inner:
        pass
    child, parent = written(made, inner.turn_id)[0], written(made, outer.turn_id)[0]
    assert child.summary == f"session={child.session_hash} parent={outer.turn_id}"
    assert child.session_hash != parent.session_hash


async def in_a_task(made):
    async with made.begin("support", message="m") as turn:
        turn.answer("a")
    return turn


def test_an_async_block_is_the_same():
    made = journals()
    turn = asyncio.run(in_a_task(made))
    assert stages(written(made, turn.turn_id)) == ["INTAKE", "COMMIT status=completed"]


def test_a_failover_is_two_attempts_of_one_turn():
    made = journals()
    with made.begin("support", message="m") as turn:
        turn.failed_over(ConnectionError("down"), "m")
        turn.answer("a")
    events = written(made, turn.turn_id)
    assert [event.type for event in events] == ["INTAKE", "COMMIT", "INTAKE", "COMMIT"]
    assert stages(events)[1] == "COMMIT status=error:ConnectionError"
    assert events[2].summary.endswith("attempt=2")
    (info,) = made.journal.turns("default")
    assert (info.status, info.attempts) == ("completed", 2)


def test_what_was_decided_stands_in_the_first_events_of_the_turn_that_goes_on():
    made = journals()
    with made.begin("support", decided={"apr-7": "completed", "apr-8": "denied"}) as turn:
        turn.guard("tone", "pass")
    assert stages(written(made, turn.turn_id))[:3] == [
        "INTAKE",
        "APPROVAL decision=decided:completed request=apr-7",
        "APPROVAL decision=decided:denied request=apr-8",
    ]


def test_the_tenant_is_that_of_where_the_turn_began():
    made = journals()
    with tenant_scope("north"):
        turn = made.begin("support")
    turn.commit()
    assert len(written(made, turn.turn_id, "north")) == 2
    assert written(made, turn.turn_id) == []


def test_payloads_are_hashed_as_text_or_in_canonical_form():
    assert payload_hash("é") == sha("é")
    assert payload_hash("a\ud800") == sha("a\ufffd")
    assert payload_hash({"b": 1, "a": [1.0]}) == payload_hash({"a": [1], "b": 1}) == sha('{"a":[1],"b":1}')
    assert payload_hash(object()) is None
    assert payload_hash(None) is None


# ---- off ----


@pytest.mark.parametrize(
    "made",
    [TurnJournals(MemoryJournal(), JournalSettings()), TurnJournals(None, JournalSettings(enabled=True))],
    ids=["switched off", "no journal"],
)
def test_while_it_is_off_nothing_is_wrapped_and_nothing_written(made):
    def lookup():
        return 1

    chunks = iter("ab")
    with made.begin("support", message="m") as turn:
        assert turn.tools([lookup]) == [lookup]
        assert turn.tool(lookup) is lookup
        assert turn.model(lookup, provider="a", model="b") is lookup
        assert turn.stream(chunks) is chunks
        turn.guard("g", "pass")
        turn.failed_over(ValueError(), "m")
        assert current_turn() is None
    assert made.headers(turn) == {}
    assert made.journal is None or made.journal.turns("default") == []


def test_the_header_says_which_turn_it_was():
    made = journals()
    turn = made.begin("support")
    assert made.headers(turn) == {"X-Journal-Turn-Id": turn.turn_id}


# ---- starting, abandoned turns ----


def test_switched_on_without_a_journal_is_an_error_in_the_log(caplog):
    TurnJournals(None, JournalSettings(enabled=True)).check_start()
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_switched_on_without_a_journal_fails_a_strict_start():
    with pytest.raises(ConfigInvalid):
        TurnJournals(None, JournalSettings(enabled=True, strict=True)).check_start()


@pytest.mark.parametrize(
    "settings", [JournalSettings(strict=True), JournalSettings(enabled=True, strict=True)]
)
def test_a_start_with_nothing_missing_says_nothing(settings, caplog):
    TurnJournals(MemoryJournal(), settings).check_start()
    assert caplog.records == []


def test_a_turn_left_open_is_ended_by_whoever_looks():
    now = [NOW_MS]
    made = journals(now_ms=lambda: now[0])
    turn = made.begin("support")
    written(made, turn.turn_id)
    assert made.abandon(60_000) == []
    now[0] += 60_001
    assert made.abandon(60_000) == [turn.turn_id]
    assert made.abandon(60_000) == []
    assert [info.status for info in made.journal.turns("default")] == ["error:abandoned"]
    turn.commit()
    written(made, turn.turn_id)
    assert [info.status for info in made.journal.turns("default")] == ["completed"]


def test_settings_are_read_with_either_kind_of_name():
    assert JournalSettings.read({"enabled": True, "max-list": 5}) == JournalSettings(True, 5, False)


@pytest.mark.parametrize(
    "members", [{"enable": True}, {"enabled": 1}, {"max_list": True}, {"max_list": 0}], ids=repr
)
def test_settings_that_are_wrong_are_named(members):
    with pytest.raises(ConfigInvalid):
        JournalSettings.read(members)
