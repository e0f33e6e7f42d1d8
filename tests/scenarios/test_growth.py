"""A scripted conversation of 500 turns: every request is made again byte for byte, at the size of what was said."""

from __future__ import annotations

from itertools import pairwise

import pytest

import counterfoil
from counterfoil.bench.dialogue import SLOTS, dialogue
from counterfoil.bench.growth import CONVERSATION, Conversation, files_in, recorded
from counterfoil.core.limits import SPILL_BYTES

TURNS = 500
TURN_BYTES = 160


def spoken(ledger: counterfoil.Ledger, turns: int) -> Conversation:
    """So many short turns in one run of this ledger."""
    conversation = Conversation()
    with ledger.run("support", conversation=CONVERSATION) as run:
        for turn in dialogue(turns, TURN_BYTES):
            conversation.turn(run, turn)
    return conversation


def check(ledger: counterfoil.Ledger, conversation: Conversation, turns: int) -> None:
    """Every request as it was sent, two compactions, three slots, and two appends a turn for the model."""
    found = list(ledger.requests(CONVERSATION))
    assert [request.body for request in found] == conversation.sent
    assert len(found) == turns
    assert len(list(ledger.events(CONVERSATION, types=["compaction.recorded"]))) == 2
    assert set(found[-1].slots) == set(SLOTS)
    drops = [one for one, other in pairwise(found) if len(other.path) < len(one.path)]
    assert len(drops) == 2


def test_each_of_500_requests_is_made_again_on_a_ledger_in_memory():
    with counterfoil.open(":memory:") as ledger:
        check(ledger, spoken(ledger, TURNS), TURNS)


def test_each_of_500_requests_is_made_again_by_another_process_and_costs_what_was_new(tmp_path):
    conversation = recorded(tmp_path / "shop", TURNS, TURN_BYTES)
    with counterfoil.open(tmp_path / "shop", read_only=True) as ledger:
        check(ledger, conversation, TURNS)
    # What was sent altogether is many times what the files take.
    assert files_in(tmp_path / "shop") < sum(map(len, conversation.sent)) / 5


def test_a_conversation_takes_about_what_was_said_in_it(tmp_path):
    # The budgets of DESIGN 14 at 8 KB a turn are kept by far fewer turns already, as far as these go.
    conversation = recorded(tmp_path / "shop", 120, 8192)
    assert files_in(tmp_path / "shop") < 1.3 * conversation.payload


@pytest.mark.postgres
def test_requests_are_made_again_on_a_server(place):
    with counterfoil.open(place) as ledger:
        check(ledger, spoken(ledger, 60), 60)


def test_100_calls_on_a_long_history_grow_with_what_is_new(tmp_path):
    # Case S19: 100,000 tokens of history, 100 calls in one turn.
    history = [{"role": "user", "content": f"{number:05} " + "word " * 390} for number in range(200)]
    sent = []

    def model(request: counterfoil.Request) -> str:
        sent.append(len(request.body))
        return f"answer {len(sent)}"

    with counterfoil.open(tmp_path / "shop") as ledger, ledger.run("agent", conversation="case") as run:
        run.ask(model, history)
        first = ledger.store.head(run.conversation)
        for number in range(99):
            history.append({"role": "tool", "content": f"found {number}"})
            run.ask(model, history)
        assert sent[0] > 390_000
        # Five events a call, whatever the history holds.
        assert ledger.store.head(run.conversation).sequence - first.sequence == 99 * 5
    assert files_in(tmp_path / "shop") < sum(sent) / 25


def test_a_list_never_reads_the_body_of_a_large_message(tmp_path):
    # Case S19: one tool result of many megabytes freezes nothing that only lists.
    large = "0123456789abcdef" * (4 * SPILL_BYTES // 16)
    with counterfoil.open(tmp_path / "shop") as ledger:
        with ledger.run("agent", conversation="case") as run:
            run.ask(lambda _: "ok", [large, "what does it say?"])
        read = []
        ledger.artifacts.vault.authorize = read.append
        for event in ledger.events("case"):
            assert event.outline_or_none() is not None or event.content_state == "none"
        ledger.conversations()
        ledger.runs("case")
        assert read == []
        (found,) = ledger.requests("case")
        assert len(found.body) > len(large)
        assert read
