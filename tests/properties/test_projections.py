"""Random histories: rows made again are the rows that grew, a fold from any checkpoint is the whole fold, and what is
erased changes no row and no fold of the system."""

from __future__ import annotations

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import counterfoil
from counterfoil.client import projector
from counterfoil.client.features import FEATURES, TABLES
from counterfoil.core.canonical import decode, encode
from counterfoil.core.values import to_json
from counterfoil.effects import state as effects
from counterfoil.effects.registry import own_tools
from counterfoil.errors import EffectFailed, RunBusy, RunStopped, RunSuspended, RunWaiting
from counterfoil.evidence.verify import verify
from counterfoil.projections import Projection
from counterfoil.runtime import state as runtime
from counterfoil.testing.manual import ManualClock
from tests.running import World, vanish

NOTED = "x.noted"
KEPT_EVERY = 7
"""Events of runs after which projections are checkpointed here, so that short histories have several."""


class Gone(Exception):
    """The application's own failure."""


def seen(state, event):
    """A fold that depends on the order, on public fields, on content, and on everything before."""
    state["count"] += 1
    state["types"][event.type] = state["types"].get(event.type, 0) + 1
    state["mix"] = (state["mix"] * 31 + event.data.get("lines", len(event.type))) % 1_000_003
    state["words"] = [*state["words"], event.content.get("said")][-5:]
    return state


SEEN = Projection("seen", 1, {"count": 0, "types": {}, "mix": 1, "words": []}, seen)
NOTES = Projection(
    "notes", 1, (), lambda state, event: (*state, event.data["lines"]), types=frozenset({NOTED})
)

_texts = st.text(max_size=8)
_op = st.one_of(
    st.tuples(st.just("note"), st.integers(0, 9), _texts),
    st.tuples(st.just("step"), st.integers(0, 2), _texts),
    st.tuples(st.just("slot"), st.sampled_from(["plan", "mood"]), _texts),
    st.tuples(st.just("effect"), st.sampled_from(["good", "rejected", "failed", "lost"]), st.integers(0, 99)),
)
_end = st.sampled_from(["success", "policy_stop", "raises", "vanishes"])
_runs = st.lists(
    st.tuples(st.sampled_from(["c", "d"]), st.lists(_op, max_size=6), _end), min_size=1, max_size=5
)


def tool():
    """A tool whose answer is told with the call; what is lost is in doubt and goes to a person."""

    @counterfoil.effect("parcel.send", version="1", touches={"external"}, doubt=counterfoil.by_review())
    def send(kind: str, number: int) -> str:
        if kind == "rejected":
            raise counterfoil.Rejected("no")
        if kind == "failed":
            raise counterfoil.NotDone("not yet")
        if kind == "lost":
            raise TimeoutError("no answer")
        return f"sent {number}"

    return send


def play(world, ledger, send, histories):
    """Play the runs, each to its own end, in the order given."""
    for number, (conversation, ops, end) in enumerate(histories):
        world.expire_leases()
        run = ledger.run("a", conversation=conversation, dedupe=f"m{number}", while_suspended="start")
        if end == "vanishes":
            body = partial(work_until_lost, send, ops)
            quietly(partial(vanish, run, body))
            continue

        def block(run=run, ops=ops, end=end):
            with run:
                act(run, send, ops)
                if end == "raises":
                    raise Gone
                run.finish(terminal=end)

        quietly(block)


def work_until_lost(send, ops, run):
    quietly(partial(act, run, send, ops), RunSuspended)


def act(run, send, ops):
    for kind, first, second in ops:
        if kind == "note":
            run.record(NOTED, {"lines": first, "said": second})
        elif kind == "step":
            run.step(f"step-{first}", lambda second=second: second)
        elif kind == "slot":
            run.state.set(first, second)
        else:
            quietly(
                lambda first=first, second=second: send(first, second),
                EffectFailed,
                counterfoil.Rejected,
                counterfoil.NotDone,
            )


def quietly(call, *kinds):
    try:
        call()
    except (Gone, RunBusy, RunWaiting, RunStopped, EffectFailed, *kinds):
        return


