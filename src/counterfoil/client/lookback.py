"""Looking back: for a while after a loss was accepted, an effect is asked for before it is sent for the first time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from counterfoil.core.event import read_header
from counterfoil.core.forms import time_ms
from counterfoil.store.contract import Reader

if TYPE_CHECKING:
    from counterfoil.client.ports import LedgerPorts

RESTORED: Final = "ledger.restored"
PAGE: Final = 100


def look_back_until(reader: Reader, config_stream_id: str) -> int:
    """Until when the last ``ledger.restored`` says to look back, ms since the epoch; 0 where there is none."""
    until = after = 0
    while page := reader.read(config_stream_id, after, PAGE, frozenset({RESTORED}), content=False):
        after = page[-1].sequence
        until = time_ms(str(read_header(page[-1].header).data["look_back_until"]))
    return until


class LookBack:
    """Whether one handle looks back; the ledger is asked once, since a loss is accepted while nobody has it open."""

    def __init__(self, config_stream_id: str) -> None:
        self._config_stream_id = config_stream_id
        self._until_ms: int | None = None

    def due(self, ports: LedgerPorts) -> bool:
        """Whether the time of looking back is not over."""
        if self._until_ms is None:
            self._until_ms = look_back_until(ports.store, self._config_stream_id)
        return self._until_ms > 0 and ports.now_ms() < self._until_ms
