"""Failure mode: retention has expired and what was recorded is erased while somebody still asks about it.

Retention itself is not built yet. A rule of our own stands in for it, which leaves what a completed erasure leaves:
the certificate in the stream, and no key.
"""

from __future__ import annotations

import pytest

from counterfoil.core.event import Draft
from counterfoil.core.forms import time_text
from counterfoil.errors import ContentUnavailable
from counterfoil.flow.requests import Entry, UnitDraft
from tests.stage import CASE

KEPT_MS = 365 * 86_400_000


def expire(stage):
    """The rule: after a year the conversation's content is erased, and a certificate says so."""
    stage.world.clock.advance(KEPT_MS)
    ledger = stage.open()
    stream_id = ledger.stream_of(CASE)
    key_id = ledger.ports.genesis(stream_id).key
    data = {
        "deletion_id": ledger.ports.new_id("del"),
        "certificate": ledger.ports.new_id("ers"),
        "ground": "retention",
        "key": key_id,
        "contents": 1,
        "objects": 0,
        "copies": "not_covered",
    }
    now = time_text(ledger.ports.now_ms())
    draft = Draft(
        ledger.ports.new_id("evt"), "deletion.completed", now, {"type": "system", "id": "counterfoil"}, data
    )
    ledger.ports.append(UnitDraft((Entry(stream_id, (draft,)),)))
    ledger.keyring.store.delete([key_id])
    return stream_id


def test_the_stream_keeps_its_events_and_says_of_each_that_its_content_is_erased(stage):
    stage.serve(stage.refund())
    stream_id = expire(stage)
    events = list(stage.open().events(stream_id))
    assert [event.type for event in events][-4:] == [
        "effect.intended",
        "effect.observed",
        "run.finished",
        "deletion.completed",
    ]
    assert [event.content_state for event in events] == ["erased"] * (len(events) - 1) + ["none"]
    assert [event.data["outcome"] for event in events if event.type == "effect.observed"] == ["succeeded"]


def test_the_rows_say_what_they_said_before(stage):
    stage.serve(stage.refund())
    before = stage.open().runs(), stage.open().effects()
    expire(stage)
    assert (stage.open().runs(), stage.open().effects()) == before


def test_the_same_effect_asked_for_again_is_not_sent_and_its_result_is_named_as_erased(stage):
    refund = stage.refund()
    stage.serve(refund)
    expire(stage)
    for conversation in (CASE, "another"):
        with pytest.raises(ContentUnavailable, match="erased under certificate"):
            stage.serve(refund, conversation=conversation)
    assert stage.provider.requests == ["refund:O-1042"]


def test_an_effect_in_doubt_whose_key_was_erased_stays_in_doubt_and_is_never_sent_again(stage):
    refund = stage.refund("lookup_then_key")
    stage.crash(refund)
    expire(stage)
    for _ in range(2):
        (left,) = stage.open().recover().effects
        assert (left.done, left.state) == ("left", "intended")
    assert stage.effects() == ["intended"]
    assert stage.provider.requests == ["refund:O-1042"]
