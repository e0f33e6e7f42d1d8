"""A backup is whole while writers run, restores to a ledger that is only read, and what was sent since is found, not repeated."""

from __future__ import annotations

import io
import json
import sqlite3
import tarfile
import threading
from contextlib import closing

import pytest

import counterfoil
from counterfoil.adapters.sqlite import readers
from counterfoil.client import backup
from counterfoil.client.backup import backup_ledger
from counterfoil.client.copying import copy_ledger
from counterfoil.client.ids import UlidIds
from counterfoil.client.restoring import accept_loss, restore_backup
from counterfoil.effects.registry import own_tools
from counterfoil.errors import (
    ArchiveInvalid,
    ChainBroken,
    CounterfoilError,
    InvalidForm,
    LedgerMoved,
    LossNotAccepted,
    RunWaiting,
    StoreBusy,
    StoreFull,
)
from counterfoil.keys.file_provider import FileKeyProvider
from tests.archives import converse, verified
from tests.running import types_of
from tests.scenarios.conftest import ON_SERVER, lies

BY = {"by": "ops@example.com", "reason": "the disk is gone"}


@pytest.fixture(params=["sqlite", ON_SERVER])
def place(request, tmp_path, monkeypatch):
    found = lies(request.param, request, tmp_path, monkeypatch)
    return tmp_path / "ledger" if request.param == "sqlite" else found


def restored(tmp_path, name="again"):
    restore_backup(tmp_path / "backup", tmp_path / name)
    return tmp_path / name


def test_a_restored_ledger_is_the_one_that_was_backed_up_and_is_only_read(place, tmp_path):
    artifacts = tmp_path / "objects"
    with counterfoil.open(place, artifacts=artifacts) as ledger:
        stream_id = converse(ledger)
        before = [(event.hash, event.content_or_none()) for event in ledger.events(stream_id)]
        report = backup_ledger(place, tmp_path / "backup", artifacts=artifacts)
        ledger_id = ledger.id
    assert (report.ledger, report.artifacts) == (ledger_id, 1)
    again = restored(tmp_path)
    with counterfoil.open(again) as ledger:
        assert (ledger.id, ledger.read_only) == (ledger_id, True)
        assert [(event.hash, event.content_or_none()) for event in ledger.events("case-8472")] == before
        with pytest.raises(LossNotAccepted):
            ledger.run("support", conversation="case-8472", message="m")
    accept_loss(again, **BY)
    with counterfoil.open(again) as ledger:
        with ledger.run("support", conversation="case-8472", message="m") as run:
            run.step("look", str.title, "x")
        (event,) = ledger.events(ledger.streams.id_of("config"), types=["ledger.restored"])
        assert (event.data["taken_at"], event.data["events"]) == (report.taken_at, report.events)
        assert event.content_or_none() == BY
        assert verified(ledger).rows_differ == ()


def test_a_backup_that_is_taken_while_others_write_is_whole(tmp_path):
    place, stop, made = tmp_path / "ledger", threading.Event(), []
    counterfoil.open(place).close()

    def write(number):
        with counterfoil.open(place) as ledger:
            while not stop.is_set():
                name = f"case-{number}-{len(made)}"
                with ledger.run("a", conversation=name, message="m", subject=name) as run:
                    run.artifact(name.encode() * 100)
                made.append(name)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for writer in writers:
        writer.start()
    try:
        while len(made) < 6:
            stop.wait(0.01)
        backup_ledger(place, tmp_path / "backup")
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    with counterfoil.open(restored(tmp_path)) as ledger:
        found = verified(ledger)
        # Nothing that its events name is missing: neither a key nor an object.
        assert (found.exit_code, dict(found.kinds)) == (0, {})
        assert found.rows_differ == ()
        assert 6 <= len(ledger.conversations(limit=1000)) <= len(made)


