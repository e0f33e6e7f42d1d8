"""Any history verifies clean, and any single change to it is found in the stream and at the event it was made to."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from counterfoil.core.event import Part
from tests.unit.evidence.world import World

TEXTS = st.one_of(st.text(max_size=40), st.integers(0, 5000).map(lambda n: "x" * n))
EVENT = st.fixed_dictionaries(
    {
        "stream": st.integers(0, 2),
        "texts": st.lists(TEXTS, max_size=3),
        "person": st.booleans(),
        "run": st.sampled_from([None, 0, 1]),
        "line": st.one_of(st.none(), st.integers(-(2**53) + 1, 2**53 - 1)),
        "wait": st.integers(0, 5000),
    }
)


class History:
    """A world filled from a list of drawn events."""

    def __init__(self, drawn, content):
        self.world = World(content=content)
        self.streams = [self.world.genesis, self.world.stream(), self.world.stream()]
        runs = [self.world.ids.new("run") for _ in range(2)]
        for each in drawn:
            genesis = self.streams[each["stream"]]
            key = self.world.writer.subject_key(genesis.stream_id, "someone") if each["person"] else None
            parts = [
                Part({"text": text}, key if number else None) for number, text in enumerate(each["texts"])
            ]
            run = None if each["run"] is None else runs[each["run"]]
            data = {} if each["line"] is None else {"line": each["line"]}
            self.world.append(self.world.draft(data=data, parts=parts, run_id=run), genesis=genesis)
            self.world.clock.advance(each["wait"])


histories = st.builds(History, st.lists(EVENT, min_size=3, max_size=14), st.sampled_from(["sealed", "clear"]))


@settings(max_examples=60)
@given(histories, st.sampled_from(["chain", "digests", "content"]))
def test_a_history_that_nobody_touched_verifies_clean(history, level):
    report = history.world.verify(level=level)
    assert (report.exit_code, report.findings) == (0, ())


def flip(data, draw):
    at = draw(st.integers(0, len(data) - 1))
    return data[:at] + bytes([data[at] ^ draw(st.integers(1, 255))]) + data[at + 1 :]


def edit(world, genesis, sequence, draw):
    """Make one change; the sequences at which verify may name it."""
    events = world.events(genesis)
    event = events[sequence - 1]
    kinds = ["header", "hash", "event_id", "event_type", "run_id", "recorded_at_ms", "removed"]
    kinds += ["record", "lost record"] if event.content else []
    kinds += ["swapped"] if sequence < len(events) else []
    kind = draw(st.sampled_from(kinds))
    match kind:
        case "header" | "hash":
            world.change(sequence, genesis, **{kind: flip(getattr(event, kind), draw)})
        case "event_id":
            world.change(sequence, genesis, event_id=world.ids.new("evt"))
        case "event_type":
            world.change(sequence, genesis, event_type="order.lost")
        case "run_id":
            world.change(sequence, genesis, run_id=world.ids.new("run"))
        case "recorded_at_ms":
            world.change(
                sequence, genesis, recorded_at_ms=event.recorded_at_ms + draw(st.sampled_from([-1, 1, 1000]))
            )
        case "removed":
            del events[sequence - 1]
        case "record":
            part = draw(st.integers(0, len(event.content) - 1))
            changed = flip(event.content[part], draw)
            world.change(
                sequence, genesis, content=(*event.content[:part], changed, *event.content[part + 1 :])
            )
        case "lost record":
            part = draw(st.integers(0, len(event.content) - 1))
            world.change(sequence, genesis, content=(*event.content[:part], None, *event.content[part + 1 :]))
        case "swapped":
            one, two = events[sequence - 1], events[sequence]
            events[sequence - 1] = replace(two, sequence=sequence)
            events[sequence] = replace(one, sequence=sequence + 1)
            return {sequence, sequence + 1}
    return {sequence}


@settings(max_examples=150)
@given(histories, st.data())
def test_any_one_change_is_found_where_it_was_made_and_nowhere_else(history, data):
    world = history.world
    filled = [genesis for genesis in history.streams if world.events(genesis)]
    genesis = data.draw(st.sampled_from(filled))
    sequence = data.draw(st.integers(1, len(world.events(genesis))))
    allowed = edit(world, genesis, sequence, data.draw)
    report = world.verify()
    assert report.exit_code == 1
    assert {each.stream_id for each in report.findings} == {genesis.stream_id}
    named = {n for each in report.findings for n in range(each.sequence, (each.through or each.sequence) + 1)}
    assert named
    assert named <= allowed


@settings(max_examples=60)
@given(histories, st.data())
def test_any_byte_of_a_genesis_is_found(history, data):
    world = history.world
    genesis = data.draw(st.sampled_from(history.streams))
    world.change_stream(genesis, genesis=flip(genesis.text, data.draw))
    report = world.verify()
    assert report.exit_code == 1
    assert {(each.kind, each.sequence) for each in report.findings} == {("genesis", 0)}
