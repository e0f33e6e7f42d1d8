"""Compactions, draft checkpoints and sandbox probes: one event each, once, and refused where they would be untrue."""

from __future__ import annotations

import asyncio
import hashlib

import pytest

import counterfoil
from counterfoil.abc import Host, Probed
from counterfoil.errors import Divergence, InputError, InvalidForm, RunClosed, StoreBusy
from tests.running import facts, types_of


def leave_open(ledger, body, dedupe="1"):
    with pytest.raises(StoreBusy), ledger.run("a", conversation="c", dedupe=dedupe) as run:
        body(run)
        raise StoreBusy("the disk is busy")


def contents(ledger, event_type):
    return [dict(event.content) for event in ledger.events("c", types=[event_type])]


# ---- compaction -------------------------------------------------------------------------------------------------------


def test_a_compaction_names_the_exact_events_and_keeps_its_summary(ledger):
    with ledger.run("a", conversation="c", message="a long story") as run:
        made = run.compact(from_sequence=1, to_sequence=3, summary={"text": "they spoke"}, cause="size")
    assert (made.from_sequence, made.to_sequence, made.summary) == (1, 3, {"text": "they spoke"})
    (event,) = ledger.events("c", types=["compaction.recorded"])
    assert dict(event.data) == {"from_sequence": 1, "to_sequence": 3, "cause": "size"}
    assert (event.sequence, event.content["summary"]) == (made.sequence, {"text": "they spoke"})


def test_the_events_behind_a_compaction_stay_as_they_are(ledger):
    with ledger.run("a", conversation="c", message="a long story") as run:
        before = [(e.sequence, e.hash) for e in ledger.events("c")]
        run.compact(from_sequence=1, to_sequence=3, summary="they spoke")
    assert [(e.sequence, e.hash) for e in ledger.events("c")][: len(before)] == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"from_sequence": 0},
        {"from_sequence": -1},
        {"from_sequence": True},
        {"from_sequence": "1"},
        {"from_sequence": 3, "to_sequence": 2},
        {"to_sequence": 4},
        {"to_sequence": 2**60},
        {"to_sequence": None},
        {"cause": "because"},
        {"summary": None},
        {"messages": 1},
        {"messages": b"ab"},
        {"messages": {"role": "user"}},
    ],
    ids=repr,
)
def test_a_range_that_the_conversation_does_not_hold_is_refused(ledger, wrong):
    with ledger.run("a", conversation="c") as run:
        with pytest.raises(InputError):
            run.compact(**{"from_sequence": 1, "to_sequence": 3, "summary": "s", **wrong})
        run.compact(from_sequence=1, to_sequence=3, summary="s")
    assert len(facts(ledger, "c", "compaction.recorded")) == 1


def test_text_in_place_of_messages_is_what_the_user_says_as_in_a_request(ledger):
    with ledger.run("a", conversation="c") as run:
        run.compact(from_sequence=1, to_sequence=3, summary="s", messages="ab")
        run.ask(lambda _: "ok", "ab")
    (made,), (asked,) = facts(ledger, "c", "compaction.recorded"), facts(ledger, "c", "provider.requested")
    assert made["tip_after"] == asked["tip"]


def test_the_refusal_names_the_end_of_the_conversation(ledger):
    with (
        ledger.run("a", conversation="c") as run,
        pytest.raises(InvalidForm, match=r"has 3 events.*ends at 9"),
    ):
        run.compact(from_sequence=1, to_sequence=9, summary="s")


def test_a_compaction_is_recorded_once_however_often_the_code_runs(ledger):
    made = []

    def agent(run):
        made.append(run.compact(from_sequence=1, to_sequence=3, summary=("a", 1)))
        made.append(run.compact(from_sequence=1, to_sequence=3, summary=("a", 1)))

    leave_open(ledger, agent)
    with ledger.run("a", conversation="c", dedupe="1") as run:
        agent(run)
    assert made[:2] == made[2:]
    assert made[0].summary == ("a", 1)
    assert len(facts(ledger, "c", "compaction.recorded")) == 2


def test_a_run_that_has_ended_compacts_nothing_more(ledger):
    with ledger.run("a", conversation="c", dedupe="1"):
        pass
    with ledger.run("a", conversation="c", dedupe="1") as run, pytest.raises(RunClosed):
        run.compact(from_sequence=1, to_sequence=3, summary="s")


def test_code_that_compacts_where_the_record_has_a_step_diverges(ledger):
    leave_open(ledger, lambda run: run.step("s", lambda: 1))
    with pytest.raises(Divergence), ledger.run("a", conversation="c", dedupe="1") as run:
        run.compact(from_sequence=1, to_sequence=3, summary="s")


def test_a_compaction_names_the_nodes_where_one_branch_ends_and_the_next_begins(ledger):
    history = [{"role": "user", "content": "a long story"}, {"role": "assistant", "content": "I see"}]
    summary = [{"role": "system", "content": "they spoke of a kettle"}]
    made = []

    def agent(run):
        run.ask(lambda request: "ok", history)
        made.append(run.compact(from_sequence=1, to_sequence=3, summary="s", messages=summary))
        run.ask(lambda request: "ok", summary)

    for _ in range(2):
        leave_open(ledger, agent)
    (said,) = facts(ledger, "c", "compaction.recorded")
    before, after = (asked["tip"] for asked in facts(ledger, "c", "provider.requested"))
    assert (said["tip_before"], said["tip_after"]) == (before, after)
    assert made[0] == made[1]
    assert (made[0].tip_before, made[0].tip_after) == (before, after)


