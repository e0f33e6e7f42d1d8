"""Artifacts under verification: each object once, by its name and by its content; what is gone, and why."""

from __future__ import annotations

import pytest

import counterfoil
from counterfoil.client.features import FEATURES
from counterfoil.core.event import Draft
from counterfoil.core.forms import time_text
from counterfoil.errors import StoreIO
from counterfoil.evidence.verify import verify
from counterfoil.flow.requests import Entry, UnitDraft

CERTIFICATE = "ers_01J9ZC3Y3V7W2R5T8QK4M6N0PA"


@pytest.fixture
def ledger():
    with counterfoil.open(":memory:") as ledger:
        with ledger.run("a", conversation="c") as run:
            run.artifact(b"one" * 10_000, name="one")
            run.artifact(iter([b"two"]), name="two", subject="ann", classification="personal")
            run.artifact(b"three", name="three", classification="public")
            run.artifact(b"four", name="four", classification="internal")
            run.step("large", lambda: "x" * 400_000)
            run.artifact(b"one" * 10_000, name="one again")
        yield ledger


def named(ledger):
    """Objects by what their artifacts are called; ``large`` is the spilled value."""
    found = {}
    for event in ledger.events("c", types=["artifact.stored", "artifact.spilled"]):
        found[event.content.get("name", "large")] = event.header.artifact_refs[0]["sha256"]
    return found


def objects(ledger):
    return ledger.artifacts.store._objects


def checked(ledger, **options):
    options.setdefault("keyring", ledger.keyring)
    options.setdefault("artifacts", ledger.artifacts.store)
    keyring = options.pop("keyring")
    return verify(ledger.store, keyring, FEATURES, registry=ledger.registry, **options)


def test_each_object_is_read_once_and_opened_where_its_key_is_at_hand(ledger):
    report = checked(ledger)
    assert report.exit_code == 0
    # Public bytes have no key, so there is nothing to open.
    assert (report.counts.artifacts, report.counts.artifacts_opened) == (5, 4)
    assert "artifacts" not in {left.what for left in report.not_covered}


@pytest.mark.parametrize("name", ["one", "two", "three", "four", "large"])
def test_an_object_that_is_gone_is_missing(ledger, name):
    del objects(ledger)[named(ledger)[name]]
    report = checked(ledger)
    assert report.exit_code == 1
    assert set(report.kinds) == {"content_missing"}
    assert named(ledger)[name][:12] in report.findings[0].what


@pytest.mark.parametrize("level", ["digests", "content"])
@pytest.mark.parametrize("name", ["one", "two", "three", "four", "large"])
def test_a_changed_bit_is_damage_with_keys_and_without(ledger, name, level):
    held = objects(ledger)
    data = bytearray(held[named(ledger)[name]])
    data[len(data) // 2] ^= 1
    held[named(ledger)[name]] = bytes(data)
    report = checked(ledger, level=level, keyring=ledger.keyring if level == "content" else None)
    assert (report.exit_code, set(report.kinds)) == (1, {"content_damaged"})


def test_two_objects_that_changed_places_are_both_damaged(ledger):
    held, names = objects(ledger), named(ledger)
    held[names["one"]], held[names["large"]] = held[names["large"]], held[names["one"]]
    report = checked(ledger)
    assert report.kinds == {"content_damaged": 3}  # "one" is named by two events


def test_an_object_cut_short_is_damaged(ledger):
    held, name = objects(ledger), named(ledger)["one"]
    held[name] = held[name][:-16]
    assert checked(ledger).kinds == {"content_damaged": 2}


def test_one_fault_hides_no_other(ledger):
    held, names = objects(ledger), named(ledger)
    del held[names["two"]]
    held[names["four"]] = b""
    report = checked(ledger)
    assert report.kinds == {"content_missing": 1, "content_damaged": 1}
    assert report.counts.artifacts_opened == 2


def test_an_object_that_cannot_be_read_is_named_and_the_scan_goes_on(ledger, monkeypatch):
    store, wanted = ledger.artifacts.store, named(ledger)["two"]
    real = type(store).read

    def read(self, name):
        if name == wanted:
            raise StoreIO("input/output error")
        return real(self, name)

    monkeypatch.setattr(type(store), "read", read)
    report = checked(ledger)
    assert report.kinds == {"content_damaged": 1}
    assert report.counts.artifacts == 4


def test_without_keys_objects_are_checked_by_name_and_the_rest_is_said(ledger):
    report = checked(ledger, keyring=None)
    assert report.exit_code == 0
    assert (report.counts.artifacts, report.counts.artifacts_opened) == (5, 0)
    assert ("the content of artifacts", 4) in {(left.what, left.count) for left in report.not_covered}


@pytest.mark.parametrize("options", [{"level": "chain"}, {"artifacts": None}], ids=["chain", "no place"])
def test_what_was_not_looked_at_is_said(ledger, options):
    objects(ledger).clear()
    report = checked(ledger, **options)
    assert (report.exit_code, report.counts.artifacts) == (0, 0)
    assert "artifacts" in {left.what for left in report.not_covered}


@pytest.mark.parametrize("scope", ["object", "key"])
def test_an_object_that_a_certificate_names_is_erased_and_not_missing(ledger, scope):
    stream_id = ledger.stream_of("c")
    (event,) = [
        one for one in ledger.events("c", types=["artifact.stored"]) if one.content.get("name") == "two"
    ]
    member = event.header.artifact_refs[0]
    named_ = {"object": member["sha256"]} if scope == "object" else {"key": member["key"]}
    data = {"deletion_id": "del_01J9ZC3Y3V7W2R5T8QK4M6N0PA", "certificate": CERTIFICATE, "ground": "request"}
    data |= {"contents": 0, "objects": 1, "copies": "not_covered", **named_}
    draft = Draft(
        ledger.ports.new_id("evt"),
        "deletion.completed",
        time_text(ledger.ports.now_ms()),
        {"type": "system", "id": "counterfoil"},
        data,
    )
    del objects(ledger)[member["sha256"]]
    assert checked(ledger).kinds.get("content_missing") == 1
    ledger.ports.append(UnitDraft((Entry(stream_id, (draft,)),)))
    report = checked(ledger)
    assert "content_missing" not in report.kinds
    assert report.counts.artifacts_erased == 1
