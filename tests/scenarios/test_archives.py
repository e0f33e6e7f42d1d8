"""Archives: out, in, and out again is the same to the byte, on every engine; whatever is wrong with one leaves nothing."""

from __future__ import annotations

import pytest

import counterfoil
from counterfoil.access import RoleAuthorizer
from counterfoil.archive import hpke
from counterfoil.client.archiving import KeysBy
from counterfoil.errors import (
    AccessRefused,
    ArchiveInvalid,
    ArchiveRefused,
    InvalidForm,
    KeyMissing,
    KeyWithheld,
    StreamExists,
    UnknownEventType,
)
from counterfoil.store.rows import Put
from tests.archives import converse, erase_key, erase_part, files, holdings, verified
from tests.running import types_of, vanish


@pytest.fixture
def place(anywhere):
    return anywhere or ":memory:"


@pytest.fixture(params=["sealed", "clear"])
def content(request):
    return request.param


def source(tmp_path, content="sealed"):
    return counterfoil.open(tmp_path / "source", content=content)


# ---- the same to the byte ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix, with_keys", [("", False), (".zip", True)], ids=["directory", "zip-keys"])
def test_what_was_taken_in_goes_out_again_as_it_came(tmp_path, place, content, suffix, with_keys):
    key = hpke.new_private_key()
    by = KeysBy(recipient=hpke.public_key(key)) if with_keys else None
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"
    with source(tmp_path, content) as origin:
        stream_id = converse(origin)
        erase_part(origin, stream_id, 2)
        out = origin.export_archive([stream_id], first, keys=by)
        assert (out.faults, out.erased) == ([], 2)
        report = verified(origin)
    with counterfoil.open(place, content=content, artifacts=tmp_path / "objects") as target:
        taken = target.import_archive(first, private_key=key if with_keys else None)
        assert (taken.archive, taken.events, taken.erased) == (out.sha256, out.events, 2)
        assert taken.keys == (2 if with_keys else 0)
        again = target.export_archive([stream_id], second)
        assert again.sha256 == out.sha256
        assert files(second) == files(first)
        # What another ledger recorded verifies here as it did there; what its keys would open is left out.
        here = verified(target)
        assert here.exit_code == report.exit_code == 0
        assert here.rows_differ == ()


def test_with_its_keys_a_conversation_is_read_and_gone_on_with(tmp_path, place, content):
    key = hpke.new_private_key()
    by = KeysBy(recipient=hpke.public_key(key))
    with source(tmp_path, content) as origin:
        stream_id = converse(origin)
        before = [(event.type, event.content_or_none()) for event in origin.events(stream_id)]
        origin.export_archive(["case-8472"], tmp_path / "a.zip", keys=by)
        home = origin.id
    with counterfoil.open(place, content=content, artifacts=tmp_path / "objects") as target:
        taken = target.import_archive(tmp_path / "a.zip", private_key=key)
        assert (taken.keys, taken.keys_by) == (2, "recipient")
        assert [(event.type, event.content_or_none()) for event in target.events("case-8472")] == before
        head = target.store.head(stream_id)
        with target.run("support", conversation="case-8472", message="and now?") as run:
            run.step("look", str.title, "again")
        went_on = [event for event in target.events(stream_id) if event.sequence > head.sequence]
        assert went_on[0].type == "stream.adopted"
        assert went_on[0].data == {
            "from_ledger": home,
            "ledger": target.id,
            "tenant": "default",
            "at_sequence": head.sequence,
            "head": head.hash.hex(),
        }
        assert types_of(target, stream_id).count("stream.adopted") == 1
        assert next(event for event in went_on if event.type == "run.started").data["fencing_token"] == 2
        report = verified(target)
        assert (report.exit_code, report.rows_differ) == (0, ())
        # An effect that was done there is not done again here.
        assert [row["state"] for row in target.effects(stream=stream_id)] == ["succeeded"]


