"""Looking at a ledger: lists, pages, tails, and what is damaged beside them."""

from __future__ import annotations

from contextlib import suppress

import pytest

import counterfoil
from counterfoil.client import reading
from counterfoil.client.reading import PAGE_EVENTS, PAGE_ROWS
from counterfoil.core.event import Draft
from counterfoil.core.forms import time_text
from counterfoil.effects.registry import own_tools
from counterfoil.errors import ContentUnavailable, RunWaiting
from counterfoil.flow.requests import Entry, UnitDraft
from tests.running import World, types_of, vanish


@pytest.fixture
def ledger():
    return World().worker()


def test_conversations_come_in_pages_in_the_order_in_which_they_were_opened(ledger):
    for number in range(5):
        with ledger.run("a", conversation=f"c{number}", title=f"Case {number}"):
            pass
    first = ledger.conversations(limit=2)
    rest = ledger.conversations(after=first[-1].stream_id, limit=10)
    assert [info.name for info in first + rest] == [f"c{number}" for number in range(5)]
    assert first[0].title == "Case 0"


def test_a_line_of_the_list_says_how_the_conversation_stands(ledger):
    with ledger.run("a", conversation="c") as run:
        (info,) = ledger.conversations()
        assert (info.state, info.running, info.runs, info.agent) == ("running", run.id, 1, "a")
    (info,) = ledger.conversations()
    assert (info.state, info.running, info.waiting) == ("open", None, 0)


def test_events_are_read_over_many_pages_and_filtered(ledger):
    with ledger.run("a", conversation="c") as run:
        for number in range(PAGE_EVENTS + 10):
            run.record("n.seen", {"number": number}, ignorable=True)
    events = list(ledger.events("c"))
    assert [event.sequence for event in events] == list(range(1, PAGE_EVENTS + 15))
    assert len(list(ledger.events("c", types=["n.seen"]))) == PAGE_EVENTS + 10
    assert [event.sequence for event in ledger.events("c", after=5, limit=3)] == [6, 7, 8]
    assert len(list(ledger.events("c", run_id=run.id))) == PAGE_EVENTS + 12


def test_rows_are_read_over_many_pages(ledger):
    for _ in range(PAGE_ROWS + 5):
        with ledger.run("a", conversation="c"):
            pass
    assert len(ledger.runs()) == len(ledger.runs("c")) == PAGE_ROWS + 5
    assert len(ledger.runs(state="finished")) == PAGE_ROWS + 5
    assert len(ledger.runs(limit=7)) == 7


def test_runs_are_listed_by_conversation_and_state(ledger):
    with ledger.run("a", conversation="c") as done:
        pass
    left = vanish(ledger.run("a", conversation="d"))
    assert [row["run_id"] for row in ledger.runs("c")] == [done.id]
    assert [row["run_id"] for row in ledger.runs(state="running")] == [left]
    assert ledger.runs("c", state="running") == []
    assert ledger.run_row(left)["state"] == "running"


def test_effects_and_reviews_are_queries(ledger):
    with own_tools():

        @counterfoil.effect("t.lost", version="1", touches={"money"}, doubt=counterfoil.by_review())
        def lost():
            raise ConnectionError

        with pytest.raises(RunWaiting), ledger.run("a", conversation="c") as run:
            lost()
    (row,) = ledger.effects()
    assert (
        ledger.effects(state="in_review")
        == ledger.effects(run_id=run.id)
        == ledger.effects(stream="c")
        == [row]
    )
    assert ledger.effects(state="succeeded") == ledger.effects(run_id=run.id, state="succeeded") == []
    (review,) = ledger.reviews()
    ledger.settle(review["review_id"], "failed", by="Jane", reason="never arrived")
    assert ledger.reviews() == []
    assert [found["state"] for found in ledger.reviews(state=None)] == ["settled"]


@pytest.fixture
def selected(ledger, monkeypatch):
    """The rows that the store hands out, by table."""
    rows, select = [], ledger.store.select

    def noted(table, *rest, **more):
        found = select(table, *rest, **more)
        rows.extend((table, row) for row in found)
        return found

    monkeypatch.setattr(ledger.store, "select", noted)
    return lambda table: [row for name, row in rows if name == table]


@pytest.fixture
def three_runs(ledger):
    """Runs of one conversation with nine effects each, every third of them rejected; their ids."""
    with own_tools():

        @counterfoil.effect("t.send", version="1", touches={"money"}, doubt=counterfoil.by_review())
        def send(number: int):
            if number % 3 == 2:
                raise counterfoil.Rejected("refused")

        runs = []
        for _ in range(3):
            with ledger.run("a", conversation="c") as run:
                for number in range(9):
                    with suppress(counterfoil.Rejected):
                        send(number)
            runs.append(run.id)
    return runs


def test_a_page_of_effects_reads_no_more_of_a_run_than_it_shows(ledger, three_runs, selected):
    every = ledger.effects(stream="c")
    assert [row["first_sequence"] for row in every] == sorted(row["first_sequence"] for row in every)
    assert len(every) == 27
    before = len(selected("effects"))
    assert ledger.effects(stream="c", limit=4) == every[:4]
    assert ledger.effects(run_id=three_runs[1], limit=4) == every[9:13]
    assert len(selected("effects")) - before <= 4 * 3 + 4


