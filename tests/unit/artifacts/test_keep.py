"""Keeping bytes in a run: sources, classes and keys, one object for equal bytes, and runs that resume."""

from __future__ import annotations

import asyncio
import io

import pytest
from msgspec.structs import replace

import counterfoil
from counterfoil.artifacts import Artifact, keep
from counterfoil.core.values import from_json
from counterfoil.errors import (
    ArtifactDamaged,
    ArtifactUnavailable,
    ConfigInvalid,
    ContentUnavailable,
    FileMissing,
    InvalidForm,
    LeaseLost,
    NoRun,
    RunClosed,
    StoreFull,
)
from counterfoil.testing.faulty import Fail, FailAfter, FaultyStore
from tests.running import facts, types_of, vanish

BIG = bytes(range(256)) * 2_000


def stored(ledger, conversation="c"):
    return list(ledger.events(conversation, types=["artifact.stored"]))


def objects(ledger):
    return ledger.artifacts.store.names()


# ---- sources ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"x", BIG], ids=["nothing", "a byte", "much"])
@pytest.mark.parametrize("how", ["bytes", "bytearray", "path", "file", "pieces", "generator"])
def test_bytes_of_any_source_come_back(ledger, tmp_path, how, data):
    path = tmp_path / "report.bin"
    path.write_bytes(data)
    source = {
        "bytes": data,
        "bytearray": bytearray(data),
        "path": path,
        "file": io.BytesIO(data),
        "pieces": [data[:5], data[5:]],
        "generator": (data[at : at + 1000] for at in range(0, len(data), 1000)),
    }[how]
    with ledger.run("a", conversation="c") as run:
        kept = run.artifact(source)
        assert (kept.read(), kept.size) == (data, len(data))
        with kept.open() as file:
            assert file.read(3) + file.read() == data


def test_a_file_is_named_after_itself_unless_told_otherwise(ledger, tmp_path):
    path = tmp_path / "report.pdf"
    path.write_bytes(b"x")
    with ledger.run("a", conversation="c") as run:
        assert run.artifact(path).name == "report.pdf"
        assert run.artifact(path, name="other").name == "other"
        assert run.artifact(b"x").name is None


@pytest.mark.parametrize("source", ["text", 5, None, ["text"], io.StringIO("text")], ids=type)
def test_what_is_no_bytes_is_refused_and_leaves_nothing(ledger, source):
    with ledger.run("a", conversation="c") as run, pytest.raises(InvalidForm):
        run.artifact(source)
    assert (stored(ledger), objects(ledger)) == ([], [])


def test_a_file_that_is_not_there_is_named(ledger, tmp_path):
    with ledger.run("a", conversation="c") as run, pytest.raises(FileMissing, match="no-such"):
        run.artifact(tmp_path / "no-such")
    assert objects(ledger) == []


def test_a_source_that_breaks_leaves_nothing(ledger):
    def broken():
        yield b"half"
        raise ValueError("the source broke")

    with ledger.run("a", conversation="c") as run, pytest.raises(ValueError, match="broke"):
        run.artifact(broken())
    assert (stored(ledger), objects(ledger)) == ([], [])


@pytest.mark.parametrize(
    "how",
    [
        {"kind": "two words"},
        {"permission": "@"},
        {"classification": "hidden"},
        {"name": ""},
        {"name": 5},
        {"media_type": "x" * 1001},
        {"classification": "public", "subject": "ann"},
        {"classification": "internal", "subject": "ann"},
    ],
    ids=range(8),
)
def test_wrong_words_are_refused_before_anything_is_stored(ledger, how):
    with ledger.run("a", conversation="c") as run, pytest.raises(InvalidForm):
        run.artifact(b"x", **how)
    assert objects(ledger) == []


# ---- what is recorded ------------------------------------------------------------------------------------------------


