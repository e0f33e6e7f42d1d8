"""Exact requests: every request of any history is made again byte for byte, and costs what is new to it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.core import canonical
from counterfoil.core.context import Body, ContextTree, Cut, cut_request
from counterfoil.core.keyed import ROOT_NODE, KeyMaterial
from counterfoil.core.limits import BODIES_MAX, BODY_BYTES_MIN, BRANCH_BYTES_MAX
from counterfoil.errors import ContentDamaged, InvalidForm

STREAM = "str_01J9ZC3Y3V7W2R5T8QK4M6N0PS"


class Recorded:
    """A stream's requests as a writer records them and as another reader makes them again."""

    def __init__(self, key: bytes = bytes(range(32))) -> None:
        self.material = KeyMaterial("dk_01J9ZC3Y3V7W2R5T8QK4M6N0PK", STREAM, key)
        self.writer, self.reader = ContextTree(self.material), ContextTree(self.material)
        self.bodies: dict[bytes, bytes] = {}
        self.written: list[str] = []

    def send(self, whole: bytes, messages: list[bytes], join: str = ",") -> bytes:
        """Record a request; what a reader makes of it."""
        exact = self.writer.exact(cut_request(whole, messages, join))
        self.written.append(canonical.encode([exact.branches, exact.segments]).decode())
        for branch in exact.branches:
            self.writer.add(branch)
        for branch in json.loads(json.dumps(exact.branches)):
            self.bodies.update((body.address, body.data) for body in self.reader.add(branch))
        return self.reader.rebuild(exact.segments, exact.request, self.bodies.__getitem__)


def request_of(messages: list[bytes], after: str = "") -> bytes:
    return b'{"messages":[' + b",".join(messages) + b'],"model":"small-1"' + after.encode() + b"}"


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["", ",", "é🧾", "x" * 9000]
)
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["append", "edit", "cut", "compact", "twice", "empty", "insert"]),
        st.integers(0, 99),
        TEXTS,
        st.booleans(),
    ),
    max_size=25,
)


def edited(messages: list[bytes], how: str, at: int, text: bytes) -> list[bytes]:
    """The history after one change; ``at`` is taken modulo its length."""
    at %= len(messages) + 1
    match how:
        case "edit":
            return [*messages[:at], text, *messages[at + 1 :]]
        case "cut":
            return messages[:at]
        case "compact":
            return [text, *messages[at:]]
        case "twice":
            return [*messages, *messages[at:]]
        case "insert":
            return [*messages[:at], text, *messages[at:]]
        case "empty":
            return []
    return [*messages, text]


@settings(max_examples=60, deadline=None)
@given(EDITS)
def test_every_request_of_any_history_is_made_again_byte_for_byte(edits):
    recorded, messages = Recorded(), list[bytes]()
    for how, at, text, tools in edits:
        messages = edited(messages, how, at, text.encode())[:200]
        whole = request_of(messages, f',"tools":"{"t" * 400}"' if tools else "")
        assert recorded.send(whole, messages) == whole


@settings(max_examples=30, deadline=None)
@given(st.lists(TEXTS, max_size=8), TEXTS, TEXTS, TEXTS)
def test_any_bytes_around_and_between_the_messages_are_made_again(messages, before, join, after):
    bodies = [text.encode() for text in messages]
    whole = Cut(before.encode(), tuple(bodies), after.encode(), join.encode()).whole()
    recorded = Recorded()
    assert [recorded.send(whole, bodies, join) for _ in range(2)] == [whole, whole]


@settings(max_examples=40, deadline=None)
@given(EDITS)
def test_a_body_is_written_once_however_often_it_is_sent(edits):
    recorded, messages, brought = Recorded(), list[bytes](), list[Body]()
    for how, at, text, _ in edits:
        messages = edited(messages, how, at, text.encode())[:200]
        for branch in recorded.writer.exact(cut_request(request_of(messages), messages)).branches:
            brought.extend(recorded.writer.add(branch))
    assert len({body.address for body in brought}) == len(brought)


def test_whole_histories_cost_the_sum_of_their_messages():
    recorded, messages = Recorded(), list[bytes]()
    tools = ',"tools":"' + "t" * 5000 + '"'
    for turn in range(300):
        messages.append(f'{{"content":"{turn:04d}{"m" * 400}","role":"user"}}'.encode())
        recorded.send(request_of(messages, tools), messages)
    distinct = sum(map(len, messages)) + len(tools)
    later = [len(text) for text in recorded.written[1:]]
    assert max(later) - min(later) == 0
    assert sum(map(len, recorded.written)) < 2.5 * distinct


