"""What an effect and a resumption are held against: the same statements, the same by hand, and the same by DBOS."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from counterfoil.bench import by_hand, resumed
from counterfoil.bench import resume as resume_bench
from counterfoil.bench.floor import Replay
from counterfoil.bench.means import Means, Peers
from counterfoil.bench.pair import effect_pair, two_appends
from counterfoil.bench.raw import RawChain
from counterfoil.bench.rounds import Scale, timed
from counterfoil.errors import InputError
from tools.tree import ROOT

LEAST = Scale(0.004)
TABLES = ("event", "event_content", "row_effects", "row_effect_keys")

PEER = """
import json, sys
durable = {durable} if "begin" in sys.argv else {{}}
print(json.dumps({{"processor": 2.0, "live": 1, "peer": "dbos 0", "durable": durable}}))
"""
FULL = {"engine": "sqlite", "synchronous": 2, "journal_mode": "delete"}


def rows(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


# ---- an effect -------------------------------------------------------------------------------------------------------


def test_statements_that_are_replayed_leave_what_the_effects_left(tmp_path: Path):
    replay = Replay(tmp_path, effects=3)
    before = {table: rows(replay.path, table) for table in TABLES}
    replay.perform(3)
    after = {table: rows(replay.path, table) for table in TABLES}
    replay.close()
    recorded = {table: rows(tmp_path / "recorded" / "ledger.db", table) for table in TABLES}
    assert {table: after[table] - before[table] for table in TABLES} == dict(
        zip(TABLES, (6, 6, 3, 3), strict=True)
    )
    assert after["row_effects"] == recorded["row_effects"]


def test_an_effect_that_is_replayed_is_two_transactions_and_nothing_is_left_open(tmp_path: Path):
    replay = Replay(tmp_path, effects=1)
    said = [sql.split()[0] for sql, _, _ in replay._effects[0]]
    replay.perform(1)
    open_still = replay.db.in_transaction
    replay.close()
    assert (said.count("BEGIN"), said.count("COMMIT"), open_still) == (2, 2, False)


def test_a_copy_that_is_written_again_waits_for_the_disk_as_the_ledger_does(tmp_path: Path):
    replay = Replay(tmp_path, effects=1)
    (synchronous,) = replay.db.execute("PRAGMA synchronous").fetchone()
    (mode,) = replay.db.execute("PRAGMA journal_mode").fetchone()
    replay.close()
    assert (synchronous, mode) == (2, "wal")


def test_two_appends_by_hand_are_two_events_and_one_row(tmp_path: Path):
    chain = RawChain(tmp_path)
    timed(two_appends(chain), 3)
    chain.close()
    assert (rows(tmp_path / "raw.db", "event"), rows(tmp_path / "raw.db", "effects")) == (6, 3)


def test_an_effect_is_told_with_both_floors_and_only_it_has_a_budget(tmp_path: Path):
    figures = {figure.name: figure for figure in effect_pair(LEAST, tmp_path)}
    assert {"effect.pair", "effect.floor", "effect.hand", "effect.plain"} <= figures.keys()
    assert [name for name, figure in figures.items() if figure.budget is not None] == ["effect.pair"]


# ---- a resumption ----------------------------------------------------------------------------------------------------


def test_the_step_by_hand_and_of_the_peer_comes_to_what_ours_comes_to():
    script = (ROOT / "benchmarks" / "peers" / "resumed_dbos.py").read_text("utf-8")
    assert by_hand.result_of(7) == resumed.result_of(7)
    assert f"TEXT_BYTES = {resumed.TEXT_BYTES}\n" in script
    assert 'return {"number": number, "text": "x" * TEXT_BYTES}' in script


def test_a_step_by_hand_that_was_changed_is_not_handed_out():
    cipher = by_hand.AESGCM(by_hand.KEY)
    row = by_hand.sealed(cipher, 3)
    assert by_hand.opened(cipher, 3, row) == by_hand.result_of(3)
    with pytest.raises(AssertionError, match="step 4 is not the one"):
        by_hand.opened(cipher, 4, row)
    with pytest.raises(AssertionError, match="step 3 is not the one"):
        by_hand.opened(cipher, 3, (*row[:3], row[3][:-1] + bytes([row[3][-1] ^ 1])))


def test_the_program_by_hand_imports_nothing_of_ours():
    source = Path(by_hand.__file__).read_text("utf-8")
    assert not any(
        line.startswith(("import counterfoil", "from counterfoil")) for line in source.splitlines()
    )


def peers(place: Path, **durable) -> Peers:
    place.mkdir()
    (place / "resumed_dbos.py").write_text(PEER.format(durable=FULL | durable), "utf-8")
    return Peers(place, Path(sys.executable))


def test_a_resumption_is_held_against_the_peer_with_the_budget_that_the_design_implies(tmp_path: Path):
    found = peers(tmp_path / "peers")
    figures = {figure.name: figure for figure in resume_bench.resumed(LEAST, tmp_path, Means(peers=found))}
    assert figures["resume.dbos"].budget == resume_bench.Budget(at_least=4.4)
    assert figures["resume.time"].budget == resume_bench.Budget(at_most=1.0)
    assert figures["resume.hand"].budget is None
    assert figures["resume.dbos.processor"].value == 2.0
    assert found.told == [{"peer": "dbos 0"} | FULL]


def test_a_peer_whose_steps_do_not_wait_for_the_disk_is_not_resumed_beside_ours(tmp_path: Path):
    found = peers(tmp_path / "peers", synchronous=1)
    with pytest.raises(InputError, match="not durable is not compared"):
        resume_bench.resumed(LEAST, tmp_path, Means(peers=found))
