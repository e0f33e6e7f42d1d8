"""What each check of a ledger's health comes to, with clocks moved by hand."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

import counterfoil
from counterfoil.adapters.filesystem import mounts
from counterfoil.client import doctoring, place_checks, waiting_checks
from counterfoil.client.backup import backup_ledger
from counterfoil.client.copying import _Copy, copy_ledger
from counterfoil.client.finding import Finding
from counterfoil.client.restoring import accept_loss, restore_backup
from counterfoil.effects.registry import own_tools
from counterfoil.testing.manual import ManualClock
from tests.command import Shell, in_review, killed, lost, refunded


class Usage(NamedTuple):
    """What the system says of a disk."""

    total: int
    used: int
    free: int


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = Shell(tmp_path)
    with made.open():
        pass
    return made


def examined(shell: Shell) -> dict[str, Finding]:
    with shell.open(read_only=True) as ledger:
        return {each.name: each for each in ledger.doctor()}


def test_a_new_ledger_is_healthy(shell):
    assert {each.state for each in examined(shell).values()} == {"ok"}


def test_lag_and_tail_are_said(shell):
    found = examined(shell)
    assert (found["search lag"].value, found["search lag"].means) == (
        None,
        "none yet: the first search makes it",
    )
    assert (found["feed lag"].value, found["feed lag"].unit) == (0, "ms")
    assert (found["unsealed tail"].value, found["unsealed tail"].unit) == (1, "count")


def test_every_event_is_in_the_unsealed_tail_while_there_are_no_seals(shell):
    before = examined(shell)["unsealed tail"].value
    refunded(shell)
    with shell.open(read_only=True) as ledger:
        events = sum(1 for _ in ledger.events("case-8472"))
    assert examined(shell)["unsealed tail"].value >= before + events


def test_memory_has_no_directory_to_look_at():
    with counterfoil.open(":memory:", clock=ManualClock()) as ledger:
        found = {each.name: each for each in ledger.doctor()}
    assert "free space" not in found
    assert found["store"].means.startswith("forgotten with its handle")


def test_doubt_is_as_old_as_its_intention(shell):
    lost(shell)
    doubt = examined(shell)["oldest doubt"]
    assert (doubt.state, doubt.unit, doubt.do) == ("warn", "ms", "counterfoil recover")
    assert isinstance(doubt.value, int)
    assert doubt.value >= 120_000


def test_a_running_run_without_a_lease_is_counted(shell):
    killed(shell)
    stale = examined(shell)["runs without a lease"]
    assert (stale.state, stale.value) == ("warn", 1)


def test_a_call_is_in_doubt_only_when_its_worker_is_gone(shell):
    seen: list[dict[str, Finding]] = []
    with own_tools(), shell.open() as ledger, ledger.run("agent", conversation="c"):

        @counterfoil.effect(
            "look", version="1", touches={"external"}, repeatable=True, doubt=counterfoil.by_review()
        )
        def look() -> None:
            seen.append(examined(shell))
            later = ManualClock(shell.clock.now_ms() + 3_600_000)
            with counterfoil.open(shell.place, read_only=True, clock=later) as other:
                seen.append({each.name: each for each in other.doctor()})

        look()
    names = ("oldest doubt", "runs without a lease")
    assert [[found[name].state for name in names] for found in seen] == [["ok", "ok"], ["warn", "warn"]]


def test_an_open_review_has_an_age(shell):
    in_review(shell)
    shell.clock.advance(5_000)
    review = examined(shell)["oldest review"]
    assert (review.state, review.value, review.means) == ("warn", 5_000, "1 open, 0 overdue")


def test_counting_stops_and_says_so(shell, monkeypatch):
    in_review(shell)
    assert not examined(shell)["oldest review"].at_least
    monkeypatch.setattr(waiting_checks, "ROWS_MAX", 1)
    assert examined(shell)["oldest review"].at_least


def test_a_hold_is_counted(shell):
    with shell.open() as ledger:
        ledger.hold("pay", by="Ines", reason="incident")
    assert (examined(shell)["holds"].state, examined(shell)["holds"].value) == ("warn", 1)


def test_an_event_after_now_is_named(shell):
    shell.clock.set_wall(shell.clock.now_ms() - 60_000)
    newest = examined(shell)["newest event"]
    assert (newest.state, newest.value) == ("warn", -60_000)


def test_the_clock_of_a_server_that_is_away_is_named(shell):
    with shell.open(read_only=True) as ledger:
        ledger.ports.clock = ManualClock(shell.clock.now_ms() - 5_000)
        found = {each.name: each for each in ledger.doctor()}
    assert (found["clock skew"].state, found["clock skew"].value) == ("warn", 5_000)


def test_without_a_key_store_the_rest_is_still_looked_at(shell):
    in_review(shell)
    (shell.place / "keys.db").unlink()
    shutil.rmtree(shell.place / "kek")
    found = examined(shell)
    assert (found["keys"].state, found["epoch"].state, found["key files"].state) == (
        "bad",
        "unknown",
        "unknown",
    )
    assert found["oldest review"].state == "warn"


def test_keys_that_others_may_read_are_bad(shell):
    (key,) = (shell.place / "kek").iterdir()
    key.chmod(0o644)
    exposed = examined(shell)["key files"]
    assert (exposed.state, exposed.value) == ("bad", 1)


@pytest.mark.parametrize("free, state", [(1, "bad"), (place_checks.SPACE_LEAST_BYTES, "ok")])
def test_little_free_space_is_bad(shell, monkeypatch, free, state):
    monkeypatch.setattr(place_checks.shutil, "disk_usage", lambda _: Usage(free, 0, free))
    assert place_checks.space(shell.place).state == state


def test_no_room_for_a_copy_is_a_warning(shell, monkeypatch):
    least = (shell.place / "ledger.db").stat().st_size - 1
    monkeypatch.setattr(place_checks, "SPACE_LEAST_BYTES", 1)
    monkeypatch.setattr(place_checks.shutil, "disk_usage", lambda _: Usage(least, 0, least))
    assert place_checks.space(shell.place).state == "warn"


def test_a_log_that_no_checkpoint_empties_is_named(shell, monkeypatch):
    (shell.place / "ledger.db-wal").write_bytes(b"12345678")
    monkeypatch.setattr(place_checks, "WAL_MOST_BYTES", 7)
    log = place_checks.wal(shell.place)
    assert (log.state, log.value) == ("warn", 8)


@pytest.mark.parametrize("kind, state", [("nfs4", "bad"), ("ext4", "ok")])
def test_a_network_file_system_is_bad(shell, monkeypatch, kind, state):
    monkeypatch.setattr(mounts, "read_mounts", lambda: [mounts.Mount("/", kind)])
    assert place_checks.file_system(shell.place).state == state


def test_a_place_that_cannot_be_read_is_unknown(tmp_path):
    gone = tmp_path / "gone"
    assert [place_checks.space(gone).state, place_checks.kek_modes(gone).state] == ["unknown", "unknown"]


def test_artifacts_that_events_name_and_whose_folder_is_gone_are_bad(shell):
    assert examined(shell)["artifacts"].means == "none is recorded"
    with shell.open() as ledger, ledger.run("agent", conversation="c") as run:
        run.step("page", lambda: b"x" * 400_000)
    assert examined(shell)["artifacts"].state == "ok"
    shutil.rmtree(shell.place / "artifacts")
    assert examined(shell)["artifacts"].state == "bad"


def test_a_review_whose_time_is_over_is_overdue():
    row = {"opened_at_ms": 1_000, "due_at_ms": 2_000}
    late = waiting_checks._asked("oldest review", "reviews", [row], "opened_at_ms", 2_000, "do")
    in_time = waiting_checks._asked("oldest review", "reviews", [row], "opened_at_ms", 1_999, "do")
    assert (late.means, in_time.means) == ("1 open, 1 overdue", "1 open, 0 overdue")


def test_a_reader_that_stays_does_not_hinder_it(shell):
    with shell.open() as ledger, ledger.store.snapshot() as reader:
        reader.recent(1)
        assert {each.state for each in examined(shell).values()} == {"ok"}


def test_doubt_behind_more_calls_than_are_looked_at_is_unknown(shell, monkeypatch):
    seen: list[Finding] = []
    monkeypatch.setattr(waiting_checks, "ROWS_MAX", 1)
    with own_tools(), shell.open() as ledger, ledger.run("agent", conversation="c"):

        @counterfoil.effect(
            "look", version="1", touches={"external"}, repeatable=True, doubt=counterfoil.by_review()
        )
        def look() -> None:
            seen.append(examined(shell)["oldest doubt"])

        look()
    assert [each.state for each in seen] == ["unknown"]


def store_of(place: Path) -> Finding:
    with counterfoil.open(place, read_only=True) as ledger:
        return {each.name: each for each in ledger.doctor()}["store"]


def test_a_ledger_that_takes_no_appends_is_not_called_well(shell, tmp_path, monkeypatch):
    assert store_of(shell.place).state == "ok"
    backup_ledger(shell.place, tmp_path / "backup")
    again = tmp_path / "again"
    restore_backup(tmp_path / "backup", again)
    found = store_of(again)
    assert (found.state, "came out of a backup" in found.means) == ("warn", True)
    assert "--accept-loss" in found.do
    accept_loss(again, by="ops@example.com", reason="tried")
    assert store_of(again).state == "ok"

    with monkeypatch.context() as patch:
        patch.setattr(_Copy, "_verify", lambda _: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            copy_ledger(shell.place, tmp_path / "copy")
    assert "not whole yet" in store_of(tmp_path / "copy").means
    copy_ledger(shell.place, tmp_path / "copy")
    assert store_of(tmp_path / "copy").state == "ok"
    retired = store_of(shell.place)
    assert (retired.state, "goes on there" in retired.means) == ("warn", True)


def test_a_directory_that_this_user_cannot_write_is_said(shell, monkeypatch):
    monkeypatch.setattr(doctoring, "writable", lambda directory: directory != Path(shell.place))
    found = store_of(shell.place)
    assert (found.state, "cannot be written" in found.means) == ("warn", True)