def test_the_header_says_class_and_size_class_and_content_says_the_rest(ledger):
    with ledger.run("a", conversation="c") as run:
        kept = run.artifact(
            b"x" * 1000, name="Ann's letter.pdf", media_type="application/pdf", permission="files.read"
        )
    (event,) = stored(ledger)
    assert event.data == {"size_class": 10, "permission": "files.read"}
    assert event.content == {"name": "Ann's letter.pdf", "media_type": "application/pdf", "bytes": 1000}
    assert event.header.artifact_refs == [
        {"kind": "file", "class": "confidential", "sha256": kept.sha256, "address": kept.address}
    ]
    assert b"Ann" not in ledger.store.read(event.stream_id, event.sequence - 1, 1)[0].header


def test_nothing_plain_lies_in_the_store_unless_it_is_public(ledger):
    with ledger.run("a", conversation="c") as run:
        hidden, shown = (
            run.artifact(b"a secret text"),
            run.artifact(b"a public text", classification="public"),
        )
    store = ledger.artifacts.store
    assert b"secret" not in b"".join(store.read(hidden.sha256))
    assert b"".join(store.read(shown.sha256)) == b"a public text"
    assert (shown.address, shown.key) == (None, None)


@pytest.mark.parametrize("klass", ["public", "internal", "confidential", "personal", "secret"])
def test_every_class_comes_back(ledger, klass):
    with ledger.run("a", conversation="c") as run:
        assert run.artifact(BIG, classification=klass).read() == BIG
        assert run.artifact(iter([BIG]), classification=klass).read() == BIG


def test_each_class_has_its_key(ledger):
    with ledger.run("a", conversation="c") as run:
        own = run.artifact(b"x")
        ann = run.artifact(b"x", subject="ann", classification="personal")
        bob = run.artifact(b"x", subject="bob", classification="personal")
        shared = run.artifact(b"x", classification="internal")
    config = ledger.ports.genesis(ledger.streams.id_of("config")).key
    assert own.key == ledger.ports.genesis(run.conversation).key
    assert shared.key == config
    assert len({own.key, ann.key, bob.key, shared.key}) == 4
    assert len({own.address, ann.address, bob.address, shared.address}) == 4


def test_what_is_about_a_person_is_sealed_under_their_key(ledger):
    with ledger.run("a", conversation="c") as run:
        kept = run.artifact(b"x", name="Ann.pdf", subject="ann", classification="personal")
    (event,) = stored(ledger)
    assert event.header.content[0].key == kept.key


# ---- one object for equal bytes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [BIG, iter([BIG]), io.BytesIO(BIG)], ids=["bytes", "pieces", "file"])
@pytest.mark.parametrize("first", [BIG, iter([BIG[:100], BIG[100:]])], ids=["bytes", "pieces"])
def test_equal_bytes_are_stored_once(world, first, again):
    if not isinstance(first, bytes):
        first = iter([BIG[:100], BIG[100:]])
    if not isinstance(again, bytes):
        again = iter([BIG])
    ledger = world.worker()
    with ledger.run("a", conversation="c") as run:
        kept = [run.artifact(first, name="first"), run.artifact(again, name="again")]
    if isinstance(again, bytes) and not isinstance(first, bytes):
        # Bytes at hand make their own object, whatever streamed in before: the same one on every retry.
        assert len(objects(ledger)) == 2
    else:
        assert len(objects(ledger)) == 1
    assert kept[0].address == kept[1].address
    assert [one.read() for one in kept] == [BIG, BIG]
    assert len(stored(ledger)) == 2


def test_equal_bytes_of_two_conversations_are_two_objects_unless_they_are_internal(ledger):
    for conversation in ("c", "d"):
        with ledger.run("a", conversation=conversation) as run:
            run.artifact(iter([b"same"]))
            run.artifact(iter([b"shared"]), classification="internal")
            run.artifact(b"public", classification="public")
    assert len(objects(ledger)) == 2 + 1 + 1


def test_an_object_that_rows_name_and_that_is_gone_is_stored_again(ledger):
    with ledger.run("a", conversation="c") as run:
        first = run.artifact(iter([BIG]))
        ledger.artifacts.store.delete(first.sha256)
        second = run.artifact(iter([BIG]), name="again")
        assert second.read() == BIG


# ---- runs that resume ------------------------------------------------------------------------------------------------


