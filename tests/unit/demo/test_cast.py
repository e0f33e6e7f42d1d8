"""The demo's processes: what they say is heard, what goes wrong is told, and none is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterfoil.demo.cast import Cast, Player
from counterfoil.errors import InternalError

ENDED = -9


def test_a_process_that_ends_early_is_named_with_its_last_words(tmp_path: Path):
    player = Player("worker", "counterfoil.demo.worker", ["--nonsense"], tmp_path / "worker.err", {})
    with pytest.raises(InternalError, match=r"worker \(process \d+\) ended with 2: .*usage"):
        player.says("entered")
    player.leave()


def test_whatever_is_still_running_is_ended_with_the_play(tmp_path: Path):
    with pytest.raises(LookupError), Cast(tmp_path) as cast:
        provider, _ = cast.provider("bank", hold="refunds", mute=True)
        raise LookupError
    assert provider.kill() == ENDED


def test_a_provider_ends_when_its_input_is_closed(tmp_path: Path):
    with Cast(tmp_path) as cast:
        provider, _ = cast.provider("bank", hold="refunds", mute=True)
        assert provider.end() == 0
