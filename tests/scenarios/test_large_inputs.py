"""Arguments and messages that are too large for an event move to artifacts by themselves, and everything goes on as with small ones."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePosixPath
from uuid import UUID

import pytest
from msgspec.structs import replace

import counterfoil
from counterfoil.artifacts import Artifact
from counterfoil.client.features import FEATURES
from counterfoil.effects.registry import own_tools
from counterfoil.effects.rows import EFFECT_KEYS
from counterfoil.errors import AdmissionConflict, IdempotencyConflict, RunWaiting
from counterfoil.evidence.verify import verify
from counterfoil.policy import RuleList, ask
from counterfoil.testing.manual import ManualClock
from tests.command import Shell
from tests.running import World, vanish

LARGE = "é" * 400_000
TABLES = ("effects", "effect_keys", "admissions", "admission_keys", "approvals")


class Gone(BaseException):
    """The worker is gone in the middle of the call."""


@pytest.fixture(autouse=True)
def _tools():
    with own_tools():
        yield


@pytest.fixture
def world():
    return World()


def letters(sent, **settings):
    @counterfoil.effect(
        "letter.send",
        version="1",
        touches={"messages"},
        **{"doubt": counterfoil.by_key(), "key": lambda to, **_: f"letter:{to}", **settings},
    )
    def send(to: str, text: str, *, idempotency_key: str = "") -> str:
        sent.append((to, len(text), idempotency_key))
        return "sent"

    return send


def rows(ledger):
    """The rows without their versions, which a rebuild counts anew."""
    found = {table: ledger.store.select(table, None, (), None, 100) for table in TABLES}
    return {
        table: [{name: value for name, value in row.items() if name != "row_version"} for row in kept]
        for table, kept in found.items()
    }


def sound(ledger):
    return verify(ledger.store, ledger.keyring, FEATURES).exit_code == 0


def test_large_arguments_move_out_and_the_effect_is_the_same(world):
    ledger, sent = world.worker(), []
    send = letters(sent)
    with ledger.run("post", conversation="c") as run:
        assert send(to="ann", text=LARGE) == "sent"
    assert sent == [("ann", len(LARGE), "letter:ann")]
    for kind in ("decision.proposed", "effect.intended"):
        for event in ledger.events("c", types=[kind], run_id=run.id):
            assert event.outline["arguments"]["$spilled"]["form"] == "json"
            assert event.content["arguments"] == {"to": "ann", "text": LARGE}
    assert sound(ledger)


def test_rows_of_large_inputs_are_made_again_without_any_artifact(world):
    ledger, sent = world.worker(), []
    send = letters(sent)
    with ledger.run("post", conversation="c", message=LARGE, dedupe="m-1"):
        send(to="ann", text=LARGE)
    before = rows(ledger)
    assert before["effect_keys"]
    assert before["admission_keys"]
    world.parts = replace(world.parts, artifacts=None)
    blind = world.worker()
    blind.rebuild()
    assert rows(blind) == before


def test_the_same_large_call_is_one_effect_and_another_is_a_conflict(world):
    ledger, sent = world.worker(), []
    send = letters(sent)
    with ledger.run("post", conversation="c"):
        send(to="ann", text=LARGE)
    with ledger.run("post", conversation="d"):
        assert send(to="ann", text=LARGE) == "sent"
        with pytest.raises(IdempotencyConflict):
            send(to="ann", text=LARGE + "!")
    assert len(sent) == 1
    assert len(ledger.store.select(EFFECT_KEYS.name, None, (), None, 10)) == 1


def test_recovery_gives_a_lookup_the_whole_arguments(world):
    ledger, asked = world.worker(), []

    def find(*, idempotency_key, to, text):
        asked.append((to, len(text)))
        return counterfoil.Found("succeeded", "sent")

    @counterfoil.effect("letter.post", version="1", touches={"messages"}, doubt=counterfoil.by_lookup(find))
    def post(to: str, text: str, *, idempotency_key: str = "") -> str:
        raise Gone

    def dying(run):
        with pytest.raises(Gone):
            post(to="ann", text=LARGE)

    run_id = vanish(ledger.run("post", conversation="c"), dying)
    world.clock.advance(300_000)
    other = world.worker()
    other.recover()
    assert asked
    assert set(asked) == {("ann", len(LARGE))}
    (effect,) = other.effects(run_id=run_id)
    assert effect["state"] == "succeeded"


def test_a_large_message_is_admitted_once_and_read_whole(world):
    ledger = world.worker()
    with ledger.run("post", conversation="c", message={"text": LARGE}, dedupe="m-1", subject="ann") as run:
        assert run.message == {"text": LARGE}
        run.finish("done")
    (accepted,) = ledger.events("c", types=["admission.accepted"])
    (told,) = ledger.events("c", types=["artifact.spilled"])
    # It lies under the key of the person whom it is about.
    assert (
        accepted.header.artifact_refs[0]["key"]
        == ledger.ports.subject_key(ledger.stream_of("c"), "ann").key_id
    )
    assert told.header.content[0].key == accepted.header.artifact_refs[0]["key"]
    with ledger.run("post", conversation="c", message={"text": LARGE}, dedupe="m-1", subject="ann") as run:
        assert run.output == "done"
    other = ledger.run("post", conversation="c", message={"text": LARGE + "!"}, dedupe="m-1", subject="ann")
    with pytest.raises(AdmissionConflict):
        other.__enter__()
    assert sound(ledger)


def test_who_permits_a_call_sees_its_large_arguments(tmp_path):
    place, sent, clock = tmp_path / "shop", [], ManualClock()
    policy = RuleList("letters", revision="1", otherwise="ask", rules=[ask("all", question="Send it?")])
    send = letters(sent)
    with counterfoil.open(place, policy=policy, clock=clock) as ledger:
        with pytest.raises(RunWaiting), ledger.run("post", conversation="c", dedupe="m") as run:
            send(to="ann", text=LARGE)
        (waiting,) = ledger.approvals()
        shell = Shell(tmp_path, clock)
        shown = shell("approve", "show", str(waiting["approval_id"]), "--json")
        assert json.loads(shown.out)["request"]["arguments"] == {"to": "ann", "text": LARGE}
        assert "ann" in shell("approve", "show", str(waiting["approval_id"])).out
        ledger.approve(str(waiting["approval_id"]), by="olga", comment="fine")
        with ledger.run("post", conversation="c", resume=run.id):
            assert send(to="ann", text=LARGE) == "sent"
        assert sound(ledger)
    assert len(sent) == 1


def test_long_bytes_in_arguments_move_alone(world):
    ledger, seen = world.worker(), []

    @counterfoil.effect("scan.read", version="1", touches=set(), doubt=counterfoil.by_repeating())
    def read(page: bytes, number: int) -> int:
        seen.append(len(page))
        return number

    with ledger.run("post", conversation="c"):
        assert read(page=b"\xff\xfe" * 5_000, number=3) == 3
    (intended,) = ledger.events("c", types=["effect.intended"])
    assert intended.outline["arguments"]["number"] == 3
    assert intended.outline["arguments"]["page"]["$spilled"]["form"] == "bytes"
    assert seen == [10_000]


def test_without_a_place_for_artifacts_arguments_stay_in_the_event(world):
    world.parts = replace(world.parts, artifacts=None)
    ledger, sent = world.worker(), []
    send = letters(sent)
    with ledger.run("post", conversation="c"):
        send(to="ann", text=LARGE)
    (intended,) = ledger.events("c", types=["effect.intended"])
    assert intended.outline["arguments"]["text"] == LARGE


# ---- odd results (case S05) ------------------------------------------------------------------------------------------


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Line:
    article: str
    price: Decimal


counterfoil.register(Colour, "test.Colour")
counterfoil.register(Line, "test.Line")

RESULTS = {
    "bytes": b"\xff\xfe",
    "long bytes": b"\xff\xfe" * 4_000,
    "a time with its zone": datetime(2026, 3, 1, 9, 30, tzinfo=UTC),
    "a decimal": Decimal("1.10"),
    "a set": {1, 2, 3},
    "a member of an enum": Colour.RED,
    "a uuid": UUID("12345678-1234-5678-1234-567812345678"),
    "a dataclass": Line("cup", Decimal("9.90")),
    "keys that are tuples": {("a", 1): "x", ("b", 2): "y"},
    "all of them at once": {"deep": [{"price": Decimal("1.10"), "raw": b"\x00" * 5_000, "kind": Colour.RED}]},
}


@pytest.mark.parametrize("name", RESULTS)
def test_an_odd_result_of_a_tool_comes_back_as_it_was(world, name):
    """Case S05: from the call, from the record when the run resumes, and as the very type that it was."""
    calls = []

    @counterfoil.effect("odd.result", version="1", touches=set(), doubt=counterfoil.by_repeating())
    def odd():
        calls.append(1)
        return RESULTS[name]

    first = world.worker()
    run_id = vanish(first.run("a", conversation="c"), lambda run: odd())
    world.clock.advance(300_000)
    with world.worker().run("a", conversation="c", resume=run_id):
        again = odd()
    assert (again, type(again)) == (RESULTS[name], type(RESULTS[name]))
    assert len(calls) == 1


@pytest.mark.parametrize("value", [Path("/srv/x"), PurePosixPath("a/b")], ids=["path", "pure path"])
def test_a_path_comes_back_as_a_path(world, value):
    """Case S05."""
    run_id = vanish(
        world.worker().run("a", conversation="c"), lambda run: run.step("odd", lambda: {"where": [value]})
    )
    world.clock.advance(300_000)
    with world.worker().run("a", conversation="c", resume=run_id) as run:
        found = run.step("odd", lambda: pytest.fail("it ran again"))
        assert found == {"where": [value]}
        assert isinstance(found["where"][0], PurePosixPath)


def test_a_tool_hands_out_a_file_without_holding_it_in_memory(world):
    """Case S19: the pieces stream in, the result is the reference, and the bytes stream out."""
    made = []

    @counterfoil.effect("dump.make", version="1", touches=set(), doubt=counterfoil.by_repeating())
    def dump() -> Artifact:
        def pieces():
            for number in range(64):
                made.append(number)
                yield bytes([number]) * 65_536

        return counterfoil.artifacts.keep(pieces(), name="dump.bin")

    ledger = world.worker()
    with ledger.run("a", conversation="c") as run:
        found = dump()
        assert (found.size, len(made)) == (64 * 65_536, 64)
        sizes = [len(piece) for piece in found.pieces()]
        assert sum(sizes) == found.size
        assert max(sizes) <= 1_048_576
        run.finish(found)
    (observed,) = ledger.events("c", types=["effect.observed"])
    assert len(json.dumps(dict(observed.content))) < 2_000