def never():
    raise AssertionError("read again")
    yield b""


def test_a_resumed_run_gets_the_recorded_artifact_and_reads_nothing(world, ledger):
    vanish(ledger.run("a", conversation="c", dedupe="1"), lambda run: run.artifact(iter([b"once"]), name="f"))
    world.expire_leases()
    with world.worker().run("a", conversation="c", dedupe="1") as run:
        assert run.artifact(never(), name="f").read() == b"once"
        assert run.artifact(iter([b"twice"]), name="f").read() == b"twice"
    assert len(stored(ledger)) == 2


def test_other_bytes_at_hand_are_another_artifact(world, ledger):
    vanish(ledger.run("a", conversation="c", dedupe="1"), lambda run: run.artifact(b"once", name="f"))
    world.expire_leases()
    with world.worker().run("a", conversation="c", dedupe="1") as run:
        assert run.artifact(b"changed", name="f").read() == b"changed"
        assert run.artifact(b"once", name="f").read() == b"once"
    assert len(stored(ledger)) == 2


def test_a_run_that_has_ended_hands_out_what_it_kept_and_keeps_nothing_more(world, ledger):
    with ledger.run("a", conversation="c", dedupe="1") as run:
        run.artifact(b"kept")
    with world.worker().run("a", conversation="c", dedupe="1") as run:
        assert run.artifact(b"kept").read() == b"kept"
        with pytest.raises(RunClosed):
            run.artifact(b"more")
    assert len(stored(ledger)) == 1


def test_a_store_that_is_full_fails_the_call_and_the_next_one_is_the_same(world, ledger, monkeypatch):
    with ledger.run("a", conversation="c") as run:
        with monkeypatch.context() as patch:
            patch.setattr(type(ledger.artifacts.store), "upload", full)
            with pytest.raises(StoreFull):
                run.artifact(b"x")
        kept = run.artifact(b"x")
    assert kept.read() == b"x"
    assert len(stored(ledger)) == 1


def full(self):
    raise StoreFull("no space is left on the device")


def test_a_worker_that_lost_the_run_records_nothing(world, ledger):
    with pytest.raises(LeaseLost), ledger.run("a", conversation="c", dedupe="1") as run:
        run._host.heartbeat.remove(run._scope)
        world.expire_leases()
        with world.worker().run("a", conversation="c", dedupe="1"):
            pass
        run.artifact(b"late")
    assert stored(ledger) == []


# ---- handles as values -----------------------------------------------------------------------------------------------


@counterfoil.effect("keep.scan", version="1", touches=set(), doubt=counterfoil.by_repeating())
def scan(document: Artifact) -> dict:
    return {"size": len(document.read()), "copy": keep(document.pieces(), name="copy")}


@counterfoil.effect("keep.ascan", version="1", touches=set(), doubt=counterfoil.by_repeating())
async def ascan(document: Artifact) -> Artifact:
    return document


def test_tools_take_and_return_artifacts(world, ledger):
    for _ in range(2):
        with world.worker().run("a", conversation="c", dedupe="1") as run:
            found = scan(run.artifact(BIG, name="f"))
            assert (found["size"], found["copy"].read()) == (len(BIG), BIG)
    events = list(ledger.events("c", types=["effect.intended", "effect.observed"]))
    assert [len(event.header.artifact_refs) for event in events] == [1, 1]


def test_async_runs_keep_artifacts_too(ledger):
    async def main():
        async with ledger.run("a", conversation="c") as run:
            kept = await run.aartifact(iter([BIG]))
            assert (await ascan(kept)).read() == BIG
            assert await run.astep("large", lambda: "x" * 400_000) == "x" * 400_000

    asyncio.run(main())
    assert types_of(ledger, "c").count("artifact.spilled") == 1