def test_an_adopted_conversation_travels_on_and_home_again(tmp_path):
    by = KeysBy(passphrase="correct horse")
    how = {"passphrase": lambda: "correct horse"}
    with (
        source(tmp_path) as origin,
        counterfoil.open(":memory:") as second,
        counterfoil.open(":memory:") as third,
    ):
        stream_id = converse(origin)
        origin.export_archive([stream_id], tmp_path / "one", keys=by)
        second.import_archive(tmp_path / "one", **how)
        with second.run("support", conversation=stream_id, message="here") as run:
            run.step("look", str.title, "here")
        second.export_archive([stream_id], tmp_path / "two", keys=by)
        (stream,) = third.import_archive(tmp_path / "two", **how).streams
        assert stream["home"] == second.id
        with third.run("support", conversation=stream_id, message="there") as run:
            run.step("look", str.title, "there")
        assert types_of(third, stream_id).count("stream.adopted") == 2
        assert verified(third).exit_code == verified(second).exit_code == 0
        # The two have a common beginning and a visible parting.
        parted = [
            next(
                e.data["ledger"]
                for e in reversed(list(ledger.events(stream_id)))
                if e.type == "stream.adopted"
            )
            for ledger in (second, third)
        ]
        assert parted == [second.id, third.id]


def test_companions_travel_with_their_conversation_and_are_read_with_its_keys(tmp_path, place):
    by, how = KeysBy(passphrase="p"), {"passphrase": lambda: "p"}
    with source(tmp_path) as origin:
        orders = origin.declare_table("orders", "order")
        with origin.run("support", conversation="case-8472") as run:
            placed = [orders.put({"order": f"O-{n}", "status": "paid"}) for n in range(3)]
            run.record("shop.order_placed", {"by": "web"}, ignorable=True, rows=placed)
        out = origin.export_archive(["case-8472"], tmp_path / "a", keys=by)
        assert out.rows == 3
    with counterfoil.open(place, artifacts=tmp_path / "objects") as target:
        assert target.import_archive(tmp_path / "a", **how).rows == 3
        target.declare_table("orders", "order")
        assert target.companion("case-8472", "orders", "O-1").row == {"order": "O-1", "status": "paid"}
        assert target.export_archive(["case-8472"], tmp_path / "b").sha256 == out.sha256
        report = verified(target)
        assert (report.exit_code, report.rows_differ) == (0, ())


# ---- custody -----------------------------------------------------------------------------------------------------


def test_what_went_out_and_came_in_is_recorded_with_the_archive_s_digest(tmp_path):
    with source(tmp_path) as origin, counterfoil.open(":memory:") as target:
        stream_id = converse(origin)
        out = origin.export_archive([stream_id], tmp_path / "a", other_party="audit@example.com")
        target.import_archive(tmp_path / "a", other_party="ops@example.com")
        for ledger, kind, party in (
            (origin, "archive.exported", "audit@example.com"),
            (target, "archive.imported", "ops@example.com"),
        ):
            (event,) = ledger.events(ledger.streams.id_of("archive"))
            assert event.type == kind
            assert event.data["archive"] == out.sha256
            assert event.data["stream_id"] == stream_id
            assert event.data["keys"] == "none"
            assert "tenant" not in event.data
            assert event.content_or_none() == {"other_party": party}


def test_without_keys_content_is_withheld_and_nothing_is_appended(tmp_path, place):
    with source(tmp_path) as origin:
        stream_id = converse(origin)
        origin.export_archive([stream_id], tmp_path / "a")
    with counterfoil.open(place, artifacts=tmp_path / "objects") as target:
        target.import_archive(tmp_path / "a")
        assert {event.content_state for event in target.events(stream_id)} == {"withheld", "none"}
        before = holdings(target)
        with pytest.raises(KeyMissing), target.run("support", conversation=stream_id, message="m"):
            pass
        assert holdings(target) == before


def test_another_tenant_s_conversation_comes_in_on_purpose_only(tmp_path, place):
    by, how = KeysBy(passphrase="p"), {"passphrase": lambda: "p"}
    with counterfoil.open(tmp_path / "source", tenant="north") as origin:
        stream_id = converse(origin)
        origin.export_archive([stream_id], tmp_path / "a", keys=by)
    with counterfoil.open(place, tenant="south", artifacts=tmp_path / "objects") as target:
        before = holdings(target)
        with pytest.raises(ArchiveRefused, match="north"):
            target.import_archive(tmp_path / "a", **how)
        assert holdings(target) == before
        target.import_archive(tmp_path / "a", as_tenant=True, **how)
        with target.run("support", conversation=stream_id, message="m") as run:
            run.step("look", str.title, "x")
        (imported,) = target.events(target.streams.id_of("archive"))
        adopted = next(event for event in target.events(stream_id) if event.type == "stream.adopted")
        assert imported.data["tenant"] == adopted.data["tenant"] == "south"
        report = verified(target)
        assert (report.exit_code, report.rows_differ) == (0, ())


