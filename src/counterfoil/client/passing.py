"""Key-encryption keys that end with the process, for ledgers in memory."""

from __future__ import annotations

import secrets

from counterfoil.abc import Ids
from counterfoil.errors import InputError
from counterfoil.keys.environment import EnvironmentKeyProvider

_VARIABLE = "COUNTERFOIL_KEK"


class PassingKeyProvider(EnvironmentKeyProvider):
    """An ``EpochKeyProvider`` over an environment of its own that nobody else sees."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._own: dict[str, str] = {}
        super().__init__(_VARIABLE, self._own)

    def new_epoch(self) -> str:
        """See ``EpochKeyProvider.new_epoch``."""
        kek_id = self._ids.new("kek")
        entries = [*filter(None, [self._own.get(_VARIABLE)]), f"{kek_id}={secrets.token_hex(32)}"]
        self._own[_VARIABLE] = ",".join(entries)
        return kek_id

    def destroy(self, kek_id: str) -> None:
        """See ``EpochKeyProvider.destroy``."""
        if kek_id == self.current():
            raise InputError(f"{kek_id} is the current epoch", hint="rotate first")
        entries = self._own[_VARIABLE].split(",")
        self._own[_VARIABLE] = ",".join(entry for entry in entries if not entry.startswith(f"{kek_id}="))