class Provider:
    """A payment provider that pays whatever it is asked to, and keeps a book. It knows nothing of keys."""

    def __init__(self):
        self.book = []

    def tool(self, doubt):
        return counterfoil.effect(
            "payment.refund",
            version="1",
            touches={"money"},
            key=lambda order, **_: f"refund:{order}",
            doubt=doubt,
        )(self.refund)

    def refund(self, order, amount):
        self.book.append(order)
        return {"id": f"re_{order}"}

    def find(self, order, amount):
        return (
            counterfoil.Found("succeeded", {"id": f"re_{order}"})
            if order in self.book
            else counterfoil.Absent()
        )


@pytest.fixture
def provider():
    with own_tools():
        yield Provider()


def pay(place, refund, order):
    with (
        counterfoil.open(place) as ledger,
        ledger.run("a", conversation=order, message="m", dedupe=order) as run,
    ):
        return run.finish(refund(order=order, amount=4)) or run.output


def test_what_was_sent_after_the_backup_is_found_and_recorded_and_not_sent_again(tmp_path, provider):
    place, refund = tmp_path / "ledger", provider.tool(counterfoil.by_lookup(provider.find))
    pay(place, refund, "O-1")
    backup_ledger(place, tmp_path / "backup")
    pay(place, refund, "O-2")
    again = restored(tmp_path)
    accept_loss(again, **BY)
    # The queue delivers everything again, and something new.
    for order in ("O-1", "O-2", "O-3"):
        pay(again, refund, order)
    assert provider.book == ["O-1", "O-2", "O-3"]
    with counterfoil.open(again) as ledger:
        assert types_of(ledger, "O-2")[-4:] == [
            "effect.intended",
            "effect.looked_up",
            "effect.observed",
            "run.finished",
        ]
        (seen,) = [event.data for event in ledger.events("O-2", types=["effect.observed"])]
        assert (seen["outcome"], seen["source"]) == ("succeeded", "lookup")
        assert [event.data["answer"] for event in ledger.events("O-3", types=["effect.looked_up"])] == [
            "absent"
        ]


def test_where_only_a_person_can_tell_a_person_is_asked(tmp_path, provider):
    place, refund = tmp_path / "ledger", provider.tool(counterfoil.by_review())
    pay(place, refund, "O-1")
    backup_ledger(place, tmp_path / "backup")
    pay(place, refund, "O-2")
    again = restored(tmp_path)
    accept_loss(again, **BY)
    with pytest.raises(RunWaiting):
        pay(again, refund, "O-2")
    assert provider.book == ["O-1", "O-2"]


def test_when_the_time_of_looking_back_is_over_effects_are_sent_as_ever(tmp_path, provider):
    place, refund = tmp_path / "ledger", provider.tool(counterfoil.by_lookup(provider.find))
    pay(place, refund, "O-1")
    backup_ledger(place, tmp_path / "backup")
    again = restored(tmp_path)
    accept_loss(again, look_back_days=0, **BY)
    pay(again, refund, "O-2")
    with counterfoil.open(again) as ledger:
        assert "effect.looked_up" not in types_of(ledger, "O-2")


def test_a_backup_that_was_cut_or_changed_restores_nothing(tmp_path):
    with counterfoil.open(tmp_path / "ledger") as ledger:
        converse(ledger)
    backup_ledger(tmp_path / "ledger", tmp_path / "whole")
    whole = (tmp_path / "whole").read_bytes()
    for place in range(0, len(whole), len(whole) // 40):
        for bad in (whole[:place], whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]):
            (tmp_path / "backup").write_bytes(bad)
            try:
                restore_backup(tmp_path / "backup", tmp_path / "again")
            except CounterfoilError:
                assert not (tmp_path / "again").exists()
            else:
                # A bit of padding between two files, or of a header that nothing is read from, changes nothing.
                with counterfoil.open(tmp_path / "again") as ledger:
                    assert verified(ledger).exit_code == 0
                for path in sorted((tmp_path / "again").rglob("*"), reverse=True):
                    path.rmdir() if path.is_dir() else path.unlink()
                (tmp_path / "again").rmdir()
    (tmp_path / "backup").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ArchiveInvalid):
        restored(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "ledger", "whole"]


