"""S18, half a record glued to the next: an archive cut or changed anywhere is refused, and the target stays empty."""

from __future__ import annotations

import hashlib
import os
import random

import pytest

import counterfoil
from counterfoil.archive.lines import LINE_BYTES_MAX, end_line, first_line
from counterfoil.client.archiving import KeysBy
from counterfoil.errors import ArchiveInvalid, CounterfoilError, InvalidForm, KeyWithheld, StoreIO
from tests.archives import files

FLIPS = 1500
"""Of the directory, and as many of the ZIP."""

SHARES = 4
"""A test cuts at every so many bytes, so that none takes long."""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The smallest conversation that has everything: a message, a record in two parts, an artifact."""
    place = tmp_path_factory.mktemp("small")
    with counterfoil.open(place / "ledger") as origin:
        with origin.run("a", conversation="c", message="m", subject="ann") as run:
            run.artifact(b"a letter")
        stream_id = origin.stream_of("c")
        origin.export_archive([stream_id], place / "dir")
        origin.export_archive([stream_id], place / "file.zip")
    return place


@pytest.fixture
def target():
    with counterfoil.open(":memory:") as ledger:
        yield ledger


def left(ledger):
    """What an import could leave behind, quickly looked at."""
    store = ledger.store
    heads = [(stream.stream_id, stream.head) for stream in store.streams()]
    rows = [store.select(table) for table in ("conversations", "runs", "admissions", "artifacts")]
    return heads, rows, len(ledger.keyring.store.scan()), ledger.ports.vault.store.names()


def refused(ledger, place, before):
    """The error that refuses this archive, which must leave nothing."""
    with pytest.raises(CounterfoilError) as told:
        ledger.import_archive(place)
    assert left(ledger) == before
    return told.value


def copied(small, tmp_path):
    made = tmp_path / "made"
    for name, data in files(small / "dir").items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_bytes(data)
    return made


def test_the_archives_themselves_come_in(small, target):
    target.import_archive(small / "dir")
    with counterfoil.open(":memory:") as other:
        other.import_archive(small / "file.zip")


@pytest.mark.parametrize("first", range(SHARES))
def test_a_directory_cut_at_every_byte_is_refused(first, small, tmp_path, target):
    before = left(target)
    made = copied(small, tmp_path)
    lines = (small / "dir" / "archive.jsonl").read_bytes()
    for length in range(first, len(lines), SHARES):
        (made / "archive.jsonl").write_bytes(lines[:length])
        error = refused(target, made, before)
        assert isinstance(error, ArchiveInvalid), error
        # The fault is named where it is: in the line that was cut, or where the next should begin.
        assert error.line == lines[:length].count(b"\n") + 1


@pytest.mark.parametrize("first", range(SHARES))
def test_a_file_cut_at_every_byte_is_refused(first, small, tmp_path, target):
    before = left(target)
    whole = (small / "file.zip").read_bytes()
    cut = tmp_path / "cut.zip"
    # Four bytes say that it is a ZIP at all.
    for length in range(4 + first, len(whole), SHARES):
        cut.write_bytes(whole[:length])
        assert isinstance(refused(target, cut, before), ArchiveInvalid)


def test_an_object_cut_at_every_byte_or_missing_is_refused(small, tmp_path, target):
    before, made = left(target), copied(small, tmp_path)
    (stored,) = (made / "objects").iterdir()
    whole = stored.read_bytes()
    for length in range(len(whole)):
        stored.write_bytes(whole[:length])
        refused(target, made, before)
    stored.unlink()
    assert "not there" in refused(target, made, before).message


@pytest.mark.parametrize(
    "name, told",
    [("0" * 64, f"object {'0' * 64}"), ("f" * 64, "ffff"), ("ann's letter.txt", "a file that is no object")],
)
def test_an_object_that_nothing_lists_is_refused_by_its_name(small, tmp_path, target, name, told):
    made = copied(small, tmp_path)
    (made / "objects" / name).write_bytes(b"smuggled")
    error = refused(target, made, left(target))
    assert (error.code, told in error.message, "ann" in error.message) == ("archive_invalid", True, False)
    (made / "objects" / name).unlink()
    target.import_archive(made)


def test_an_archive_without_objects_has_none_beside_it(tmp_path, target):
    with counterfoil.open(tmp_path / "ledger") as origin:
        with origin.run("a", conversation="c", message="m"):
            pass
        origin.export_archive(["c"], tmp_path / "made")
    (tmp_path / "made" / "objects").mkdir(exist_ok=True)
    (tmp_path / "made" / "objects" / ("0" * 64)).write_bytes(b"smuggled")
    assert "does not list it" in refused(target, tmp_path / "made", left(target)).message


def test_with_any_single_bit_turned_over_it_is_refused(small, tmp_path, target):
    chance, before = random.Random(8472), left(target)
    made = copied(small, tmp_path)
    parts = files(small / "dir")
    for _ in range(FLIPS):
        name = chance.choices(list(parts), [len(data) for data in parts.values()])[0]
        (made / name).write_bytes(flipped(chance, parts[name]))
        refused(target, made, before)
        (made / name).write_bytes(parts[name])
    whole, turned = (small / "file.zip").read_bytes(), tmp_path / "turned.zip"
    for _ in range(FLIPS):
        turned.write_bytes(flipped(chance, whole))
        refused(target, turned, before)


def test_some_of_both_on_disk_leave_nothing_either(small, tmp_path):
    chance = random.Random(1)
    whole, turned = (small / "file.zip").read_bytes(), tmp_path / "turned.zip"
    with counterfoil.open(tmp_path / "target") as target:
        before = left(target)
        for _ in range(40):
            turned.write_bytes(flipped(chance, whole))
            refused(target, turned, before)
            turned.write_bytes(whole[: chance.randrange(4, len(whole))])
            refused(target, turned, before)
        target.import_archive(small / "file.zip")


def flipped(chance, data):
    """The bytes with one bit turned over."""
    place = chance.randrange(len(data) * 8)
    changed = bytearray(data)
    changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


def lines_of(small):
    return (small / "dir" / "archive.jsonl").read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize(
    "change, line",
    [
        (lambda lines: [lines[0], lines[1], lines[2][:-1], *lines[3:]], 3),
        (lambda lines: [lines[0], lines[1], lines[2][:200] + lines[3], *lines[4:]], 3),
        (lambda lines: [*lines[:3], b"\n", *lines[3:]], 4),
        (lambda lines: [*lines[:3], lines[3][:-1] + b"\r\n", *lines[4:]], 4),
        (lambda lines: [b"\xef\xbb\xbf" + lines[0], *lines[1:]], 1),
        (lambda lines: [*lines[:2], lines[2].replace(b'","record"', b'" ,"record"'), *lines[3:]], 3),
        (lambda lines: [*lines[:2], lines[2].replace(b'{"content"', b'{"a":1,"content"'), *lines[3:]], 3),
        (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], 3),
        (lambda lines: [*lines[:3], lines[2], *lines[3:]], 4),
        (lambda lines: [*lines[:3], *lines[4:]], 4),
        (lambda lines: [*lines[:-1]], 10),
        (lambda lines: [*lines, lines[-1]], 11),
        (lambda lines: [*lines, b" "], 11),
        (lambda lines: [lines[0].replace(b'"streams":1', b'"streams":2'), *lines[1:]], 9),
        (lambda lines: [lines[0].replace(b"archive/v1", b"archive/v2"), *lines[1:]], 1),
    ],
    ids=[
        "two records on one line",
        "half a record glued to the next",
        "an empty line",
        "a carriage return",
        "a byte order mark",
        "white space",
        "a member too many",
        "two events exchanged",
        "an event twice",
        "an event left out",
        "the end left out",
        "the end twice",
        "something behind the end",
        "another number of streams",
        "another version",
    ],
)
def test_the_first_fault_is_named_with_its_line_and_byte(small, tmp_path, target, change, line):
    before, made = left(target), copied(small, tmp_path)
    lines = lines_of(small)
    assert len(lines) == 10
    changed = change(lines)
    (made / "archive.jsonl").write_bytes(b"".join(changed))
    error = refused(target, made, before)
    assert isinstance(error, ArchiveInvalid)
    assert error.line == line
    begins = [0]
    for one in b"".join(changed).splitlines(keepends=True):
        begins.append(begins[-1] + len(one))
    assert begins[line - 1] <= error.offset
    assert str(error.offset) in error.message


def test_an_archive_of_nothing_is_refused_and_leaves_nothing(tmp_path, target):
    before, made = left(target), tmp_path / "nothing"
    made.mkdir()
    first = first_line(0)
    end = end_line(1, hashlib.sha256(first).hexdigest())
    (made / "archive.jsonl").write_bytes(first + end)
    assert refused(target, made, before).line == 1


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 1_000_000 + b"\n",
        b'{"ctx":' * 100_000 + b"\n",
        b'{"ctx":"counterfoil/archive/v1","streams":' + b"9" * 5000 + b"}\n",
        b'{"ctx":"counterfoil/archive/v1","streams":1e999}\n',
        b"x" * (LINE_BYTES_MAX + 2),
        b"\0" * 1000,
    ],
    ids=["arrays in arrays", "objects in objects", "a huge number", "no number", "one long line", "zeros"],
)
@pytest.mark.parametrize("accept", [False, True], ids=["strict", "damage accepted"])
def test_lines_made_to_overwhelm_a_reader_are_refused(tmp_path, target, text, accept):
    before, made = left(target), tmp_path / "made"
    made.mkdir()
    (made / "archive.jsonl").write_bytes(text)
    with pytest.raises(ArchiveInvalid) as told:
        target.import_archive(made, accept_damaged=accept)
    assert told.value.line == 1
    assert left(target) == before


def test_objects_and_packages_that_are_no_files_are_neither_followed_nor_waited_for(small, tmp_path, target):
    before, made = left(target), copied(small, tmp_path)
    (stored,) = (made / "objects").iterdir()
    other = tmp_path / "other"
    other.write_bytes(b"something else")
    stored.unlink()
    stored.symlink_to(other)
    refused(target, made, before)
    stored.unlink()
    os.mkfifo(stored)
    refused(target, made, before)
    os.mkfifo(made.with_name(made.name + ".keys.json"))
    assert isinstance(refused(target, made, before), StoreIO)
    made.with_name(made.name + ".keys.json").unlink()
    (made / "archive.jsonl").unlink()
    os.mkfifo(made / "archive.jsonl")
    with pytest.raises(InvalidForm, match="not a regular file"):
        target.import_archive(made)
    assert left(target) == before


def test_a_package_that_demands_more_work_is_refused_before_any_is_done(small, tmp_path, target):
    before, made = left(target), copied(small, tmp_path)
    with counterfoil.open(small / "ledger") as origin:
        origin.export_archive(["c"], tmp_path / "keyed", keys=KeysBy(passphrase="p"))
    package = (tmp_path / "keyed.keys.json").read_bytes()
    demanding = package.replace(b'"n":131072', b'"n":1073741824')
    assert demanding != package
    made.with_name(made.name + ".keys.json").write_bytes(demanding)

    def asked():
        pytest.fail("nobody is asked for a passphrase")

    with pytest.raises(ArchiveInvalid, match="work"):
        target.import_archive(made, passphrase=asked)
    assert left(target) == before


@pytest.mark.parametrize("name", ["a.zip", "a"])
def test_what_goes_out_is_for_its_owner_alone(small, tmp_path, name):
    with counterfoil.open(small / "ledger") as origin:
        origin.export_archive(["c"], tmp_path / name, keys=KeysBy(passphrase="p"))
    for made in (tmp_path / name, tmp_path / f"{name}.keys.json"):
        assert made.stat().st_mode & 0o077 == 0


def test_an_epoch_of_another_ledger_opens_nothing_and_says_so(small, tmp_path, target):
    before = left(target)
    with counterfoil.open(small / "ledger") as origin:
        origin.export_archive(["c"], tmp_path / "a.zip", keys=KeysBy(epoch=True))
    with pytest.raises(KeyWithheld, match="not at hand here"):
        target.import_archive(tmp_path / "a.zip")
    assert left(target) == before
