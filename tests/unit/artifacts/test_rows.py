"""Rows of artifacts: what an event makes of them, and what a call refers to."""

from __future__ import annotations

import pytest

import counterfoil
from counterfoil.artifacts.handle import address_of
from counterfoil.core.event import Draft
from counterfoil.core.forms import time_text
from counterfoil.effects.identity import binding
from counterfoil.errors import ToolInvalid
from counterfoil.flow.requests import Entry, UnitDraft

CERTIFICATE = "ers_01J9ZC3Y3V7W2R5T8QK4M6N0PA"


def test_a_row_says_class_owner_and_where_the_event_stands(ledger):
    with ledger.run("a", conversation="c") as run:
        own = run.artifact(b"own")
        ann = run.artifact(b"ann", subject="ann", classification="personal")
        everyone = run.artifact(b"public", classification="public")
    rows = {row["sha256"]: row for row in ledger.artifacts.rows("c")}
    assert [rows[one.sha256]["owner"] for one in (own, ann, everyone)] == [run.conversation, ann.key, None]
    assert [rows[one.sha256]["address"] for one in (own, ann, everyone)] == [own.address, ann.address, None]
    events = {event.sequence: event for event in ledger.events("c", types=["artifact.stored"])}
    assert {row["sequence"] for row in rows.values()} == set(events)
    assert {row["run_id"] for row in rows.values()} == {run.id}


def test_the_row_names_the_newest_event_of_an_object(ledger):
    with ledger.run("a", conversation="c") as run:
        run.artifact(b"same", name="first")
        kept = run.artifact(b"same", name="second")
    (row,) = ledger.artifacts.rows("c")
    assert row["row_version"] == 2
    assert ledger.artifacts.find(kept.sha256).name == "second"


def test_a_redacted_artifact_is_shown_as_such(ledger):
    with ledger.run("a", conversation="c") as run:
        kept = run.artifact(b"gone")
    draft = Draft(
        ledger.ports.new_id("evt"),
        "artifact.redacted",
        time_text(ledger.ports.now_ms()),
        {"type": "system", "id": "counterfoil"},
        {"sha256": kept.sha256, "certificate": CERTIFICATE},
    )
    ledger.ports.append(UnitDraft((Entry(run.conversation, (draft,)),)))
    (row,) = ledger.artifacts.rows("c")
    assert row["state"] == "redacted"
    before = dict(row)
    ledger.rebuild()
    assert {**ledger.artifacts.rows("c")[0], "row_version": 0} == {**before, "row_version": 0}


def test_bytes_a_file_and_an_artifact_of_the_same_content_have_one_address(ledger, tmp_path):
    data = bytes(range(256)) * 1_000
    (tmp_path / "file").write_bytes(data)
    with ledger.run("a", conversation="c") as run:
        material = ledger.ports.material(run.conversation)
        kept = run.artifact(iter([data]))
    found = {address_of(material, item) for item in (data, tmp_path / "file", kept)}
    assert found == {kept.address}


@pytest.mark.parametrize("given", ["bytes", "path", "artifact", "public"])
def test_the_binding_of_a_call_covers_what_it_refers_to(world, ledger, tmp_path, given):
    path = tmp_path / "letter"

    @counterfoil.effect(
        f"rows.send.{given}",
        version="1",
        touches={"messages"},
        doubt=counterfoil.by_review(),
        artifacts=lambda **_: [item],
    )
    def send(to: str) -> None:
        return None

    data = b"a letter"
    path.write_bytes(data)
    with ledger.run("a", conversation="c") as run:
        klass = "public" if given == "public" else "confidential"
        item = {"bytes": data, "path": path}.get(given) or run.artifact(data, classification=klass)
        send("ann")
    (event,) = ledger.events("c", types=["effect.intended"])
    material = ledger.ports.material(run.conversation)

    def bound(*addresses):
        named = (material, event.data["effect_id"], send.name, "1", {"to": "ann"})
        return binding(*named, addresses)

    named = item.sha256 if given == "public" else material.address(data).hex()
    assert event.data["binding"] == bound(named)
    assert event.data["binding"] not in {bound(), bound("0" * 64)}


def test_a_file_that_is_not_there_is_refused_before_anything_is_intended(ledger, tmp_path):
    @counterfoil.effect(
        "rows.lost",
        version="1",
        touches={"messages"},
        doubt=counterfoil.by_review(),
        artifacts=lambda **_: [tmp_path / "no-such-file"],
    )
    def send(to: str) -> None:
        return None

    with ledger.run("a", conversation="c"), pytest.raises(ToolInvalid, match="no-such-file"):
        send("ann")
    assert list(ledger.events("c", types=["effect.intended"])) == []