def test_nothing_is_written_over_and_a_loss_is_accepted_once(tmp_path):
    with counterfoil.open(tmp_path / "ledger") as ledger:
        converse(ledger)
    (tmp_path / "there").touch()
    with pytest.raises(InvalidForm):
        backup_ledger(tmp_path / "ledger", tmp_path / "there")
    backup_ledger(tmp_path / "ledger", tmp_path / "backup")
    again = restored(tmp_path)
    with pytest.raises(InvalidForm):
        restored(tmp_path)
    accept_loss(again, **BY)
    with pytest.raises(InvalidForm):
        accept_loss(again, **BY)
    with pytest.raises(InvalidForm):
        accept_loss(tmp_path / "ledger", **BY)


LEDGER = "ldg_01J9ZC3Y3V7W2R5T8QK4M6N0PS"
SAID = {
    "ctx": "counterfoil/backup/v1",
    "ledger": LEDGER,
    "taken_at": "2026-09-01T14:44:21.000Z",
    "streams": 1,
    "events": 1,
    "files": {},
}


def said(**members):
    return ("manifest.json", json.dumps(SAID | members).encode())


def linked(kind):
    info = tarfile.TarInfo("ledger.db")
    info.type, info.linkname = kind, "/etc/hostname"
    return info, None


def sparse():
    """A few bytes that say they are a terabyte."""
    info = tarfile.TarInfo("ledger.db")
    info.pax_headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(1 << 40), "GNU.sparse.major": "0"}
    info.size = 1
    return info, b"x"


HOSTILE = {
    "a path upwards": [("../evil", b"x")],
    "a path from the root": [("/evil", b"x")],
    "a path upwards behind a name": [("kek/../../evil", b"x")],
    "a symbolic link": [linked(tarfile.SYMTYPE)],
    "a hard link": [linked(tarfile.LNKTYPE)],
    "a pipe": [linked(tarfile.FIFOTYPE)],
    "a sparse file": [sparse()],
    "a file twice": [("ledger.db", b"x"), ("ledger.db", b"y")],
    "two manifests": [said(), said()],
    "a file behind the manifest": [said(), ("ledger.db", b"x")],
    "no manifest": [("ledger.db", b"x")],
    "no ledger": [said()],
    "a manifest that is a list": [("manifest.json", b"[]")],
    "a manifest of arrays in arrays": [("manifest.json", b"[" * 1_000_000)],
    "a manifest that is no text": [("manifest.json", b"\xff\x00")],
    "files in a list": [said(files=[])],
    "files without digests": [said(files={"ledger.db": 1})],
    "another version": [said(ctx="counterfoil/backup/v9")],
    "a ledger id that is none": [said(ledger="../x")],
    "a time that is none": [said(taken_at=7)],
    "a count below nothing": [said(events=-1)],
}