@pytest.mark.parametrize("limit", [None, 0, 1, 2, 5, 100])
@pytest.mark.parametrize("state", [None, "rejected"])
def test_a_page_of_effects_is_the_beginning_of_all_of_them(ledger, three_runs, limit, state, monkeypatch):
    every = [row for row in ledger.effects(stream="c") if state in (None, row["state"])]
    assert len(every) == (27 if state is None else 9)
    monkeypatch.setattr(reading, "PAGE_ROWS", 4)
    assert ledger.effects(stream="c", state=state, limit=limit) == every[:limit]
    of_run = [row for row in every if row["run_id"] == three_runs[1]]
    assert ledger.effects(run_id=three_runs[1], state=state, limit=limit) == of_run[:limit]


def test_a_list_of_conversations_counts_runs_and_reads_only_the_one_that_runs(ledger, selected):
    for _ in range(5):
        with ledger.run("a", conversation="c"):
            pass
    with ledger.run("a", conversation="c"):
        (info,) = ledger.conversations()
    assert (info.runs, info.waiting, info.state) == (6, 0, "running")
    assert [row["run_id"] for row in selected("runs")] == [info.running]


def test_a_tail_begins_where_it_is_told_and_follows_until_it_is_stopped(ledger):
    with ledger.run("a", conversation="c") as run:
        assert [event.sequence for event in ledger.tail("c", after=2, follow=False)] == [3]
        assert list(ledger.tail("c", follow=False)) == []
        seen = []
        for event in ledger.tail("c", after=0, stop=lambda: len(seen) > 3):
            seen.append(event.type)
            if len(seen) == 3:
                run.record("n.seen", ignorable=True)
        assert seen[-1] == "n.seen"


def test_one_damaged_event_is_shown_as_damaged_and_hides_no_other(ledger):
    with ledger.run("a", conversation="c") as run:
        for number in range(3):
            run.record("n.seen", {"number": number}, ignorable=True)
    stored = ledger.store._state.streams[run.conversation].events
    stored[4] = _with_header(stored[4], b"\xff{not a header")
    events = list(ledger.events("c"))
    assert [event.sequence for event in events] == list(range(1, 8))
    assert [bool(event.fault) for event in events] == [False] * 4 + [True] + [False] * 2
    assert (events[4].type, events[4].content_state) == ("n.seen", "damaged")


def test_a_damaged_first_event_does_not_hide_the_conversation(ledger):
    for name in ("c", "d"):
        with ledger.run("a", conversation=name) as run:
            pass
    stored = ledger.store._state.streams[run.conversation].events
    stored[0] = _with_header(stored[0], b"{}")
    listed = ledger.conversations()
    assert [(info.name, info.name_state) for info in listed] == [("c", "present"), (None, "damaged")]


def _with_header(event, header):
    from msgspec.structs import replace

    return replace(event, header=header)


def test_names_and_stream_ids_are_both_taken(ledger):
    with ledger.run("a", conversation="c") as run:
        pass
    assert ledger.stream_of("c") == ledger.stream_of(run.conversation) == run.conversation
    assert types_of(ledger, "c") == types_of(ledger, run.conversation)


CERTIFICATE = "ers_01J9ZC3Y3V7W2R5T8QK4M6N0PE"


def certify(ledger, stream_id, **scope):
    """The fact that a completed erasure leaves in the stream."""
    data = {
        "deletion_id": "del_01J9ZC3Y3V7W2R5T8QK4M6N0PE",
        "certificate": CERTIFICATE,
        "ground": "request",
        "contents": 1,
        "objects": 0,
        "copies": "not_covered",
        **scope,
    }
    ports = ledger.ports
    actor = {"type": "system", "id": "counterfoil"}
    draft = Draft(ports.new_id("evt"), "deletion.completed", time_text(ports.now_ms()), actor, data)
    ports.append(UnitDraft((Entry(stream_id, (draft,)),)))


def destroy(ledger, key_id):
    ledger.keyring.store.delete([key_id])
    ledger.keyring.forget()


def test_content_whose_key_a_certificate_names_is_erased_under_it(ledger):
    with ledger.run("a", conversation="c", message="hello") as run:
        pass
    stream_id = run.conversation
    certify(ledger, stream_id, key=ledger.ports.genesis(stream_id).key)
    destroy(ledger, ledger.ports.genesis(stream_id).key)
    event = next(iter(ledger.events(stream_id)))
    assert (event.content_state, event.data["agent"]) == ("erased", "a")
    with pytest.raises(ContentUnavailable, match=f"erased under certificate {CERTIFICATE}"):
        _ = event.content


def test_content_whose_key_is_gone_without_a_certificate_is_missing(ledger):
    with ledger.run("a", conversation="c") as run:
        pass
    destroy(ledger, ledger.ports.genesis(run.conversation).key)
    assert next(iter(ledger.events(run.conversation))).content_state == "missing"


def test_one_erased_person_leaves_the_rest_of_the_event_readable(ledger):
    with ledger.run("a", conversation="c", message="hello", subject="jane@example.com") as run:
        pass
    (accepted,) = ledger.events("c", types=["admission.accepted"])
    key_id = next(part.key for part in accepted.header.content if part.key)
    certify(ledger, run.conversation, key=key_id)
    destroy(ledger, key_id)
    (accepted,) = ledger.events("c", types=["admission.accepted"])
    assert accepted.content_state == "erased"
    assert accepted.opened.parts == ({"about": {"$part": 1}}, None)
    assert next(iter(ledger.events("c"))).content["name"] == "c"