def test_a_request_that_is_sent_again_brings_nothing():
    recorded = Recorded()
    recorded.send(request_of([b"1", b"2"]), [b"1", b"2"])
    assert recorded.writer.exact(cut_request(request_of([b"1", b"2"]), [b"1", b"2"])).branches == []


def test_an_edit_in_the_middle_names_what_follows_it_by_address():
    recorded, old = Recorded(), [b"1", b"2", b"3"]
    recorded.send(request_of(old), old)
    exact = recorded.writer.exact(cut_request(request_of([b"1", b"x", b"3"]), [b"1", b"x", b"3"]))
    parent = recorded.material.node(ROOT_NODE, b"1").hex()
    third = {"body": recorded.material.address(b"3").hex()}
    assert exact.branches == [{"parent": parent, "bodies": ["x", third]}]


def test_two_requests_with_one_beginning_share_its_node():
    recorded = Recorded()
    short = recorded.writer.exact(cut_request(b"1,2", [b"1", b"2"]))
    recorded.send(b"1,2", [b"1", b"2"])
    recorded.send(b"1,2,3", [b"1", b"2", b"3"])
    assert recorded.writer.knows(short.tip)
    assert len(recorded.writer.path(short.tip)) == 2


def test_the_same_messages_have_another_tip_under_another_key():
    cut = cut_request(b"1,2", [b"1", b"2"])
    assert Recorded().writer.exact(cut).tip != Recorded(bytes(32)).writer.exact(cut).tip


def test_branches_hold_no_more_bodies_and_bytes_than_the_format_allows():
    sizes = [10] * 70 + [BRANCH_BYTES_MAX + 1] + [BRANCH_BYTES_MAX // 2] * 3
    messages = [str(number).encode().ljust(size, b".") for number, size in enumerate(sizes)]
    recorded = Recorded()
    branches = recorded.writer.exact(cut_request(b",".join(messages), messages)).branches
    assert [len(branch["bodies"]) for branch in branches] == [BODIES_MAX, 6, 1, 2, 1]
    assert recorded.send(b",".join(messages), messages) == b",".join(messages)


@pytest.mark.parametrize("size, kind", [(BODY_BYTES_MIN - 1, "raw"), (BODY_BYTES_MIN, "body")])
def test_what_follows_the_messages_is_a_body_from_a_certain_size_on(size, kind):
    exact = Recorded().writer.exact(cut_request(b"1" + b"." * size, [b"1"]))
    assert [next(iter(segment)) for segment in exact.segments] == ["path", kind]


def test_a_request_without_messages_is_at_the_root():
    exact = Recorded().writer.exact(cut_request(b"{}", []))
    assert (exact.tip, exact.bodies, exact.segments) == (ROOT_NODE, 0, [{"raw": "{}"}])


def test_planning_a_request_leaves_the_tree_as_it_was():
    tree = Recorded().writer
    assert tree.exact(cut_request(b"1", [b"1"])) == tree.exact(cut_request(b"1", [b"1"]))


def test_a_branch_that_is_refused_leaves_the_tree_as_it_was():
    recorded = Recorded()
    with pytest.raises(ContentDamaged):
        recorded.writer.add({"parent": "00" * 32, "bodies": ["1", {"body": "11" * 32}]})
    assert not recorded.writer.holds(recorded.material.address(b"1"))
    assert not recorded.writer.knows(recorded.material.node(ROOT_NODE, b"1"))


def test_bytes_that_are_not_text_are_refused_with_their_place():
    with pytest.raises(InvalidForm) as refusal:
        Recorded().writer.exact(cut_request(b"a\xff", []))
    assert refusal.value.fields["offset"] == 1


def test_a_segment_that_is_not_unicode_is_damaged():
    with pytest.raises(ContentDamaged):
        Recorded().reader.rebuild([{"raw": "\ud800"}], bytes(32), {}.__getitem__)


def test_a_body_that_cannot_be_had_is_the_reader_s_own_refusal():
    recorded = Recorded()
    exact = recorded.writer.exact(cut_request(b"1", [b"1"]))
    recorded.writer.add(exact.branches[0])
    with pytest.raises(KeyError):
        recorded.writer.rebuild(exact.segments, exact.request, {}.__getitem__)
