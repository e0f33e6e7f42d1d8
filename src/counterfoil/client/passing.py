"""Key-encryption keys that end with the process, for ledgers in memory."""

from __future__ import annotations

import secrets
import threading

from counterfoil.abc import Ids
from counterfoil.errors import InputError
from counterfoil.keys.environment import EnvironmentKeyProvider
from counterfoil.keys.wrapping import greater_id

_VARIABLE = "COUNTERFOIL_KEK"


class PassingKeyProvider(EnvironmentKeyProvider):
    """An ``EpochKeyProvider`` over an environment of its own that nobody else sees."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._own: dict[str, str] = {}
        self._making = threading.Lock()
        super().__init__(_VARIABLE, self._own)

    def new_epoch(self) -> str:
        """See ``EpochKeyProvider.new_epoch``."""
        with self._making:
            entries = [*filter(None, self._own.get(_VARIABLE, "").split(","))]
            kek_id = greater_id(
                self._ids.new("kek"), max((entry.partition("=")[0] for entry in entries), default="")
            )
            self._own[_VARIABLE] = ",".join([*entries, f"{kek_id}={secrets.token_hex(32)}"])
        return kek_id

    def destroy(self, kek_id: str) -> None:
        """See ``EpochKeyProvider.destroy``."""
        if kek_id == self.current():
            raise InputError(f"{kek_id} is the current epoch", hint="rotate first")
        with self._making:
            entries = self._own[_VARIABLE].split(",")
            self._own[_VARIABLE] = ",".join(entry for entry in entries if not entry.startswith(f"{kek_id}="))
