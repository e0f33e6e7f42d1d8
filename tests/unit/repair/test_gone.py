"""A repair whose content is gone: still listed, shown and closed, and never taken for one without a plan."""

from __future__ import annotations

import pytest

from counterfoil.effects.registry import own_tools
from counterfoil.errors import ContentUnavailable, RepairUnsettled
from counterfoil.testing.crash import World
from tests.repairing import CASE, Bank


@pytest.fixture
def gone():
    """A bank whose conversation loses its key when the test says so; nothing is checked at the end."""
    with own_tools():
        world = World()
        bank = Bank(world.open(), rule="review")
        bank.serve()

        def lose():
            keyring = bank.ledger.keyring
            keyring.store.delete([bank.ledger.ports.genesis(bank.ledger.stream_of(CASE)).key])
            world.time_passes()
            stream = bank.ledger.stream_of(CASE)
            bank.ledger = world.open()
            return stream

        yield bank, lose
        world.close()


def test_it_is_reported_by_what_was_begun_and_says_that_its_plan_is_gone(gone):
    bank, lose = gone
    bank.provider.plan(None, "rejected")
    report = bank.repair()
    lose()
    seen = bank.ledger.repair_report(report.repair_id)
    assert [(step.tool, step.state) for step in seen.steps] == [
        ("bank.charge", "done"),
        ("bank.letter", "refused"),
    ]
    assert "cannot be read any more" in seen.why


def test_it_is_not_resumed_and_not_taken_for_done(gone):
    bank, lose = gone
    bank.provider.plan(None, "not_done")
    report = bank.repair()
    lose()
    with pytest.raises(ContentUnavailable):
        bank.ledger.resume_repair(report.repair_id)
    assert bank.ledger.repair_row(report.repair_id)["state"] == "open"


def test_it_is_still_not_closed_over_an_open_question(gone):
    bank, lose = gone
    bank.provider.plan("answer_lost")
    report = bank.repair()
    person = bank.ledger._person(report.stream_id, "by", "Omar")
    lose()
    bank.ledger._person = lambda *_: person
    with pytest.raises(RepairUnsettled):
        bank.ledger.close_repair(report.repair_id, "partial", by="Omar", reason="enough")