@pytest.mark.parametrize("members", HOSTILE.values(), ids=HOSTILE)
def test_a_backup_made_by_somebody_else_writes_nothing_anywhere(tmp_path, members):
    with tarfile.open(tmp_path / "backup", "w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name) if isinstance(name, str) else name
            if data is not None:
                info.size = len(data)
            tar.addfile(info, None if data is None else io.BytesIO(data))
    with pytest.raises(ArchiveInvalid):
        restored(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["backup"]


@pytest.mark.postgres
def test_a_backup_of_a_server_is_not_made_without_its_artifacts(request, tmp_path, monkeypatch):
    place = lies("postgresql", request, tmp_path, monkeypatch)
    with counterfoil.open(place, artifacts=tmp_path / "objects") as ledger:
        converse(ledger)
    with pytest.raises(ChainBroken, match="content_missing"):
        backup_ledger(place, tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


@pytest.mark.parametrize("name", ["a#1", "50%41", "what?mode=memory"])
def test_a_ledger_is_backed_up_whatever_its_directory_is_called(tmp_path, name):
    # Read as an address the second one would name this other ledger.
    with counterfoil.open(tmp_path / "50A") as other:
        converse(other)
    with counterfoil.open(tmp_path / name) as ledger:
        converse(ledger)
        ledger_id = ledger.id
    assert backup_ledger(tmp_path / name, tmp_path / "backup").ledger == ledger_id
    with counterfoil.open(restored(tmp_path)) as again:
        assert again.id == ledger_id


def test_a_ledger_on_a_disk_that_became_read_only_is_backed_up(tmp_path, monkeypatch):
    place = tmp_path / "ledger"
    with counterfoil.open(place) as ledger:
        converse(ledger)
        ledger_id = ledger.id
    # As on such a disk: nobody can make the file that readers of a log share.
    (place / "ledger.db-shm").mkdir()
    monkeypatch.setattr(readers, "writable", lambda directory: directory != place)
    assert backup_ledger(place, tmp_path / "backup").ledger == ledger_id
    monkeypatch.undo()
    assert restored(tmp_path).is_dir()


def test_a_backup_without_room_says_which_disk_is_full(tmp_path, monkeypatch):
    place = tmp_path / "ledger"
    with counterfoil.open(place) as ledger:
        converse(ledger)

    def filling(source, to):
        with closing(sqlite3.connect(to)) as copy:
            copy.execute("PRAGMA max_page_count = 2")
            copy.execute("CREATE TABLE t AS SELECT randomblob(100000)")

    monkeypatch.setattr(backup, "_copy_file", filling)
    with pytest.raises(StoreFull, match="backup"):
        backup_ledger(place, tmp_path / "backup")
    assert [path.name for path in tmp_path.iterdir()] == ["ledger"]


def test_a_ledger_that_does_not_go_on_gets_no_backup(place, tmp_path):
    """What is restored goes on: of a retired ledger that would be a second one, verified and of no use."""
    with counterfoil.open(place, artifacts=tmp_path / "objects") as ledger:
        converse(ledger)
    backup_ledger(place, tmp_path / "backup", artifacts=tmp_path / "objects")
    again = restored(tmp_path)
    with pytest.raises(LossNotAccepted):
        backup_ledger(again, tmp_path / "second")
    copy_ledger(place, tmp_path / "copy", source_artifacts=tmp_path / "objects")
    with pytest.raises(LedgerMoved):
        backup_ledger(place, tmp_path / "third", artifacts=tmp_path / "objects")
    assert not (tmp_path / "second").exists()
    assert not (tmp_path / "third").exists()


def rotated_before(monkeypatch, ledger, times):
    """Rotate, and destroy the former key, before the key-encryption keys are copied; that many times."""
    real, left = backup._put_keks, [None] * times

    def overtaken(*arguments):
        if left:
            left.pop()
            ledger.destroy_kek(ledger.rotate_keys().epoch_from)
        return real(*arguments)

    monkeypatch.setattr(backup, "_put_keks", overtaken)


def test_a_backup_opens_with_the_keys_in_it_where_these_were_rotated_meanwhile(place, tmp_path, monkeypatch):
    artifacts, keys = tmp_path / "objects", FileKeyProvider(tmp_path / "kek", UlidIds())
    with counterfoil.open(place, artifacts=artifacts, keys=keys) as ledger:
        stream_id = converse(ledger)
        before = [event.content_or_none() for event in ledger.events(stream_id)]
        rotated_before(monkeypatch, ledger, 1)
        report = backup_ledger(place, tmp_path / "backup", artifacts=artifacts, keys=keys)
    assert report.keks == 1
    with counterfoil.open(restored(tmp_path)) as ledger:
        assert [event.content_or_none() for event in ledger.events(stream_id)] == before
        assert None not in [event.content_or_none() for event in ledger.events(stream_id)]


def test_a_backup_is_given_up_where_keys_are_rotated_again_and_again(tmp_path, monkeypatch):
    with counterfoil.open(tmp_path / "ledger") as ledger:
        converse(ledger)
        rotated_before(monkeypatch, ledger, 100)
        with pytest.raises(StoreBusy, match="rotated"):
            backup_ledger(tmp_path / "ledger", tmp_path / "backup")
    assert not (tmp_path / "backup").exists()