def rows(ledger):
    """Every derived row, without the number of its changes."""
    return {
        spec.name: [
            {name: cell for name, cell in row.items() if name != "row_version"}
            for row in ledger.store.select(spec.name, limit=10_000)
        ]
        for spec in TABLES
    }


def played(histories):
    world = World(clock=ManualClock())
    ledger = world.worker()
    ledger.declare(NOTED, public={"lines": "n"})
    ledger.project(SEEN)
    ledger.project(NOTES)
    with own_tools():
        play(world, ledger, tool(), histories)
    return ledger


def streams(ledger):
    return [one.stream_id for one in ledger.store.streams(limit=100) if one.kind == "conversation"]


def system_folds(ledger):
    """What recovery and viewers fold of every conversation: headers alone."""
    folded = {}
    for stream_id in streams(ledger):
        conversation, by_effect = runtime.Conversation(), {}
        for event in ledger.events(stream_id):
            conversation = runtime.evolve(conversation, event.type, event.data, event.header.run_id)
            effect_id = event.data.get("effect_id")
            if effect_id is not None:
                by_effect[effect_id] = effects.evolve(
                    by_effect.get(effect_id), event.type, event.data, event.header.attempt
                )
        folded[stream_id] = (conversation, by_effect)
    return folded


@settings(max_examples=20)
@given(_runs)
def test_rows_made_again_are_the_rows_that_grew(histories):
    ledger = played(histories)
    grew = rows(ledger)
    ledger.rebuild()
    assert rows(ledger) == grew
    report = verify(ledger.store, ledger.keyring, FEATURES, registry=ledger.registry)
    assert (report.exit_code, report.rows_differ) == (0, ())


@settings(max_examples=20)
@given(_runs, st.data())
def test_a_fold_from_any_checkpoint_is_the_whole_fold(histories, data):
    usual = projector.EVENTS_KEPT
    projector.EVENTS_KEPT = KEPT_EVERY
    try:
        ledger = played(histories)
    finally:
        projector.EVENTS_KEPT = usual
    for stream_id in streams(ledger):
        saved = list(ledger.events(stream_id, types=["checkpoint.created"]))
        for event in saved:
            # Each checkpoint is what the events before it say, whatever it was itself folded from.
            whole = anew(ledger, event.data["projection"], stream_id, event.data["up_to_sequence"])
            assert encode(event.content["state"]) == whole
        head = ledger.store.head(stream_id).sequence
        sequence = data.draw(st.integers(0, head))
        for name in ("seen", "notes"):
            assert ledger.at(stream_id, sequence).projection(name).encoded == anew(
                ledger, name, stream_id, sequence
            )
            view = ledger.projection(name, stream_id)
            assert (view.encoded, view.up_to_sequence) == (anew(ledger, name, stream_id, head), head)
            assert view.up_to_sequence <= ledger.store.head(stream_id).sequence


def anew(ledger, name, stream_id, sequence):
    """The state folded by hand from the first event."""
    from counterfoil.projections import Told

    declared = ledger.projector.named(name)
    state = declared.first()
    for event in ledger.events(stream_id):
        if event.sequence <= sequence and declared.wants(event.type):
            state = declared.fold(state, Told(event))
    assert decode(declared.encoded(state)) == to_json(state)
    return declared.encoded(state)


@settings(max_examples=20)
@given(_runs, st.sampled_from(["records", "keys"]))
def test_erased_content_changes_no_row_and_no_fold_of_the_system(histories, what):
    ledger = played(histories)
    grew, folded = rows(ledger), system_folds(ledger)
    if what == "keys":
        for stream_id in streams(ledger):
            ledger.keyring.store.delete([ledger.ports.genesis(stream_id).key])
        ledger.keyring.forget()
    else:
        for stream in ledger.store._state.streams.values():
            if stream.columns.kind == "conversation":
                stream.events[:] = [replace(event, content=()) for event in stream.events]
    assert system_folds(ledger) == folded
    ledger.rebuild()
    assert rows(ledger) == grew
    for stream_id in streams(ledger):
        head = ledger.store.head(stream_id).sequence
        assert ledger.at(stream_id, head).projection("notes").stopped is None