def test_steps_messages_and_outputs_may_hold_artifacts(world, ledger):
    with ledger.run("a", conversation="c", dedupe="1") as run:
        kept = run.artifact(b"x", name="f")
        assert run.step("same", lambda it: it, kept) == kept
        run.finish({"files": [kept]})
    with world.worker().run("a", conversation="c", dedupe="1") as run:
        assert run.output["files"][0].read() == b"x"
    again = ledger.artifacts.keep("c", b"a picture", name="photo.png")
    with ledger.run("a", conversation="c", message={"text": "see", "file": again}) as run:
        assert run.message["file"].read() == b"a picture"
    (accepted,) = [
        event for event in ledger.events("c", types=["admission.accepted"]) if event.header.artifact_refs
    ]
    assert accepted.header.artifact_refs[0]["sha256"] == again.sha256


def test_a_handle_that_a_run_handed_out_opens_after_it_too(ledger):
    with ledger.run("a", conversation="c", dedupe="1", message="m") as run:
        found = run.step("same", lambda: run.artifact(b"x"))
        run.finish(found)
    with ledger.run("a", conversation="c", dedupe="1", message="m") as run:
        again = run.step("same", lambda: None)
    assert (again, again.read(), run.output.read()) == (found, b"x", b"x")


def test_a_handle_from_a_record_opens_inside_a_run_or_once_it_is_bound(ledger):
    with ledger.run("a", conversation="c") as run:
        run.step("same", lambda: run.artifact(b"x"))
    (event,) = ledger.events("c", types=["step.finished"])
    loose = from_json(event.content["result"])
    with pytest.raises(NoRun):
        loose.read()
    assert ledger.artifacts.bound(loose).read() == b"x"
    with ledger.run("b", conversation="d"):
        assert loose.read() == b"x"


def test_an_output_that_moved_and_is_gone_is_missing_each_time_it_is_asked_for(ledger):
    with ledger.run("a", conversation="c", dedupe="1") as run:
        run.finish("x" * 400_000)
    (name,) = objects(ledger)
    ledger.artifacts.store.delete(name)
    with ledger.run("a", conversation="c", dedupe="1") as run:
        for _ in range(2):
            with pytest.raises(ContentUnavailable, match="missing"):
                _ = run.output


def test_keeping_outside_a_run_is_refused():
    with pytest.raises(NoRun):
        keep(b"x")


# ---- large values ----------------------------------------------------------------------------------------------------


def test_a_large_result_moves_out_and_comes_back_when_the_run_resumes(world, ledger):
    for _ in range(2):
        with world.worker().run("a", conversation="c", dedupe="1") as run:
            assert run.step("s", lambda: {"rows": ["r" * 100] * 100_000}) == {"rows": ["r" * 100] * 100_000}
            assert run.ask(lambda request: "long " * 100_000, "q").text == "long " * 100_000
            run.finish("z" * 400_000)
    with world.worker().run("a", conversation="c", dedupe="1") as run:
        assert run.output == "z" * 400_000
    assert (
        types_of(ledger, "c").count("artifact.spilled") == 3
    )  # result, body, output; the response's own too


def test_one_mutation_is_one_append_also_when_it_spills(world):
    faulty = FaultyStore(world.parts.store)
    world.parts = replace(world.parts, store=faulty)
    with world.worker().run("a", conversation="c") as run:
        before = faulty.faults.counts.get("append", 0)
        run.step("s", lambda: "x" * 400_000)
        assert faulty.faults.counts["append"] - before == 2


def test_an_append_whose_answer_was_lost_lands_once_with_what_it_spilled(world):
    faulty = FaultyStore(world.parts.store)
    world.parts = replace(world.parts, store=faulty)
    ledger = world.worker()

    @counterfoil.effect("keep.big", version="1", touches={"external"}, doubt=counterfoil.by_review())
    def big():
        faulty.faults.next("append", FailAfter())
        return "x" * 400_000

    with ledger.run("a", conversation="c"):
        assert len(big()) == 400_000
    assert types_of(ledger, "c").count("artifact.spilled") == 1
    assert types_of(ledger, "c").count("effect.observed") == 1


