"""``ledger.artifacts``: rows, names, what lies elsewhere, other tenants, and rows made again."""

from __future__ import annotations

import pytest

import counterfoil
from counterfoil.adapters.memory import MemoryArtifacts
from counterfoil.errors import ArtifactNotFound, InvalidForm, StoreReadOnly, StreamNotFound


@pytest.fixture
def place(tmp_path):
    return tmp_path / "ledger"


@pytest.fixture
def ledger(place):
    with counterfoil.open(place) as ledger:
        yield ledger


def fill(ledger, conversation="c", count=3):
    with ledger.run("a", conversation=conversation) as run:
        return run.id, [run.artifact(str(number).encode(), name=str(number)) for number in range(count)]


def test_rows_come_in_the_order_they_were_stored(ledger):
    run_id, kept = fill(ledger)
    _, others = fill(ledger, "d")
    expected = [one.sha256 for one in (*kept, *others)]
    assert [row["sha256"] for row in ledger.artifacts.rows()] == expected
    assert [row["sha256"] for row in ledger.artifacts.rows("d")] == expected[3:]
    assert [row["sha256"] for row in ledger.artifacts.rows(run_id=run_id)] == expected[:3]
    assert [row["sha256"] for row in ledger.artifacts.rows(limit=2)] == expected[:2]
    seen = ledger.artifacts.rows(limit=4)[-1]
    rest = ledger.artifacts.rows(after=(seen["stream_id"], seen["sha256"]))
    assert [row["sha256"] for row in rest] == expected[4:]


def test_spilled_values_are_rows_too_unless_they_are_not_wanted(ledger):
    with ledger.run("a", conversation="c") as run:
        run.step("large", lambda: "x" * 300_000)
    assert [row["kind"] for row in ledger.artifacts.rows()] == ["spill"]
    assert ledger.artifacts.rows(spilled=False) == []


def test_an_artifact_is_found_by_name_beginning_or_reference(ledger):
    _, (kept, *_) = fill(ledger)
    for name in (kept.sha256, kept.sha256[:6], kept.storage_ref, f"{kept.sha256[:12]}…"):
        found = ledger.artifacts.find(name)
        assert (found, found.name, found.read()) == (kept, "0", b"0")
    assert ledger.artifacts.find(kept.sha256, "c") == kept


def test_what_names_nothing_or_too_much_is_refused(ledger):
    fill(ledger)
    fill(ledger, "d")
    with pytest.raises(ArtifactNotFound):
        ledger.artifacts.find("0" * 64)
    for name in ("", "abcde", "xyzxyz", "../../../x"):
        with pytest.raises(InvalidForm):
            ledger.artifacts.find(name)
    with pytest.raises(StreamNotFound):
        ledger.artifacts.find("0" * 64, "no such conversation")


def test_a_beginning_that_fits_two_says_so(ledger, monkeypatch):
    _, kept = fill(ledger)
    monkeypatch.setattr("counterfoil.client.artifacts.PREFIX_HEX_MIN", 0)
    with pytest.raises(InvalidForm, match="3 artifacts"):
        ledger.artifacts.find("")
    assert len(kept) == 3


def test_an_artifact_of_another_conversation_is_not_found_in_this_one(ledger):
    _, (kept, *_) = fill(ledger)
    fill(ledger, "d", count=0)
    with pytest.raises(ArtifactNotFound):
        ledger.artifacts.find(kept.sha256, "d")


def test_tenants_do_not_see_each_others_artifacts(place, ledger):
    _, (kept, *_) = fill(ledger)
    with counterfoil.open(place, tenant="other") as other:
        assert other.artifacts.rows() == []
        with pytest.raises(ArtifactNotFound):
            other.artifacts.find(kept.sha256)


def test_bytes_are_kept_outside_a_run_too(ledger):
    fill(ledger, count=0)
    kept = ledger.artifacts.keep("c", b"a picture", name="photo.png", media_type="image/png", subject="ann")
    assert ledger.artifacts.find(kept.sha256).read() == b"a picture"
    (event,) = ledger.events("c", types=["artifact.stored"])
    assert (event.header.run_id, event.header.actor["type"]) == (None, "system")
    again = ledger.artifacts.keep("c", b"a picture", name="photo.png", subject="ann")
    assert again == kept
    assert len(ledger.artifacts.store.names()) == 1


def test_a_ledger_opened_for_reading_gives_and_takes_nothing(place, ledger):
    _, (kept, *_) = fill(ledger)
    with counterfoil.open(place, read_only=True) as reader:
        assert reader.artifacts.find(kept.sha256).read() == b"0"
        with pytest.raises(StoreReadOnly):
            reader.artifacts.keep("c", b"x")
        with pytest.raises(StoreReadOnly):
            reader.artifacts.sweep()


def test_artifacts_may_lie_in_another_directory_or_in_a_store_of_ones_own(place, tmp_path):
    own = MemoryArtifacts()
    for artifacts in (tmp_path / "elsewhere", own):
        with counterfoil.open(place, artifacts=artifacts) as ledger:
            _, kept = fill(ledger, count=1)
            assert kept[0].read() == b"0"
    assert (tmp_path / "elsewhere").is_dir()
    assert not (place / "artifacts").exists()
    assert own._objects


def test_rows_made_again_are_the_same(ledger):
    fill(ledger)
    with ledger.run("a", conversation="c") as run:
        run.step("large", lambda: "x" * 300_000)
        run.artifact(b"0", name="again")
    before = [{**row, "row_version": 0} for row in ledger.artifacts.rows()]
    ledger.rebuild()
    assert [{**row, "row_version": 0} for row in ledger.artifacts.rows()] == before


def test_leftovers_of_a_day_ago_are_swept(ledger, place):
    fill(ledger)
    (place / "artifacts" / "incoming" / "left").write_bytes(b"half")
    assert ledger.artifacts.sweep() == 0
    assert ledger.artifacts.sweep(0) == 1
    assert len(ledger.artifacts.rows()) == 3
