"""Compactions, draft checkpoints and probes on every engine: a worker that dies behind each one has recorded it once."""

from __future__ import annotations

import pytest

from counterfoil.testing.crash import A_LONG_TIME_MS, LifeUntil, live
from tests.stage import CASE

NOTES = ["compaction.recorded", "draft.checkpointed", "sandbox.probed"]


async def noting(stage, ledger):
    """A run that says what it did."""
    async with stage.run(ledger) as run:
        if stage.asynchronous:
            made = await run.acompact(from_sequence=1, to_sequence=3, summary="s")
            await run.acheckpoint_draft("draft", chunks=2)
            await run.aprobe()
        else:
            made = run.compact(from_sequence=1, to_sequence=3, summary="s")
            run.checkpoint_draft("draft", chunks=2)
            run.probe()
        run.finish(made.to_sequence)
    return run.output


@pytest.mark.parametrize("note", NOTES)
def test_a_note_is_recorded_once_whatever_dies_behind_it(stage, note):
    def work(ledger):
        agent = noting(stage, ledger)
        return agent if stage.asynchronous else stage.play(agent)

    live(stage.world, LifeUntil(f"append {note}"), work)
    stage.world.clock.advance(A_LONG_TIME_MS)
    assert stage.play(noting(stage, stage.open())) == 3
    assert [event.type for event in stage.open().events(CASE, types=NOTES)] == NOTES
