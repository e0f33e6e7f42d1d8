"""A ledger moves to another place or engine: whole, with its id and keys, and there are never two that go on."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from contextlib import nullcontext

import pytest

import counterfoil
from counterfoil.adapters.sqlite.packing import plain_header
from counterfoil.client import copying
from counterfoil.client.copying import copy_ledger
from counterfoil.errors import (
    ChainBroken,
    ConfigInvalid,
    CopyUnfinished,
    CounterfoilError,
    InvalidForm,
    LedgerMoved,
    StoreBusy,
)
from tests.archives import converse, verified
from tests.command import Shell
from tests.scenarios.conftest import ON_SERVER, lies
from tests.servers.fixtures import schema_for


@pytest.fixture(params=["sqlite", ON_SERVER])
def target(request, tmp_path, monkeypatch):
    """Where the copy goes; nothing is there."""
    found = lies(request.param, request, tmp_path, monkeypatch)
    return tmp_path / "copy" if request.param == "sqlite" else found


@pytest.fixture
def origin(tmp_path):
    place = tmp_path / "origin"
    with counterfoil.open(place) as ledger:
        converse(ledger)
        converse(ledger, "other", "O-2")
        with counterfoil.open(place, tenant="north") as north:
            converse(north, "theirs", "O-3")
    return place


def contents(ledger):
    return {
        info.stream_id: [
            (event.type, event.hash, event.content_or_none()) for event in ledger.events(info.stream_id)
        ]
        for info in ledger.conversations()
    }


def test_the_copy_is_the_ledger_and_the_source_takes_no_appends(origin, target, tmp_path):
    artifacts = tmp_path / "objects"
    with counterfoil.open(origin) as ledger:
        ledger_id, before = ledger.id, contents(ledger)
        # A handle that is open meanwhile is refused at its next append.
        report = copy_ledger(origin, target, artifacts=artifacts)
        with pytest.raises(LedgerMoved), ledger.run("support", conversation="case-8472", message="m"):
            pass
    assert (report.ledger, report.resumed, report.artifacts) == (ledger_id, False, 3)
    with counterfoil.open(target, artifacts=artifacts) as copy:
        assert copy.id == ledger_id
        assert contents(copy) == before
        with copy.run("support", conversation="case-8472", message="m") as run:
            run.step("look", str.title, "here")
        found = verified(copy)
        assert (found.exit_code, found.rows_differ) == (0, ())
        assert "stream.adopted" not in [event.type for event in copy.events("case-8472")]
    with counterfoil.open(origin) as retired:
        assert retired.read_only
        assert contents(retired) == before
        assert verified(retired).exit_code == 0
        with pytest.raises(LedgerMoved):
            retired.run("support", conversation="case-8472", message="m")


def test_what_is_recorded_while_it_is_copied_comes_along(origin, tmp_path, monkeypatch):
    verify = copying._Copy._verify

    def meanwhile(self):
        verify(self)
        with counterfoil.open(origin) as ledger:
            converse(ledger, "late", "O-4")

    monkeypatch.setattr(copying._Copy, "_verify", meanwhile)
    copy_ledger(origin, tmp_path / "copy")
    with counterfoil.open(tmp_path / "copy") as copy:
        assert [row["state"] for row in copy.effects(stream="late")] == ["succeeded"]
        assert verified(copy).exit_code == 0


STEPS = [
    "_begin",
    "copy_streams",
    "copy_keys",
    "_objects",
    "_verify",
    "_retire",
    "copy_companions",
    "_finish",
]


# After the last step the copy is done.
KILLS = [(step, when) for step in STEPS for when in ("before", "after")][:-1]


@pytest.mark.parametrize("step, when", KILLS)
def test_killed_at_any_step_it_goes_on_and_nobody_writes_meanwhile(origin, tmp_path, monkeypatch, step, when):
    class Killed(BaseException):
        pass

    owner = copying._Copy if step.startswith("_") else copying
    real = getattr(owner, step)

    def dying(*args, **how):
        if when == "after":
            real(*args, **how)
        raise Killed

    place = tmp_path / "copy"
    with monkeypatch.context() as patch:
        patch.setattr(owner, step, dying)
        with pytest.raises(Killed):
            copy_ledger(origin, place)
    if (step, when) != ("_begin", "before"):
        with counterfoil.open(place) as half:
            assert half.read_only
            with pytest.raises(CopyUnfinished):
                half.run("support", conversation="x", message="m")
    report = copy_ledger(origin, place)
    assert report.resumed == ((step, when) != ("_begin", "before"))
    with counterfoil.open(place) as copy, counterfoil.open(origin) as retired:
        assert contents(copy) == contents(retired)
        found = verified(copy)
        assert (found.exit_code, found.rows_differ) == (0, ())


def test_small_steps_end_at_the_same_place(origin, tmp_path, monkeypatch):
    monkeypatch.setattr("counterfoil.archive.copying.EVENTS_PER_LOAD", 3)
    copy_ledger(origin, tmp_path / "copy")
    with counterfoil.open(tmp_path / "copy") as copy:
        assert verified(copy).exit_code == 0


def test_a_place_that_holds_something_is_no_target(origin, tmp_path):
    with counterfoil.open(tmp_path / "taken") as taken:
        converse(taken, "mine", "O-9")
        before = contents(taken)
    for place in (tmp_path / "taken", origin):
        with pytest.raises(InvalidForm, match="not empty"):
            copy_ledger(origin, place)
    with counterfoil.open(tmp_path / "taken") as taken, counterfoil.open(origin) as source:
        assert contents(taken) == before
        assert not source.read_only


def test_run_again_when_it_is_done_it_says_so_and_changes_nothing(origin, target, tmp_path):
    artifacts = tmp_path / "objects"
    first = copy_ledger(origin, target, artifacts=artifacts)
    with counterfoil.open(target, artifacts=artifacts) as copy:
        with copy.run("support", conversation="case-8472", message="m") as run:
            run.step("look", str.title, "here")
        before = contents(copy)
    again = copy_ledger(origin, target, artifacts=artifacts)
    assert (first.already, again.already) == (False, True)
    assert (again.ledger, again.streams, again.events) == (first.ledger, first.streams, first.events)
    assert (again.keys, again.artifacts, again.companions) == (0, 0, 0)
    with counterfoil.open(target, artifacts=artifacts) as copy:
        assert contents(copy) == before


def test_the_command_run_again_says_that_it_is_copied_already(origin, tmp_path):
    shell = Shell(tmp_path)
    words = ("copy", str(origin), str(tmp_path / "copy"))
    assert shell(*words, ledger=False).code == 0
    again = shell(*words, ledger=False)
    assert (again.code, "already copied" in again.out) == (0, True)
    assert shell(*words, "--json", ledger=False).json["already"] is True
    # To another place it does not go a second time.
    elsewhere = shell("copy", str(origin), str(tmp_path / "other"), ledger=False)
    assert (elsewhere.code, "goes on there" in " ".join(elsewhere.err.split())) == (4, True)


def test_a_copy_that_lost_what_it_was_given_is_none(origin, tmp_path):
    copy_ledger(origin, tmp_path / "copy")
    raw = sqlite3.connect(tmp_path / "copy" / "ledger.db")
    for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        raw.execute(f"DROP TRIGGER {name}")
    (last,) = raw.execute("SELECT max(position) FROM event WHERE event_type = 'run.finished'").fetchone()
    raw.execute("DELETE FROM event WHERE position = ?", (last,))
    raw.commit()
    raw.close()
    with pytest.raises(ChainBroken):
        copy_ledger(origin, tmp_path / "copy")


def test_a_damaged_ledger_is_not_retired(origin, tmp_path):
    raw = sqlite3.connect(origin / "ledger.db")
    raw.create_function("plain", 1, plain_header)
    for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        raw.execute(f"DROP TRIGGER {name}")
    raw.execute(
        "UPDATE event SET header = CAST(replace(CAST(plain(header) AS TEXT), 'run.finished', 'run.finishes') AS BLOB) WHERE event_type = 'run.finished'"
    )
    raw.commit()
    raw.close()
    with pytest.raises(ChainBroken):
        copy_ledger(origin, tmp_path / "copy")
    with counterfoil.open(origin) as ledger:
        assert not ledger.read_only


def test_killed_for_good_it_is_run_again_and_loses_nothing(origin, tmp_path):
    place = tmp_path / "copy"
    script = "import sys; from counterfoil.client.copying import copy_ledger; copy_ledger(*sys.argv[1:])"
    with counterfoil.open(origin) as ledger:
        before = contents(ledger)
    for looked_at in ("ledger.db", "keys.db", "artifacts"):
        process = subprocess.Popen([sys.executable, "-c", script, str(origin), str(place)])
        while process.poll() is None and not (place / looked_at).exists():
            time.sleep(0.001)  # sleeps because another process is watched, which gives no signal
        process.kill()
        process.wait()
    if CopyUnfinished is type(refusal_of(place)):
        copy_ledger(origin, place)
    with counterfoil.open(place) as copy:
        assert contents(copy) == before
        assert (verified(copy).exit_code, copy.read_only) == (0, False)


class Killed(BaseException):
    """Stands for the end of the process."""


def begun(origin, place, monkeypatch):
    """A copy that was killed before its source was retired."""

    def dying(self):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(copying._Copy, "_verify", dying)
        with pytest.raises(Killed):
            copy_ledger(origin, place)


def test_a_copy_that_was_begun_never_opens_once_the_source_went_elsewhere(origin, tmp_path, monkeypatch):
    begun(origin, tmp_path / "first", monkeypatch)
    copy_ledger(origin, tmp_path / "second")
    with pytest.raises(LedgerMoved, match="second") as refused:
        copy_ledger(origin, tmp_path / "first")
    assert "remove it" in refused.value.hint
    assert type(refusal_of(tmp_path / "first")) is CopyUnfinished
    assert refusal_of(tmp_path / "second") is None


def test_a_copy_goes_on_under_another_name_of_its_place(origin, tmp_path, monkeypatch):
    def dying(self):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(copying._Copy, "_finish", dying)
        with pytest.raises(Killed):
            copy_ledger(origin, tmp_path / "copy")
    (tmp_path / "copy").rename(tmp_path / "renamed")
    assert copy_ledger(origin, tmp_path / "renamed").resumed
    assert refusal_of(tmp_path / "renamed") is None


@pytest.mark.parametrize("second", ["copy", "other"])
def test_of_two_copies_at_once_one_is_refused_and_touches_nothing(origin, tmp_path, monkeypatch, second):
    verify, refused = copying._Copy._verify, []

    def meanwhile(self):
        with pytest.raises(StoreBusy, match="another copy is at work") as busy:
            copy_ledger(origin, tmp_path / second)
        refused.append(busy)
        verify(self)

    monkeypatch.setattr(copying._Copy, "_verify", meanwhile)
    copy_ledger(origin, tmp_path / "copy")
    assert len(refused) == 1
    assert refusal_of(tmp_path / "copy") is None
    assert not (tmp_path / "other").exists()


def test_a_copy_that_another_one_ended_keeps_the_keys_that_it_minted_since(origin, tmp_path, monkeypatch):
    """Where nothing is locked, as between two servers."""
    place, begin = tmp_path / "copy", copying._Copy._begin
    monkeypatch.setattr(copying, "_alone", nullcontext)

    def overtaken(self):
        found = begin(self)
        monkeypatch.setattr(copying._Copy, "_begin", begin)
        copy_ledger(origin, place)
        with counterfoil.open(place) as copy:
            converse(copy, "since", "O-9")
        return found

    monkeypatch.setattr(copying._Copy, "_begin", overtaken)
    with pytest.raises(CounterfoilError):
        copy_ledger(origin, place)
    with counterfoil.open(place) as copy:
        assert [row["state"] for row in copy.effects(stream="since")] == ["succeeded"]
        assert all(content is not None for _, _, content in contents(copy)[copy.stream_named("since")])
        assert verified(copy).exit_code == 0
    assert copy_ledger(origin, place).already


def test_of_a_retired_source_nothing_is_begun(origin, tmp_path):
    copy_ledger(origin, tmp_path / "copy")
    with pytest.raises(LedgerMoved):
        copy_ledger(origin, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def refusal_of(place):
    with counterfoil.open(place) as ledger:
        try:
            ledger.check_writable()
        except CounterfoilError as error:
            return error
    return None


@pytest.mark.postgres
def test_out_of_a_server_it_comes_with_its_artifacts_or_is_not_begun(cluster, target, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    server, objects = cluster.url(schema=schema_for(tmp_path / "server")), tmp_path / "there"
    with counterfoil.open(server, artifacts=objects) as ledger:
        converse(ledger)
        converse(ledger, "other", "O-2")
        ledger_id, before = ledger.id, contents(ledger)
    with pytest.raises(ConfigInvalid, match="artifacts"):
        copy_ledger(server, target, artifacts=tmp_path / "here")
    with counterfoil.open(server) as ledger:
        assert not ledger.read_only
    report = copy_ledger(server, target, artifacts=tmp_path / "here", source_artifacts=objects)
    assert (report.ledger, report.artifacts, report.resumed) == (ledger_id, 2, False)
    with counterfoil.open(target, artifacts=tmp_path / "here") as copy, counterfoil.open(server) as retired:
        assert contents(copy) == before
        with copy.run("support", conversation="case-8472", message="m") as run:
            run.step("look", str.title, "here")
        found = verified(copy)
        assert (found.exit_code, found.rows_differ) == (0, ())
        assert retired.read_only


def test_without_the_place_of_its_artifacts_a_ledger_is_not_retired(tmp_path):
    place, objects = tmp_path / "origin", tmp_path / "elsewhere"
    with counterfoil.open(place, artifacts=objects) as ledger:
        converse(ledger)
    with pytest.raises(ChainBroken, match="content_missing"):
        copy_ledger(place, tmp_path / "copy")
    with counterfoil.open(place, artifacts=objects) as ledger:
        assert not ledger.read_only
    assert copy_ledger(place, tmp_path / "copy", source_artifacts=objects).artifacts == 1
    with counterfoil.open(tmp_path / "copy") as copy:
        assert verified(copy).exit_code == 0
