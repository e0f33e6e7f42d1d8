"""Replay: a turn's code run again on a model that only repeats, and whether it behaved as it was recorded."""

from __future__ import annotations

from counterfoil.replay.model import Answer, Replayed, ReplayModel, ToolUse
from counterfoil.replay.turn import Behaviour, replay_turn, same_behaviour

__all__ = ["Answer", "Behaviour", "ReplayModel", "Replayed", "ToolUse", "replay_turn", "same_behaviour"]