def test_a_run_that_was_open_appears_interrupted_and_goes_on_here(tmp_path):
    with source(tmp_path) as origin:
        stream_id = converse(origin)
        vanish(origin.run("support", conversation=stream_id, message="m"))
        origin.export_archive([stream_id], tmp_path / "a", keys=KeysBy(passphrase="p"))
    with counterfoil.open(":memory:") as target:
        target.import_archive(tmp_path / "a", passphrase=lambda: "p")
        head = target.store.head(stream_id)
        assert (head.token, head.lease) == (2, None)
        (info,) = target.conversations()
        assert info.state == "interrupted"
        (row,) = target.runs(state="running")
        with target.run("support", conversation=stream_id, resume=str(row["run_id"])) as run:
            assert run.step("ask", str.title, "x") == "X"
        assert verified(target).rows_differ == ()


# ---- refused -----------------------------------------------------------------------------------------------------


def test_a_conversation_that_is_here_is_not_taken_in_again(tmp_path):
    with source(tmp_path) as origin:
        stream_id = converse(origin)
        origin.export_archive([stream_id], tmp_path / "a")
        before = holdings(origin)
        with pytest.raises(StreamExists):
            origin.import_archive(tmp_path / "a")
        assert holdings(origin) == before


def test_a_name_or_key_that_is_taken_here_is_not_taken_over(tmp_path):
    by, how = KeysBy(passphrase="p"), {"passphrase": lambda: "p"}
    with source(tmp_path) as origin:
        origin.export_archive([converse(origin)], tmp_path / "name", keys=by)
        origin.export_archive([converse(origin, "other", "O-7")], tmp_path / "key", keys=by)
    with counterfoil.open(":memory:") as target:
        converse(target, "case-8472", "O-7")
        before = holdings(target)
        for archive in ("name", "key"):
            with pytest.raises(ArchiveRefused):
                target.import_archive(tmp_path / archive, **how)
            assert holdings(target) == before
            target.import_archive(tmp_path / archive, with_keys=False)
            before = holdings(target)


def test_what_was_erased_here_does_not_come_back(tmp_path):
    by, how = KeysBy(passphrase="p"), {"passphrase": lambda: "p"}
    with source(tmp_path) as origin:
        stream_id = converse(origin)
        origin.export_archive([stream_id], tmp_path / "before", keys=by)
        certificate = erase_key(origin, stream_id)
        rows = origin.store.select("destroyed_keys")
        origin.store.remove_stream(stream_id, "test")
        # The stream is gone, and what certificates name is still known.
        origin.store.rebuild_rows(
            stream_id,
            [
                Put("destroyed_keys", {name: row[name] for name in row if name != "row_version"})
                for row in rows
            ],
        )
        before = holdings(origin)
        for how_many in (how, {"with_keys": False}):
            with pytest.raises(ArchiveRefused, match=certificate):
                origin.import_archive(tmp_path / "before", **how_many)
            assert holdings(origin) == before


def test_a_purged_conversation_does_not_come_back(tmp_path):
    with source(tmp_path) as origin:
        stream_id = converse(origin)
        origin.export_archive([stream_id], tmp_path / "before")
        head = origin.store.head(stream_id)
        fields = {"stream_id": stream_id, "final_sequence": head.sequence, "final_hash": head.hash.hex()}
        origin.streams.record("retention", ("stream.purged", fields, {}))
        origin.store.remove_stream(stream_id, "test")
        with pytest.raises(ArchiveRefused, match="purged"):
            origin.import_archive(tmp_path / "before")


def test_a_damaged_conversation_goes_out_named_and_comes_in_on_purpose_only(tmp_path):
    with source(tmp_path) as origin:
        stream_id = converse(origin)
        # Gone without a certificate: nobody says why.
        origin.store.remove_content(stream_id, [(3, 0)], "test")
        out = origin.export_archive([stream_id], tmp_path / "a")
        assert [(fault.code, fault.sequence) for fault in out.faults] == [("content_missing", 3)]
    with counterfoil.open(":memory:") as target:
        before = holdings(target)
        with pytest.raises(ArchiveInvalid) as refused:
            target.import_archive(tmp_path / "a")
        assert refused.value.line == 5  # behind the first line, the stream's own and two events
        assert holdings(target) == before
        taken = target.import_archive(tmp_path / "a", accept_damaged=True)
        assert taken.damaged == 1
        (event,) = target.events(target.streams.id_of("archive"))
        assert event.content_or_none() == {"damaged": 1}
        assert target.export_archive([stream_id], tmp_path / "b").sha256 == out.sha256


