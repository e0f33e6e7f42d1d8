"""Requests on the context tree: each is made again byte for byte, and a conversation costs the sum of its messages."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

from counterfoil.core.limits import SPILL_BYTES
from counterfoil.errors import ContentDamaged, InvalidForm, NotFoundError
from counterfoil.flow.drive import drive
from counterfoil.runtime.trees import Tree, last_tip
from tests.running import ScriptedModel, facts, vanish

BRANCH = "provider.message_recorded"


class Echo:
    """Remembers the exact bytes of every request, in the order in which they were asked."""

    def __init__(self):
        self.sent = []

    def __call__(self, request):
        self.sent.append(request.body)
        return "ok"


def rebuilt(ledger, conversation="c"):
    return [found.body for found in ledger.requests(conversation)]


def brought(ledger, conversation="c"):
    """Every body that was written out, in order."""
    branches = ledger.events(conversation, types=[BRANCH])
    return [entry for event in branches for entry in event.content["bodies"] if isinstance(entry, str)]


def test_every_request_of_a_growing_history_is_made_again_and_each_message_is_written_once(ledger):
    model, history = Echo(), []
    with ledger.run("a", conversation="c") as run:
        for turn in range(30):
            history.append({"role": "user", "content": f"question {turn}"})
            run.ask(model, history, tools=[{"name": "refund", "about": "x" * 500}], temperature=0.5)
    assert rebuilt(ledger) == model.sent
    assert len(brought(ledger)) == len(set(brought(ledger))) == 31


def test_an_edit_in_the_middle_and_a_compaction_are_branches_of_the_same_tree(ledger):
    model = Echo()
    history = [{"role": "user", "content": f"m{n}"} for n in range(10)]
    with ledger.run("a", conversation="c") as run:
        run.ask(model, history)
        run.ask(model, [*history[:3], {"role": "user", "content": "edited"}, *history[4:]])
        run.ask(model, [{"role": "user", "content": "what was said so far"}, *history[8:]])
        run.ask(model, history)
    assert rebuilt(ledger) == model.sent
    assert len(brought(ledger)) == 12
    first, *_, last = facts(ledger, "c", "provider.requested")
    assert first["tip"] == last["tip"]


def test_a_request_says_what_it_shares_with_the_one_before(ledger):
    with ledger.run("a", conversation="c") as run:
        run.ask(Echo(), ["one", "two"])
        run.ask(Echo(), ["one", "two", "three"])
        run.ask(Echo(), ["none of it"])
    first, second, third = ledger.requests("c")
    assert (first.shared_messages, first.shared_bytes) == (0, None)
    assert (second.shared_messages, second.shared_bytes) == (2, len(b'{"messages":["one","two"'))
    assert (third.shared_messages, third.shared_bytes) == (0, len(b'{"messages":["'))
    assert ledger.request(third.event.data["call_id"]).shared_bytes == third.shared_bytes


def test_another_worker_goes_on_with_the_tree_that_the_first_one_recorded(world, ledger):
    history = ["one", "two"]
    vanish(ledger.run("a", conversation="c", dedupe="1"), lambda run: run.ask(Echo(), history))
    world.expire_leases()
    second = Echo()
    with world.worker().run("a", conversation="c", dedupe="1") as again:
        again.ask(second, history, name="Echo")
        again.ask(second, [*history, "three"], name="Echo")
    assert brought(ledger) == ['"one"', '"two"', '"three"']
    with ledger.run("a", conversation="c", dedupe="2") as run:
        run.ask(second, [*history, "three", "four"])
    assert brought(ledger)[3:] == ['"four"']
    assert rebuilt(ledger)[1:] == second.sent


def test_a_run_whose_request_is_lost_with_its_worker_records_no_body_that_is_not_durable(world, ledger):
    class Full(Exception):
        pass

    append = ledger.store.append
    history = ["one"]
    with pytest.raises(Full), ledger.run("a", conversation="c", dedupe="1") as run:
        ledger.store.append = lambda units: (_ for _ in ()).throw(Full())
        try:
            run.ask(Echo(), history)
        finally:
            ledger.store.append = append
    model = Echo()
    with ledger.run("a", conversation="c", dedupe="2") as run:
        run.ask(model, history)
    assert rebuilt(ledger) == model.sent
    assert brought(ledger) == ['"one"']


def test_siblings_that_share_a_history_write_it_once(ledger):
    history = [f"message {n}" * 20 for n in range(40)]

    async def main():
        async with ledger.run("a", conversation="c") as run:
            await asyncio.gather(*(run.aask(Echo(), [*history, f"of {n}"]) for n in range(8)))

    asyncio.run(main())
    assert len(brought(ledger)) == len(set(brought(ledger))) == 48
    assert all(found.exact for found in ledger.requests("c"))


def test_threads_that_share_a_history_write_it_once(ledger):
    history = [f"message {n}" * 20 for n in range(40)]
    with ledger.run("a", conversation="c") as run:
        ask = run.bind(lambda n: run.ask(Echo(), [*history, f"of {n}"]))
        threads = [threading.Thread(target=ask, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(brought(ledger)) == len(set(brought(ledger))) == 46


def test_a_large_message_moves_to_an_artifact_and_is_not_read_for_the_tree(world, ledger):
    large = "0123456789abcdef" * (SPILL_BYTES // 8)
    model = Echo()
    vanish(ledger.run("a", conversation="c", dedupe="1"), lambda run: run.ask(model, ["small", large]))
    (spilled,) = ledger.events("c", types=["artifact.spilled"])
    assert spilled.content["form"] == "text"
    world.expire_leases()
    other = world.worker()
    reads = []
    other.ports.vault.authorize = reads.append
    with other.run("a", conversation="c", dedupe="2", while_running="reject", wait_s=0) as run:
        run.ask(model, ["small", large, "more"])
    assert reads == []
    assert rebuilt(ledger) == model.sent
    assert brought(ledger) == ['"small"', f'"{large}"', '"more"']


def test_a_body_that_is_gone_is_named_and_its_neighbours_are_shown(world, ledger):
    large = "x" * 2 * SPILL_BYTES
    model = Echo()
    with ledger.run("a", conversation="c") as run:
        run.ask(model, ["before"])
        run.ask(model, ["before", large])
        run.ask(model, ["after"])
    (spilled,) = ledger.events("c", types=["artifact.spilled"])
    del ledger.artifacts.store._objects[spilled.header.artifact_refs[0]["sha256"]]
    first, second, third = ledger.requests("c")
    assert (first.body, third.body) == (model.sent[0], model.sent[2])
    assert second.body is None
    assert [gone.state for gone in second.gone] == ["missing"]


def test_the_state_slots_in_use_stand_beside_the_request(ledger):
    with ledger.run("a", conversation="c") as run:
        for version in range(3):
            run.state["plan"] = version
        run.ask(Echo(), "hi")
    assert [dict(found.slots) for found in ledger.requests("c")] == [{"plan": 3}]


def test_the_tip_of_the_last_request_is_known_to_whoever_compacts(world, ledger):
    with ledger.run("a", conversation="c") as run:
        assert drive(last_tip(run._open_scope()), ledger.ports) is None
        run.ask(Echo(), ["one"])
        run.ask(Echo(), ["one", "two"])
        tip = drive(last_tip(run._open_scope()), ledger.ports)
    assert tip == facts(ledger, "c", "provider.requested")[-1]["tip"]
    other = world.worker()
    with other.run("a", conversation="c") as run:
        assert drive(last_tip(run._open_scope()), other.ports) == tip


def test_a_request_is_found_by_its_step_its_call_and_its_event_with_and_without_its_conversation(ledger):
    for name in ("c", "d"):
        with ledger.run("a", conversation=name) as run:
            run.ask(ScriptedModel("yes"), f"in {name}")
    found = next(iter(ledger.requests("d")))
    event = found.event
    for name in (event.header.step_id, event.data["call_id"], event.event_id):
        assert ledger.request(name).body == found.body == ledger.request(name, "d").body
    with pytest.raises(NotFoundError):
        ledger.request(event.header.step_id, "c")


def test_a_step_that_was_tried_again_is_shown_by_its_last_attempt(world, ledger):
    class Gone(BaseException):
        pass

    def dies(run):
        with pytest.raises(Gone):
            run.ask(ScriptedModel(Gone()), "q")

    vanish(ledger.run("a", conversation="c", dedupe="1"), dies)
    world.expire_leases()
    with world.worker().run("a", conversation="c", dedupe="1") as again:
        again.ask(ScriptedModel("yes"), "q")
    first, second = ledger.requests("c")
    assert ledger.request(first.event.header.step_id).event.header.attempt == 2
    assert first.body == second.body
    assert brought(ledger) == ['{"content":"q","role":"user"}']


def test_segments_that_make_other_bytes_are_never_shown_as_exact(ledger, monkeypatch):
    with ledger.run("a", conversation="c") as run:
        run.ask(Echo(), ["one"])
    (event,) = ledger.events("c", types=["provider.requested"])
    event.header.raw["data"]["request"] = "00" * 32
    monkeypatch.setattr("counterfoil.client.reading.view", lambda ports, stored: _with(ports, stored, event))
    with pytest.raises(ContentDamaged):
        list(ledger.requests("c"))


def _with(ports, stored, event):
    return event if stored.sequence == event.sequence else ports.event(stored)


def test_a_tree_keeps_hashes_and_no_key(ledger):
    with ledger.run("a", conversation="c") as run:
        run.ask(Echo(), ["one"])
        known = drive(run._open_scope().part(Tree).caught_up(), ledger.ports)
    assert len(known.nodes) == 2
    assert not hasattr(known.nodes, "_material")


def test_bytes_that_a_client_has_encoded_are_recorded_as_they_are_sent_and_still_at_linear_size(ledger):
    model, history = Echo(), []
    with ledger.run("a", conversation="c", dedupe="1") as run:
        for turn in range(20):
            history.append({"role": "user", "content": f"question {turn} é"})
            sent = json.dumps({"model": "m", "messages": history, "stream": False}, indent=1).encode()
            run.ask(model, history, sent=sent)
            assert model.sent[-1] == sent
    assert rebuilt(ledger) == model.sent
    assert len(brought(ledger)) == len(set(brought(ledger))) == 20
    with ledger.run("a", conversation="c", dedupe="1") as again:
        first = json.dumps({"model": "m", "messages": history[:1], "stream": False}, indent=1).encode()
        assert again.ask(model, history[:1], sent=first).text == "ok"
    assert len(model.sent) == 20


@pytest.mark.parametrize("sent", ["text", b"\xff\xfe"], ids=["text", "no UTF-8"])
def test_what_cannot_be_recorded_as_sent_is_refused_before_anything_is_written(ledger, sent):
    with ledger.run("a", conversation="c") as run, pytest.raises(InvalidForm):
        run.ask(Echo(), "q", sent=sent)
    assert not facts(ledger, "c", "step.started")


def test_an_answer_is_written_once_and_the_texts_of_a_run_end_with_it(ledger):
    answer, sent = "The kettle is on its way. " * 20, []

    def model(request):
        sent.append(request.body)
        return answer

    with ledger.run("a", conversation="c") as run:
        run.ask(model, ["q"])
        run.ask(model, ["q", {"role": "assistant", "content": answer}, "more"])
    assert rebuilt(ledger) == sent
    branches = [event.content["bodies"] for event in ledger.events("c", types=[BRANCH])]
    (responded, _) = ledger.events("c", types=["provider.responded"])
    assert branches[1][0]["said"] == responded.event_id
    assert answer not in str(branches)
    assert all(not hasattr(known, "said") for known in ledger._trees._known.values())
    with ledger.run("a", conversation="c") as run:
        run.ask(model, ["q", {"role": "assistant", "content": answer}, "more", "and more"])
    assert rebuilt(ledger) == sent
