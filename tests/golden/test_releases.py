"""A ledger of each release: this version opens, verifies, folds and searches it, and goes on writing in it."""

from __future__ import annotations

import base64
import json
import zipfile
from pathlib import Path

import pytest

import counterfoil
from tests.command import Shell

GOLDEN = Path(__file__).parent
RELEASES = sorted(path.parent.name for path in GOLDEN.glob("*/ledger.zip"))


@pytest.fixture(params=RELEASES)
def release(request):
    return request.param


@pytest.fixture
def place(release, tmp_path):
    with zipfile.ZipFile(GOLDEN / release / "ledger.zip") as archive:
        archive.extractall(tmp_path / "shop")
    for path in (tmp_path / "shop").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return tmp_path / "shop"


@pytest.fixture
def expected(release):
    return json.loads((GOLDEN / release / "expected.json").read_text("utf-8"))


def heads(ledger):
    return {
        stream.stream_id: {"sequence": stream.head.sequence, "hash": stream.head.hash.hex()}
        for stream in ledger.store.streams(limit=1000)
    }


def test_there_is_one():
    assert RELEASES


@pytest.mark.parametrize("read_only", [True, False])
def test_it_opens_with_the_heads_it_had(place, expected, read_only):
    with counterfoil.open(place, read_only=read_only) as ledger:
        assert ledger.id == expected["ledger"]
        assert heads(ledger) == expected["streams"]


def test_it_verifies_with_every_record_opened(place):
    printed = Shell(place.parent)("verify", "--json")
    assert printed.code == 0


def test_its_events_fold_and_its_content_reads(place):
    with counterfoil.open(place, read_only=True) as ledger:
        for info in ledger.conversations():
            events = list(ledger.interpret(info.stream_id))
            assert {event.content_state for event in events} <= {"present", "none"}
            assert all(event.content is not None for event in events)
        pictures = [
            event.content["result"]["$bytes"]
            for event in ledger.events("case-1", types=["step.finished"])
            if isinstance(event.content.get("result"), dict)
        ]
        assert pictures == [base64.b64encode(b"x" * 5_000).decode()]


def test_its_rows_follow_from_its_events_in_this_version_too(place, expected):
    with counterfoil.open(place) as ledger:
        ledger.rebuild()
        assert [[row["run_id"], row["state"], row["terminal"]] for row in ledger.runs()] == expected["runs"]
        effects = [[row["effect_id"], row["tool"], row["state"]] for row in ledger.effects()]
        assert effects == expected["effects"]


def test_a_dedupe_key_of_it_still_means_one_run(place, expected):
    with counterfoil.open(place) as ledger:
        with ledger.run(
            "refund-agent", conversation="case-1", message="My kettle is broken.", dedupe="m-1"
        ) as run:
            assert run.id == expected["runs"][0][0]
        with ledger.run("refund-agent", conversation="case-1", message="More.", dedupe="m-9") as run:
            run.step("go on", lambda: "done")
    assert Shell(place.parent)("verify").code == 0


def test_it_is_found_by_search(place):
    with counterfoil.open(place) as ledger:
        assert {hit.event_type for hit in ledger.search("O-1042", "case-1").hits} >= {"effect.intended"}
        assert ledger.search("CAFÉ \U0001f600", "case-1").hits


def test_its_conversations_are_exported_and_come_in_elsewhere_byte_for_byte(place, tmp_path):
    with counterfoil.open(place) as ledger:
        names = [info.stream_id for info in ledger.conversations()]
        ledger.export_archive(names, tmp_path / "first.zip")
        ledger.export_archive(names, tmp_path / "again.zip")
    with counterfoil.open(tmp_path / "other") as other:
        other.import_archive(tmp_path / "first.zip")
        other.export_archive(names, tmp_path / "second.zip")
    first = (tmp_path / "first.zip").read_bytes()
    assert (tmp_path / "again.zip").read_bytes() == first
    assert (tmp_path / "second.zip").read_bytes() == first