def test_nothing_is_written_over_and_nothing_is_left_of_an_export_that_fails(tmp_path):
    with source(tmp_path) as origin:
        stream_id = converse(origin)
        (tmp_path / "there").write_text("mine")
        with pytest.raises(InvalidForm, match="already"):
            origin.export_archive([stream_id], tmp_path / "there")
        assert (tmp_path / "there").read_text() == "mine"
        with pytest.raises(counterfoil.errors.StreamNotFound):
            origin.export_archive([stream_id, "str_01J9ZC3Y3V7W2R5T8QK4M6N0PS"], tmp_path / "gone")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "there"]


def test_a_wrong_passphrase_or_key_takes_nothing_in(tmp_path):
    with source(tmp_path) as origin:
        origin.export_archive([converse(origin)], tmp_path / "a", keys=KeysBy(passphrase="right"))
    with counterfoil.open(":memory:") as target:
        before = holdings(target)
        for how in ({"passphrase": lambda: "wrong"}, {"private_key": bytes(range(32))}, {}):
            with pytest.raises(KeyWithheld):
                target.import_archive(tmp_path / "a", **how)
        assert holdings(target) == before


# ---- S22, one unknown event hides a whole conversation ---------------------------------------------------------------


def test_events_of_a_plug_in_that_is_gone_travel_and_verify_like_any_other(tmp_path, place):
    by, how = KeysBy(passphrase="p"), {"passphrase": lambda: "p"}
    with source(tmp_path) as origin:
        origin.declare("x.canvas.drawn", 3, {"shape": "label"})
        origin.declare("x.canvas.cleared", 3, {}, ignorable=True)
        with origin.run("support", conversation="case-8472") as run:
            run.record("x.canvas.drawn", {"shape": "circle", "at": 1}, version=3)
            run.record("x.canvas.cleared", {"why": "done"}, version=3)
        stream_id = origin.stream_of("case-8472")
    # A build without the plug-in exports, and another without it takes in.
    with source(tmp_path) as origin:
        out = origin.export_archive([stream_id], tmp_path / "a", keys=by)
        assert out.faults == []
    with counterfoil.open(place, artifacts=tmp_path / "objects") as target:
        target.import_archive(tmp_path / "a", **how)
        assert [info.stream_id for info in target.conversations()] == [stream_id]
        drawn = next(event for event in target.events("case-8472") if event.type == "x.canvas.drawn")
        assert (drawn.data, drawn.content_or_none()) == ({"shape": "circle"}, {"at": 1})
        assert verified(target).exit_code == 0
        with pytest.raises(UnknownEventType, match=r"x\.canvas\.drawn"):
            list(target.interpret("case-8472"))
        assert target.export_archive([stream_id], tmp_path / "b").sha256 == out.sha256


# ---- access ----------------------------------------------------------------------------------------------------------


def test_an_export_is_decided_and_recorded_before_anything_is_written(tmp_path):
    people = RoleAuthorizer({"ann": ["security"], "bob": ["auditor"]})
    with counterfoil.open(tmp_path / "source", authorizer=people) as origin:
        stream_id = converse(origin)
        why = {"purpose": "complaint"}
        for actor, by in ((None, None), ("bob", KeysBy(passphrase="p")), ("eve", None)):
            with pytest.raises(AccessRefused):
                origin.export_archive([stream_id], tmp_path / "a", actor=actor, keys=by, **why)
            assert not (tmp_path / "a").exists()
        # Without keys no content goes out that anybody could read.
        origin.export_archive([stream_id], tmp_path / "a", actor="bob", **why)
        origin.export_archive([stream_id], tmp_path / "b", actor="ann", keys=KeysBy(passphrase="p"), **why)
        told = [(line.action, line.by, line.allowed) for line in origin.access.decisions()]
        exports = [line[1:] for line in told if line[0] == "export"]
        assert exports == [("bob", False), ("eve", False), ("bob", True), ("ann", True)]
