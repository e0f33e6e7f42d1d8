"""The table of an effect's states and what moves it, for the page on effects; written from the code that both follow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from counterfoil.effects.state import FINAL, IN_DOUBT, IN_REVIEW, MOVES, WAYS_OUT, EffectState

STATES_START = "<!-- The states of an effect. Written by `./run docs` from effects/state.py. -->"
STATES_END = "<!-- End of the states. -->"

_MEANING = {
    "intended": "the call may be under way, or its worker is gone",
    "unknown": "the call ended without an answer that says how",
}
_KINDS = ((FINAL, "final: never sent again"), (IN_REVIEW, "a person has to say how it ended"))


def state_lines() -> Iterator[str]:
    """Two tables: what each state means and which command leads out, and every event against every state."""
    states = get_args(EffectState)
    yield "| state | which is | the way out |"
    yield "|---|---|---|"
    for state in states:
        out = f"`counterfoil {WAYS_OUT[state]}`" if state in WAYS_OUT else "none is needed"
        out += ", when a retry is due" if state == "failed" else ""
        yield f"| `{state}` | {_meaning(state)} | {out} |"
    yield ""
    yield "| event | " + " | ".join(f"`{state}`" for state in states) + " |"
    yield "|---" * (len(states) + 1) + "|"
    for event, move in MOVES.items():
        cells = (f"→ `{move.to}`" if state in move.out_of else "·" for state in states)
        yield f"| `{event}` | " + " | ".join(cells) + " |"
    yield ""
    yield "`·`: the state stays as it is. The first `effect.intended` makes the effect; events not listed change no state."


def with_states(text: str) -> str:
    """The page on effects with its tables as they should be now."""
    before, start, rest = text.partition(STATES_START)
    _, end, after = rest.partition(STATES_END)
    if not (start and end):
        raise ValueError(
            f"docs/effects.md has lost the lines around its states:\n{STATES_START}\n{STATES_END}"
        )
    return "\n".join([before + start, "", *state_lines(), "", end + after])


def _meaning(state: EffectState) -> str:
    if state in IN_DOUBT:
        return f"in doubt: {_MEANING[state]}"
    return next((said for kind, said in _KINDS if state in kind), "confirmed not done: it may be tried again")
