"""`counterfoil turns` and `counterfoil turn`: of a ledger's runs, and of a journal beside another agent."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing

import pytest

from counterfoil.adapters.sqlite.schema import PARTS_PER_EVENT
from counterfoil.cli.render.line import width as cells
from counterfoil.journal import JournalSettings, TurnJournals, open_journal
from tests.command import Shell, refunded
from tests.journals import TURN, whole
from tests.running import vanish
from tests.scenarios.test_cli_hostile import HOSTILE, check_harmless


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


@pytest.fixture
def place(tmp_path):
    """A journal with one turn."""
    path = tmp_path / "turns.db"
    with closing(open_journal(path)) as journal:
        journal.append(whole())
    return str(path)


def edit(place, statement):
    with closing(sqlite3.connect(place)) as db:
        for name in ("no_update", "no_delete", "no_replace"):
            db.execute(f"DROP TRIGGER turn_journal_{name}")
        db.execute(statement)
        db.commit()


def test_the_runs_of_a_ledger_are_listed_as_turns(shell):
    refunded(shell)
    done = shell("turns")
    assert done.code == 0
    assert "✓ completed  refund-agent" in done.out
    (info,) = shell("turns", "--json").lines
    assert (info["agentId"], info["status"]) == ("refund-agent", "completed")


def test_a_list_is_of_one_agent_and_one_session(shell):
    refunded(shell, "a")
    refunded(shell, "b")
    assert len(shell("turns", "--session", "a", "--json").lines) == 1
    assert len(shell("turns", "--agent", "refund-agent", "--limit", "1", "--json").lines) == 1
    assert shell("turns", "--agent", "nobody", "--json").out == ""


def test_an_empty_list_says_what_would_be_there(shell):
    shell.open().close()
    assert "no turns: every run of a ledger has one" in shell("turns").out


def test_a_turn_is_shown_stage_by_stage_by_its_own_id_and_its_runs(shell):
    refunded(shell)
    (info,) = shell("turns", "--json").lines
    done = shell("turn", "show", info["turnId"], width=140)
    assert done.code == 0
    assert "tool      tool=payment.refund status=ok resultSha=" in done.out
    assert "commit    status=completed" in done.out
    assert "✓ intact" in done.out
    run = info["turnId"].replace("trn_", "run_")
    assert shell("turn", "show", run, width=140).out == done.out
    answer = shell("turn", "show", run, "--json").json
    assert (answer["chainIntact"], answer["events"][0]["type"]) == (True, "INTAKE")


def test_a_ledger_that_keeps_heads_proves_more(shell):
    with shell.open(turns=True) as ledger, ledger.run("support", conversation="a", message="m") as run:
        run.finish("done")
    done = shell("turn", "verify", run.id)
    assert (done.code, "is kept in the ledger" in done.out) == (0, True)
    told = shell("turn", "verify", run.id, "--json").json
    assert (told["headKept"], told["chainIntact"], told["brokenAtSeq"]) == (True, True, None)


def test_a_ledger_that_keeps_none_says_who_checks(shell):
    refunded(shell)
    (info,) = shell("turns", "--json").lines
    assert "counterfoil verify checks the events" in shell("turn", "verify", info["turnId"], width=200).out


def test_the_journal_of_another_agent_is_listed_shown_and_verified(shell, place):
    listed = shell("turns", "--journal", place, ledger=False)
    assert TURN in listed.out
    assert "status=ok" in shell("turn", "show", TURN, "--journal", place, ledger=False).out
    done = shell("turn", "verify", TURN, "--journal", place, ledger=False)
    assert (done.code, "nothing else keeps it" in " ".join(done.out.split())) == (0, True)


@pytest.mark.parametrize(
    "words", [("turns",), ("turn", "show", TURN), ("turn", "verify", TURN)], ids=" ".join
)
def test_who_reads_a_journal_cannot_be_recorded_and_is_not_taken_as_if_it_were(shell, place, words):
    named = ("--as", "ann@example.org", "--purpose", "complaint 17")
    done = shell(*words, "--journal", place, *named, ledger=False)
    assert done.code == 64
    assert "--as is recorded in a ledger" in done.err
    assert TURN not in done.out


def test_a_session_of_a_journal_is_found_by_its_name_and_by_its_digest(shell, tmp_path):
    path = tmp_path / "turns.db"
    journals = TurnJournals(open_journal(path), JournalSettings(enabled=True))
    with journals.begin("support", session="case-1") as turn:
        pass
    journals.close()
    for session in ("case-1", journals.session_hash("case-1")):
        (info,) = shell("turns", "--session", session, "--journal", str(path), "--json", ledger=False).lines
        assert info["turnId"] == turn.turn_id


BREAKS = {
    "an edit": ("UPDATE turn_journal_event SET summary = 'tool=other status=ok' WHERE seq = 1", 1),
    "a removal": ("DELETE FROM turn_journal_event WHERE seq = 1", 1),
    "another order": (
        "UPDATE turn_journal_event SET seq = CASE seq WHEN 1 THEN 12 ELSE 11 END WHERE seq IN (1, 2)",
        1,
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_verify_names_the_first_event_that_is_reached_by(name, shell, place):
    statement, seq = BREAKS[name]
    edit(place, statement)
    done = shell("turn", "verify", TURN, "--journal", place, ledger=False)
    assert (done.code, f"✗ broken at event {seq}" in done.out) == (1, True)
    told = shell("turn", "verify", TURN, "--journal", place, "--json", ledger=False)
    assert (told.code, told.json["brokenAtSeq"]) == (1, seq)
    assert "✗ broken" in shell("turn", "show", TURN, "--journal", place, ledger=False).out


@pytest.mark.parametrize("words", [("turn", "show", "trn_none"), ("turn", "verify", TURN)], ids=" ".join)
def test_a_turn_that_is_not_there_is_told(shell, words):
    shell.open().close()
    done = shell(*words)
    assert (done.code, "turn_not_found" in done.err) == (66, True)


def test_a_journal_that_is_not_there_is_told_and_not_made(shell, tmp_path):
    done = shell("turns", "--journal", str(tmp_path / "none.db"), ledger=False)
    assert (done.code, "file_missing" in done.err) == (66, True)
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("width", [40, 80, 140])
def test_hostile_text_in_a_journal_is_shown_with_marks(shell, place, width):
    hostile = HOSTILE.replace("\ud99c", "").replace("'", "").replace("\x00", "")
    edit(
        place,
        f"UPDATE turn_journal_event SET summary = 'status={hostile}', agent_id = '{hostile}', type = '{hostile}'",
    )
    for words in (("turns",), ("turn", "show", TURN), ("turn", "verify", TURN)):
        done = shell(*words, "--journal", place, ledger=False, width=width)
        check_harmless(done.out + done.err)
        assert [line for line in done.out.splitlines() if cells(line) > width and words != ("turns",)] == []
    told = shell("turn", "show", TURN, "--journal", place, "--json", ledger=False)
    assert hostile in told.json["events"][0]["summary"]
    check_harmless(told.out)


def test_hostile_text_in_a_ledger_is_shown_with_marks(shell):
    with shell.open() as ledger, ledger.run("support", conversation=HOSTILE, message=HOSTILE) as run:
        run.ask(lambda _: HOSTILE, HOSTILE, name="m-1")
    for words in (("turns", "--session", HOSTILE), ("turn", "show", run.id), ("turn", "verify", run.id)):
        done = shell(*words)
        assert done.code == 0
        check_harmless(done.out + done.err)


@pytest.mark.parametrize("gone", [("keys.db", "kek"), ("kek",)], ids=" and ".join)
def test_without_the_keys_a_turn_is_shown_by_its_headers_and_not_called_broken(shell, gone):
    with shell.open(turns=True) as ledger, ledger.run("support", conversation="a", message="m") as run:
        run.finish("done")
    for name in gone:
        for path in shell.place.glob(f"{name}*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert run.id[4:] in shell("turns").out
    shown = shell("turn", "show", run.id)
    assert (shown.code, "commit    status=completed" in shown.out) == (0, True)
    done = shell("turn", "verify", run.id)
    assert (done.code, "is withheld" in done.out) == (77, True)


def test_in_a_narrow_terminal_a_summary_stands_below_its_stage(shell, place):
    lines = shell("turn", "show", TURN, "--journal", place, ledger=False, width=40).out.splitlines()
    assert "      tool=lookup status=ok" in lines


OF_EVENT = "(SELECT position FROM event WHERE event_type = '{event_type}')"
DAMAGE = {
    "its message": (
        "admission.accepted",
        f"UPDATE event_content SET record = zeroblob(80) WHERE slot / {PARTS_PER_EVENT} = {OF_EVENT}",
        0,
    ),
    "its head": (
        "turn.committed",
        f"UPDATE event_content SET record = zeroblob(80) WHERE slot / {PARTS_PER_EVENT} = {OF_EVENT}",
        2,
    ),
    "a header": ("run.finished", f"UPDATE event SET header = x'7b7d' WHERE position = {OF_EVENT}", None),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_turn_whose_ledger_was_changed_is_broken_at(name, shell):
    event_type, statement, seq = DAMAGE[name]
    with shell.open(turns=True) as ledger, ledger.run("support", conversation="a", message="m") as run:
        run.finish("done")
    with closing(sqlite3.connect(shell.place / "ledger.db")) as db:
        for (trigger,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f'DROP TRIGGER "{trigger}"')
        assert db.execute(statement.format(event_type=event_type)).rowcount == 1
        db.commit()
    done = shell("turn", "verify", run.id)
    assert (done.code, "✗" in done.out + done.err) == (1, True)
    if seq is not None:
        assert shell("turn", "verify", run.id, "--json").json["brokenAtSeq"] == seq


@pytest.mark.parametrize(
    "change",
    [
        "created_at_ms = 'abc'",
        "created_at_ms = created_at_ms + 0.5",
        "created_at_ms = 9000000000000000000",
        "summary = x'ff00'",
        "summary = cast(x'eda080' as text)",
        "session_hash = NULL",
    ],
)
def test_an_event_edited_into_what_nobody_writes_is_named_and_shown(shell, place, change):
    edit(place, f"UPDATE turn_journal_event SET {change} WHERE seq = 1")
    done = shell("turn", "verify", TURN, "--journal", place, "--json")
    assert (done.code, done.lines[0]["brokenAtSeq"]) == (1, 1)
    assert shell("turn", "show", TURN, "--journal", place).code == 0
    assert shell("turns", "--journal", place).code == 0


def test_heads_of_turns_are_kept_by_hand_and_by_a_worker_that_the_file_tells_to(shell, tmp_path):
    refunded(shell, "a")
    assert shell("turn", "keep", "--session", "nowhere").out == "· no head of a turn is due\n"
    (info,) = shell("turns", "--json").lines
    assert shell("turn", "keep", "--session", "a", "--json").json == {"turnId": info["turnId"]}
    assert shell("turn", "keep").out == "· no head of a turn is due\n"
    assert "is kept in the ledger" in shell("turn", "verify", info["turnId"]).out
    refunded(shell, "b")
    told = shell("worker", "--once", "--json")
    assert '"turn"' not in told.out
    (tmp_path / "counterfoil.toml").write_text("turns = true\n")
    told = shell("worker", "--once", "--json")
    assert [line["turn"]["done"] for line in told.lines if "turn" in line] == ["kept"]
    assert "head of a turn kept" not in shell("worker", "--once").out


def test_turns_that_nobody_is_at_are_given_up_by_hand(shell):
    with shell.open() as ledger:
        run_id = vanish(ledger.run("support", conversation="a", message="m"))
    shell.clock.advance(40_000)
    assert shell("turn", "abandon").out == "· no turn is left alone for so long\n"
    done = shell("turn", "abandon", "--older-than", "30", "--json")
    assert done.json == {"turnId": run_id.replace("run_", "trn_")}


def test_content_that_is_gone_is_named_and_the_rest_of_the_turn_is_still_checked(shell):
    with shell.open(turns=True) as ledger:
        with ledger.run("support", conversation="a", message="m") as run:
            run.finish("done")
        accepted = next(ledger.events("a", types=["admission.accepted"]))
        ledger.store.remove_content(accepted.stream_id, [(accepted.sequence, 0)], ground="rule")
    done = shell("turn", "verify", run.id, width=200)
    assert (done.code, "✓ intact as far as it can be read: content of events 0 (missing)" in done.out) == (
        77,
        True,
    )
    assert shell("turn", "show", run.id, "--json").json["unreadableSeqs"] == {"0": "missing"}
