"""Derived rows that were lost, changed or dropped: what verify says of them, and what ``counterfoil rebuild`` mends."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from pathlib import Path

import pytest

import counterfoil
from counterfoil.client.features import FEATURES, TABLES
from counterfoil.effects.registry import own_tools
from counterfoil.errors import ContentUnavailable
from counterfoil.evidence.verify import verify
from tests.command import Shell, in_review, refunded
from tests.unit.cli.invented import words

SENT: list[str] = []


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture(autouse=True)
def _own_tools():
    SENT.clear()
    with own_tools():
        yield


def pay(shell, conversation, tenant="default"):
    """Pay order O-1 in a conversation of its own; the key is the same in all of them."""

    @counterfoil.effect(
        "pay.out",
        version="1",
        touches={"money"},
        key=lambda order, **_: order,
        doubt=counterfoil.by_review(),
    )
    def out(order, *, idempotency_key=""):
        SENT.append(f"{tenant} {order}")
        return "ok"

    with shell.open(tenant=tenant) as ledger, ledger.run("a", conversation=conversation, dedupe="1"):
        out("O-1")


def behind(shell, *statements):
    connection = sqlite3.connect(shell.place / "ledger.db")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def everything(shell, tenant="default"):
    found = {}
    with shell.open(tenant=tenant, read_only=True) as ledger:
        for table in TABLES:
            rows = ledger.store.select(table.name, limit=1000)
            found[table.name] = [
                {name: cell for name, cell in row.items() if name != "row_version"} for row in rows
            ]
    return found


LOST = ("DELETE FROM row_effect_keys", "DELETE FROM row_effects")


# ---- what verify says ----------------------------------------------------------------------------------------------


def test_verify_names_rows_that_differ_above_the_proof_and_still_proves_the_events(shell):
    refunded(shell)
    behind(shell, "UPDATE row_runs SET state = 'running'")
    done = shell("verify")
    assert done.code == 0
    assert done.out.index(
        "DERIVED ROWS DIFFER FROM THE EVENTS (runs): run `counterfoil rebuild`"
    ) < done.out.index("✓")
    assert "may be sent twice" not in done.out
    told = shell("verify", "--json").json
    assert (told["rows_differ"], told["broken"]) == (["runs"], False)
    assert [notice["kind"] for notice in told["notices"]] == ["rows_differ"]


@pytest.mark.parametrize("change", [*LOST, "UPDATE row_effects SET state = 'failed'"])
def test_verify_says_in_words_that_an_effect_could_be_sent_twice(shell, change):
    refunded(shell)
    behind(shell, change)
    assert "an effect may be sent twice" in words(shell("verify").out)
    assert "unguarded" in [notice["kind"] for notice in shell("verify", "--json").json["notices"]]


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM run_span",
        "UPDATE run_span SET run_id = 'run_x'",
        "UPDATE run_span SET from_seq = from_seq + 1",
        "INSERT INTO run_span (stream, from_seq, run_id) VALUES (1, 1000, 'run_x')",
    ],
)
def test_verify_names_an_index_that_would_hide_the_events_of_a_run(shell, change):
    refunded(shell)
    behind(shell, change)
    done = shell("verify")
    assert done.code == 0
    assert "DERIVED ROWS DIFFER FROM THE EVENTS (run_span): run `counterfoil rebuild`" in done.out
    assert shell("rebuild").code == 0
    assert shell("verify", "--json").json["rows_differ"] == []


def test_verify_says_nothing_of_rows_that_agree(shell):
    refunded(shell)
    assert "DIFFER" not in shell("verify").out
    assert shell("verify", "--json").json["rows_differ"] == []


# ---- what is mended ------------------------------------------------------------------------------------------------


def test_rows_made_again_are_those_that_were_there(shell):
    refunded(shell)
    in_review(shell)
    before = everything(shell)
    behind(shell, *(f"DELETE FROM row_{table.name}" for table in TABLES))
    done = shell("rebuild")
    assert done.code == 0
    assert everything(shell) == before
    assert shell("verify", "--json").json["rows_differ"] == []


def test_rows_that_follow_from_nothing_are_gone_after_a_rebuild(shell):
    refunded(shell)
    before = everything(shell)
    behind(
        shell,
        "INSERT INTO row_effect_keys (tenant, key_index, state, stream_id) SELECT tenant, 'x', state, stream_id"
        " FROM row_effect_keys",
        "UPDATE row_runs SET agent = 'another'",
    )
    told = shell("rebuild", "--json").json
    assert (told["rows"]["effect_keys"], told["kept"], told["left_out"]) == (1, {}, {})
    assert everything(shell) == before


def test_an_effect_whose_key_row_was_lost_is_not_sent_again_after_a_rebuild(shell):
    pay(shell, "c1")
    behind(shell, *LOST)
    assert shell("rebuild").code == 0
    pay(shell, "c2")
    assert SENT == ["default O-1"]


def test_rows_of_every_tenant_are_made_again(shell):
    pay(shell, "c1", "one")
    pay(shell, "c1", "two")
    before = everything(shell, "one")
    behind(shell, *LOST)
    assert shell("rebuild", "--tenant", "two").code == 0
    assert everything(shell, "one") == before
    pay(shell, "c2", "one")
    assert SENT == ["one O-1", "two O-1"]


def test_a_reader_cannot_rebuild_and_a_ledger_without_its_keys_says_so(shell):
    refunded(shell)
    (shell.place / "keys.db").unlink()
    done = shell("rebuild")
    assert done.code == 77
    assert "keys.db" in done.err


# ---- tables that are not there -------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["effect_keys", "runs"])
def test_a_table_that_was_dropped_is_made_again_with_its_rows_when_the_ledger_is_opened(shell, table):
    pay(shell, "c1")
    before = everything(shell)
    behind(shell, f"DROP TABLE row_{table}")
    shell.open().close()
    assert everything(shell) == before
    pay(shell, "c2")
    assert SENT == ["default O-1"]


def test_a_reader_names_a_table_that_was_dropped_and_verify_counts_its_rows_as_lacking(shell):
    refunded(shell)
    behind(shell, "DROP TABLE row_runs")
    done = shell("ls", "runs")
    assert done.code == 69
    assert "counterfoil rebuild" in done.err
    verified = shell("verify", "--json")
    runs = next(table for table in verified.json["derived"] if table["table"] == "runs")
    assert (verified.code, runs["state"], runs["lacking"]) == (0, "mismatched", 1)


def test_a_table_told_to_be_stale_is_made_again_when_the_ledger_is_opened(shell):
    refunded(shell)
    before = everything(shell)
    behind(shell, *LOST, "UPDATE row_table SET stale = 1 WHERE name = 'effect_keys'")
    shell.open().close()
    assert everything(shell) == before
    with shell.open() as ledger:
        assert ledger.store.stale_tables == frozenset()


# ---- what cannot be made -------------------------------------------------------------------------------------------


def test_rows_of_a_broken_stream_stay_as_they_are_and_the_stream_is_named(shell):
    pay(shell, "c1")
    refunded(shell)
    before = everything(shell)
    with shell.open() as ledger:
        broken = ledger.stream_of("c1")
    behind(
        shell,
        "INSERT INTO permit VALUES (1, 'permit:test')",
        "UPDATE event SET hash = zeroblob(32) WHERE event_type = 'run.started' AND stream ="
        f" (SELECT number FROM stream WHERE stream_id = '{broken}')",
        "DELETE FROM permit",
    )
    told = shell("rebuild", "--json").json
    assert list(told["left_out"]) == [broken]
    assert told["kept"]["effect_keys"] == 1
    assert everything(shell) == before
    assert f"{broken} was left as it is" in words(shell("rebuild").out)


def test_rows_made_from_content_that_cannot_be_opened_stay_as_they_are(shell):
    pay(shell, "c1")
    before = everything(shell)
    with shell.open() as ledger:
        shutil.move(shell.place / "kek", shell.directory / "kek")
        ledger.keyring.forget()
        found = ledger.rebuild()
    shutil.move(shell.directory / "kek", shell.place / "kek")
    assert found.kept["effect_keys"] == 1
    assert everything(shell) == before


def test_lost_rows_of_content_that_cannot_be_opened_are_an_error_and_nothing_changes(shell):
    pay(shell, "c1")
    behind(shell, "DROP TABLE row_effect_keys")
    connection = sqlite3.connect(shell.place / "keys.db")
    connection.execute("DELETE FROM data_key WHERE stream_id NOT LIKE 'str_0000000000%'")
    connection.commit()
    connection.close()
    with pytest.raises(ContentUnavailable) as refused:
        shell.open()
    assert refused.value.fields["table"] == "effect_keys"
    with pytest.raises(ContentUnavailable):
        shell.open()


# ---- beside writers ------------------------------------------------------------------------------------------------


def test_an_append_that_comes_during_a_rebuild_waits_for_it_and_has_its_rows(shell):
    refunded(shell)
    with shell.open() as ledger, shell.open() as other:
        began = threading.Event()

        def write():
            began.set()
            with other.run("a", conversation="meanwhile"):
                pass

        writer = threading.Thread(target=write)

        def progress(_):
            if not began.is_set():
                writer.start()
                began.wait(10)

        ledger.rebuild(progress)
        writer.join(30)
        assert [row["agent"] for row in ledger.runs("meanwhile")] == ["a"]
        report = verify(ledger.store, ledger.keyring, FEATURES, registry=ledger.registry)
        assert report.rows_differ == ()