def test_a_missing_spilled_value_is_missing_and_never_empty(world, ledger):
    with ledger.run("a", conversation="c", dedupe="1") as run:
        run.step("s", lambda: "x" * 400_000)
    (name,) = objects(ledger)
    ledger.artifacts.store.delete(name)
    (event,) = ledger.events("c", types=["step.finished"])
    with pytest.raises(counterfoil.CounterfoilError) as missing:
        _ = event.content
    assert missing.value.state == "missing"
    assert event.content_or_none() is None
    assert event.outline["result"]["$spilled"]["bytes"] == 400_002
    with (
        pytest.raises(counterfoil.CounterfoilError),
        world.worker().run("a", conversation="c", dedupe="1") as run,
    ):
        run.step("s", lambda: "again")


# ---- what cannot be had ----------------------------------------------------------------------------------------------


def test_a_missing_artifact_is_missing_and_never_empty(ledger):
    with ledger.run("a", conversation="c") as run:
        kept = run.artifact(b"")
    ledger.artifacts.store.delete(kept.sha256)
    for call in (kept.read, lambda: list(kept.pieces()), lambda: kept.open().read()):
        with pytest.raises(ArtifactUnavailable) as missing:
            call()
        assert missing.value.state == "missing"


def test_a_damaged_artifact_says_so_with_its_name(ledger):
    with ledger.run("a", conversation="c") as run:
        kept = run.artifact(b"some bytes")
    store = ledger.artifacts.store
    store._objects[kept.sha256] = store._objects[kept.sha256][:-1] + b"?"
    with pytest.raises(ArtifactDamaged, match=kept.sha256[:12]) as damaged:
        kept.read()
    assert damaged.value.sha256 == kept.sha256


def test_without_its_key_an_artifact_is_missing_and_says_why(world, ledger):
    with ledger.run("a", conversation="c") as run:
        kept = run.artifact(b"x", subject="ann", classification="personal")
    ledger.keyring.store.delete([kept.key])
    ledger.keyring.forget()
    with pytest.raises(ArtifactUnavailable, match="data key"):
        kept.read()


def test_whoever_may_not_is_refused_before_a_byte_is_read(ledger):
    with ledger.run("a", conversation="c") as run:
        kept = run.artifact(b"x", classification="secret")

        def authorize(reference):
            if reference.klass == "secret":
                raise counterfoil.errors.NotPermitted("not for you")

        ledger.artifacts.vault.authorize = authorize
        with pytest.raises(counterfoil.errors.NotPermitted):
            kept.read()


def test_a_value_that_may_not_be_read_is_withheld_and_hides_no_other(world, ledger):
    with ledger.run("a", conversation="c") as run:
        run.step("large", lambda: "x" * 400_000)

    def authorize(reference):
        raise counterfoil.errors.NotPermitted("not for you")

    ledger.artifacts.vault.authorize = authorize
    world.parts = replace(world.parts, artifacts=None)
    for reader in (ledger, world.worker()):
        (event,) = reader.events("c", types=["step.finished"])
        with pytest.raises(ContentUnavailable) as refusal:
            _ = event.content
        assert refusal.value.state == "withheld"
        assert (event.content_or_none(), event.content_state) == (None, "present")
        assert event.outline["result"]["$spilled"]["form"] == "json"


def test_a_ledger_without_a_place_for_artifacts_refuses_them_and_keeps_values_in_events(world):
    world.parts = replace(world.parts, artifacts=None)
    ledger = world.worker()
    with ledger.run("a", conversation="c") as run:
        with pytest.raises(ConfigInvalid, match="artifacts"):
            run.artifact(b"x")
        run.step("s", lambda: "x" * 400_000)
    assert "artifact.spilled" not in types_of(ledger, "c")
    assert facts(ledger, "c", "run.finished")[0]["terminal"] == "success"


def test_a_fault_of_the_store_is_raised_and_recorded_nowhere(world):
    faulty = FaultyStore(world.parts.store)
    world.parts = replace(world.parts, store=faulty)
    ledger = world.worker()
    with ledger.run("a", conversation="c") as run:
        faulty.faults.next("append", Fail())
        with pytest.raises(counterfoil.errors.StoreIO):
            run.artifact(b"x", name="f")
        assert run.artifact(b"x", name="f").read() == b"x"
    assert len(stored(ledger)) == 1
