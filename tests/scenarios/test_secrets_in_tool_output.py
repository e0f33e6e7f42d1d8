"""Case X4: live keys arrive as tool output. They stay on no disk in the open, in no summary, log or list; masks are seen."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import counterfoil
from counterfoil.effects.registry import own_tools
from counterfoil.journal import JournalSettings, TurnJournals, open_journal
from counterfoil.journal.redaction import MASK
from tests.command import Shell

SECRETS = {
    "provider key": "sk-ant-api03-Zk3a9Qx7mN2pLw8vTr5yBd6h",
    "token": "ghp_Zk3a9Qx7mN2pLw8vTr5yBd6hJc4s",
    "bearer": "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI0MiJ9.c2lnbmF0dXJl",
    "password": "password=hunter2hunter2",
    "e-mail": "ines.arvold@example.org",
    "card": "4111 1111 1111 1111",
    "opaque": "9fQ2mZr7Lx0Vb4Tn8Ks1Yc6W",
}
OUTPUT = "\n".join(f"{name}: {secret}" for name, secret in SECRETS.items())
PIECES = ("Zk3a9Qx7", "eyJhbGci", "hunter2", "ines.arvold", "4111 1111", "41111111", "9fQ2mZr7")


def read_environment(path):
    """What the field met: a tool that prints the environment."""
    return {"path": path, "output": OUTPUT}


def held_in_the_open(directory: Path):
    """Pieces of secrets that somebody who reads the disk finds."""
    stored = b"".join(path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file())
    return [piece for piece in PIECES if piece.encode() in stored]


def test_a_turn_journal_holds_no_secret_of_a_tools_output(tmp_path, caplog):
    journals = TurnJournals(open_journal(tmp_path / "turns.db"), JournalSettings(enabled=True))

    def broken(text):
        raise ValueError(text)

    with caplog.at_level(logging.DEBUG), journals.begin("support", message=OUTPUT, session=OUTPUT) as turn:
        turn.tool(read_environment)(OUTPUT)
        with pytest.raises(ValueError, match="provider key"):
            turn.tool(broken)(OUTPUT)
        turn.guard("secrets", "refused", reason=OUTPUT)
        for secret in SECRETS.values():
            turn.guard(secret, secret, reason=f"found {secret} here")
            turn.model_call(secret, secret)
            turn.verify(secret, ok=False)
            turn.approval_pending(secret, tool=secret)
        turn.answer(OUTPUT)
    assert journals.flush(60)
    events = journals.journal.events("default", turn.turn_id)
    journals.close()
    assert len(events) == 5 + 4 * len(SECRETS)
    assert held_in_the_open(tmp_path) == []
    assert [piece for piece in PIECES if piece in caplog.text] == []


def test_what_was_masked_is_seen_to_be_masked(tmp_path):
    journals = TurnJournals(open_journal(tmp_path / "turns.db"), JournalSettings(enabled=True))
    with journals.begin("support") as turn:
        turn.guard("secrets", "refused", reason=f"found {SECRETS['provider key']} here")
    assert journals.flush(60)
    summary = journals.journal.events("default", turn.turn_id)[1].summary
    journals.close()
    assert summary == f"guard=secrets outcome=refused reason=found_{MASK}_here"


@pytest.fixture
def shell(tmp_path):
    """A ledger in which a tool's output, a message and an answer held live keys."""
    shell = Shell(tmp_path)
    with own_tools(), shell.open(turns=True) as ledger:

        @counterfoil.effect("env.read", version="1", touches={"external"}, doubt=counterfoil.by_review())
        def read(path):
            return read_environment(path)

        with ledger.run("support", conversation="case", message=OUTPUT) as run:
            run.ask(lambda request: OUTPUT, OUTPUT, name="acme-1")
            read("/srv/env")
            run.finish(OUTPUT)
    return shell


def test_a_ledger_keeps_a_tools_output_for_those_who_may_read_it_and_in_the_open_nowhere(shell):
    with shell.open(read_only=True) as ledger:
        (observed,) = ledger.events("case", types=["effect.observed"])
        assert observed.content["result"]["output"] == OUTPUT
    assert held_in_the_open(shell.place) == []


def test_the_turn_of_a_run_shows_no_secret_on_any_way_out(shell):
    with shell.open(read_only=True) as ledger:
        (info,) = ledger.turns()
        (kept,) = ledger.events("case", types=["turn.committed"])
        assert [piece for piece in PIECES if piece in str(dict(kept.content))] == []
    for words in (("turns",), ("turn", "show", info.turn_id), ("turn", "verify", info.turn_id)):
        for form in ((), ("--json",)):
            done = shell(*words, *form)
            assert done.code == 0
            assert [piece for piece in PIECES if piece in done.out + done.err] == []