def test_a_compaction_before_any_request_names_no_node(ledger):
    with ledger.run("a", conversation="c") as run:
        made = run.compact(from_sequence=1, to_sequence=3, summary="s")
    assert (made.tip_before, made.tip_after) == (None, None)


# ---- drafts -----------------------------------------------------------------------------------------------------------


def test_a_draft_is_recorded_by_hash_and_size_and_nowhere_itself(ledger):
    draft = "Dear Jane, your refund …"
    with ledger.run("a", conversation="c") as run:
        made = run.checkpoint_draft(draft, chunks=7, name="reply")
        run.checkpoint_draft(draft.encode(), chunks=8, name="reply")
        run.checkpoint_draft(draft + "!", chunks=9, name="reply")
    raw = draft.encode()
    assert (made.sha256, made.size) == (hashlib.sha256(raw).hexdigest(), len(raw))
    first, second, third = facts(ledger, "c", "draft.checkpointed")
    assert (first["chunks"], first["draft"] == second["draft"], first["draft"] == third["draft"]) == (
        7,
        True,
        False,
    )
    assert len(first["draft"]) == 32
    kept = contents(ledger, "draft.checkpointed")[0]
    assert (kept["sha256"], kept["size"], kept["name"]) == (made.sha256, made.size, "reply")
    assert "Jane" not in repr([dict(event.content) for event in ledger.events("c")])


def test_the_hash_of_a_draft_stands_nowhere_in_the_open(ledger):
    with ledger.run("a", conversation="c") as run:
        made = run.checkpoint_draft("yes", chunks=1)
    for event in ledger.events("c"):
        assert made.sha256 not in repr(event.header.raw)


@pytest.mark.parametrize("draft, chunks", [(None, 1), (7, 1), ("a", -1), ("a", None), ("a", True)])
def test_a_draft_is_text_or_bytes_in_so_many_chunks(ledger, draft, chunks):
    with ledger.run("a", conversation="c") as run, pytest.raises(InvalidForm):
        run.checkpoint_draft(draft, chunks=chunks)
    assert "draft.checkpointed" not in types_of(ledger, "c")


def test_a_draft_with_half_a_character_has_a_checkpoint_too(ledger):
    with ledger.run("a", conversation="c") as run:
        assert run.checkpoint_draft("\ud83d", chunks=1).size == 3


# ---- sandboxes --------------------------------------------------------------------------------------------------------


class Cage:
    """A sandbox of the host, and how often it was looked at."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    def probe(self, sandbox):
        self.asked.append(sandbox)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def with_cage(world, answer):
    cage = Cage(answer)
    ledger = world.worker()
    ledger.host = Host(sandbox=cage)
    return ledger, cage


def test_the_default_says_what_it_cannot_tell(ledger):
    with ledger.run("a", conversation="c") as run:
        found = run.probe()
    assert (found.ok, found.capabilities) == (False, ())
    assert "network" in found.output["cannot_tell"]
    assert facts(ledger, "c", "sandbox.probed") == [{"sandbox": "process", "ok": False, "capabilities": []}]


def test_a_host_says_what_its_sandbox_allows_and_is_asked_once(world):
    ledger, cage = with_cage(world, Probed(True, ("files.read",), {"kernel": "6.1"}))
    found = []
    leave_open(ledger, lambda run: found.append(run.probe("cage")))
    with ledger.run("a", conversation="c", dedupe="1") as run:
        found.append(run.probe("cage"))
        found.append(run.probe("cage"))
    assert found == [Probed(True, ("files.read",), {"kernel": "6.1"})] * 3
    assert cage.asked == ["cage", "cage"]
    assert facts(ledger, "c", "sandbox.probed")[0] == {
        "sandbox": "cage",
        "ok": True,
        "capabilities": ["files.read"],
    }
    assert contents(ledger, "sandbox.probed")[0]["output"] == {"kernel": "6.1"}


def test_a_probe_that_raises_found_no_sandbox(world):
    ledger, _ = with_cage(world, ConnectionError("the socket of Jane's machine"))
    with ledger.run("a", conversation="c") as run:
        assert run.probe("cage") == Probed(False, (), {"error": "ConnectionError"})
    assert "Jane" not in repr(contents(ledger, "sandbox.probed"))


@pytest.mark.parametrize(
    "answer",
    [
        None,
        True,
        Probed(True, ("no label",)),
        Probed(True, ("x",) * 65),
        Probed("yes"),
        Probed(True, (), {"o": object()}),
    ],
    ids=["nothing", "a bool", "no label", "too many", "no bool", "no form"],
)
def test_an_answer_that_is_none_is_refused_and_not_recorded(world, answer):
    ledger, _ = with_cage(world, answer)
    with ledger.run("a", conversation="c") as run, pytest.raises(InputError):
        run.probe("cage")
    assert "sandbox.probed" not in types_of(ledger, "c")


def test_the_host_is_given_when_the_ledger_is_opened(tmp_path):
    cage = Cage(Probed(True, ("network",)))
    opened = counterfoil.open(tmp_path / "ledger", host=Host(sandbox=cage))
    with opened as ledger, ledger.run("a", conversation="c") as run:
        assert run.probe("cage").capabilities == ("network",)


def test_tasks_have_the_same_words(world):
    ledger, cage = with_cage(world, Probed(True))

    async def agent():
        async with ledger.run("a", conversation="c", dedupe="1") as run:
            await run.acompact(from_sequence=1, to_sequence=3, summary="s")
            await run.acheckpoint_draft("d", chunks=1)
            assert (await run.aprobe("cage")).ok

    asyncio.run(agent())
    asyncio.run(agent())
    assert types_of(ledger, "c").count("compaction.recorded") == 1
    assert cage.asked == ["cage"]
