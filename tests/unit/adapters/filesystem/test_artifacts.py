"""Artifacts as files: modes, what may lie in an object's place, leftovers, and faults of the system."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import subprocess
import sys
import time

import pytest

from counterfoil.adapters.filesystem.artifacts import FileArtifacts
from counterfoil.errors import ArtifactUnavailable, ConfigInvalid, StoreFull, StoreIO, StoreReadOnly


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "artifacts"


@pytest.fixture
def artifacts(directory):
    return FileArtifacts(directory)


def put(artifacts, data=b"some bytes"):
    with artifacts.upload() as upload:
        upload.write(data)
        return upload.commit()


def place_of(directory, name):
    return directory / name[:2] / name


def got(artifacts, name):
    return b"".join(artifacts.read(name))


def failing(monkeypatch, call, number, after=0):
    """Let a call of the system fail, from its ``after``-th next use on."""
    real, left = getattr(os, call), [after]

    def fail(*args, **options):
        if left[0]:
            left[0] -= 1
            return real(*args, **options)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, fail)


def test_nothing_is_made_before_the_first_object(artifacts, directory):
    assert artifacts.names() == []
    assert artifacts.sweep(0) == 0
    assert not directory.exists()


def test_only_the_owner_can_read(artifacts, directory):
    name = put(artifacts)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (directory, place_of(directory, name).parent)}
    assert modes == {0o700}
    assert stat.S_IMODE(place_of(directory, name).stat().st_mode) == 0o600


def test_bytes_are_on_disk_before_they_get_their_name_and_the_name_before_the_answer(
    artifacts, directory, monkeypatch
):
    put(artifacts, b"so that the directories are there")
    done = []
    real_sync, real_replace = os.fsync, os.replace
    kinds = {True: "sync directory", False: "sync file"}
    monkeypatch.setattr(
        os,
        "fsync",
        lambda handle: (done.append(kinds[stat.S_ISDIR(os.fstat(handle).st_mode)]), real_sync(handle))[1],
    )
    monkeypatch.setattr(os, "replace", lambda *args: (done.append("name"), real_replace(*args))[1])
    name = put(artifacts)
    assert done == ["sync file", "name", "sync directory", "sync directory"]
    assert place_of(directory, name).exists()


def test_storing_the_same_bytes_again_mends_a_damaged_object(artifacts, directory):
    name = put(artifacts)
    place_of(directory, name).write_bytes(b"other byte")
    assert put(artifacts) == name
    assert got(artifacts, name) == b"some bytes"


def test_an_object_is_read_as_it_lies_there_whatever_its_name(artifacts, directory):
    name = put(artifacts)
    place_of(directory, name).write_bytes(b"changed")
    assert got(artifacts, name) == b"changed"


# ---- what may lie in an object's place -------------------------------------------------------------------------------


def test_a_link_in_an_objects_place_is_not_followed(artifacts, directory, tmp_path):
    name = put(artifacts)
    secret = tmp_path / "secret"
    secret.write_bytes(b"somebody else's")
    place_of(directory, name).unlink()
    place_of(directory, name).symlink_to(secret)
    with pytest.raises(ArtifactUnavailable, match="no plain file"):
        got(artifacts, name)
    assert artifacts.size(name) is None


def test_storing_over_a_link_replaces_the_link_and_not_what_it_points_to(artifacts, directory, tmp_path):
    name = put(artifacts)
    secret = tmp_path / "secret"
    secret.write_bytes(b"somebody else's")
    place_of(directory, name).unlink()
    place_of(directory, name).symlink_to(secret)
    put(artifacts)
    assert (got(artifacts, name), secret.read_bytes()) == (b"some bytes", b"somebody else's")


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["directory", "pipe"])
def test_what_is_no_file_is_missing_and_hangs_nobody(artifacts, directory, make):
    name = hashlib.sha256(b"x").hexdigest()
    place_of(directory, name).parent.mkdir(parents=True)
    make(place_of(directory, name))
    with pytest.raises((ArtifactUnavailable, StoreIO)):
        got(artifacts, name)
    assert artifacts.size(name) is None


def test_files_that_are_no_objects_are_not_listed(artifacts, directory):
    name = put(artifacts)
    (directory / "notes.txt").write_text("by hand")
    (place_of(directory, name).parent / "README").write_text("by hand")
    assert artifacts.names() == [name]


def test_a_file_where_the_directory_should_be_is_said(directory):
    directory.write_bytes(b"")
    with pytest.raises((ConfigInvalid, StoreIO)):
        FileArtifacts(directory).upload()


# ---- leftovers -------------------------------------------------------------------------------------------------------


def test_what_a_killed_upload_left_is_swept_when_it_is_old(artifacts, directory):
    upload = artifacts.upload()
    upload.write(b"half")
    (left,) = (directory / "incoming").iterdir()
    assert artifacts.sweep(3600) == 0
    old = time.time() - 7200
    os.utime(left, (old, old))
    assert artifacts.sweep(3600) == 1
    assert list((directory / "incoming").iterdir()) == []
    assert artifacts.names() == []


def test_what_is_under_way_is_never_an_object(artifacts, directory):
    upload = artifacts.upload()
    upload.write(b"half")
    assert artifacts.names() == []
    upload.discard()
    assert list((directory / "incoming").iterdir()) == []


# ---- faults of the system --------------------------------------------------------------------------------------------

ERRORS = [
    (errno.ENOSPC, StoreFull),
    (errno.EDQUOT, StoreFull),
    (errno.EIO, StoreIO),
    (errno.EROFS, StoreReadOnly),
    (errno.EACCES, StoreReadOnly),
]


@pytest.mark.parametrize("number, error", ERRORS, ids=[errno.errorcode[number] for number, _ in ERRORS])
@pytest.mark.parametrize(
    "call, after", [("write", 0), ("write", 1), ("fsync", 0), ("fsync", 1), ("replace", 0)]
)
def test_a_fault_has_its_error_and_leaves_nothing_under_way(
    artifacts, directory, monkeypatch, number, error, call, after
):
    put(artifacts, b"so that the directories are there")
    before = artifacts.names()
    with monkeypatch.context() as patch, pytest.raises(error) as raised:
        failing(patch, call, number, after)
        with artifacts.upload() as upload:
            upload.write(b"some")
            upload.write(b" bytes")
            upload.commit()
    assert raised.value.path
    assert list((directory / "incoming").iterdir()) == []
    # Where the bytes were durable and named already it may be there after all; never anything else.
    assert artifacts.names() in (before, sorted([*before, hashlib.sha256(b"some bytes").hexdigest()]))
    assert put(artifacts) in artifacts.names()


def test_a_write_that_takes_only_a_part_goes_on_with_the_rest(artifacts, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, data[:3]))
    assert got(artifacts, put(artifacts)) == b"some bytes"


def test_an_object_that_cannot_be_read_is_an_error_and_no_end(artifacts, monkeypatch):
    name = put(artifacts)
    failing(monkeypatch, "read", errno.EIO)
    with pytest.raises(StoreIO):
        got(artifacts, name)


def test_a_store_opened_for_reading_takes_nothing(artifacts, directory):
    name = put(artifacts)
    reader = FileArtifacts(directory, read_only=True)
    assert got(reader, name) == b"some bytes"
    with pytest.raises(StoreReadOnly):
        reader.upload()


FULL = """
import resource, signal, sys
from pathlib import Path
from counterfoil.adapters.filesystem.artifacts import FileArtifacts
from counterfoil.errors import StoreFull

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
artifacts = FileArtifacts(Path(sys.argv[1]))
try:
    with artifacts.upload() as upload:
        for _ in range(10):
            upload.write(bytes(100_000))
        upload.commit()
except StoreFull as error:
    print(error.code, error.retryable, artifacts.names(), artifacts.sweep(0))
"""


@pytest.mark.processes
def test_a_file_that_the_system_lets_grow_no_more_is_a_full_store(directory):
    done = subprocess.run([sys.executable, "-c", FULL, str(directory)], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("store_full True [] 0\n", "")
