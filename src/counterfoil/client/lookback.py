"""Looking back: for a while after a loss was accepted, an effect is asked for before it is sent for the first time."""

from __future__ import annotations

from typing import Final

from counterfoil.core.event import read_header
from counterfoil.core.forms import time_ms
from counterfoil.store.contract import Reader

RESTORED: Final = "ledger.restored"
PAGE: Final = 100


def look_back_until(reader: Reader, config_stream_id: str) -> int:
    """Until when the last ``ledger.restored`` says to look back, ms since the epoch; 0 where there is none."""
    until = after = 0
    while page := reader.read(config_stream_id, after, PAGE, frozenset({RESTORED}), content=False):
        after = page[-1].sequence
        until = time_ms(str(read_header(page[-1].header).data["look_back_until"]))
    return until
