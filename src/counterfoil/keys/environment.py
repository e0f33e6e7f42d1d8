"""EnvironmentKeyProvider: key-encryption keys that only the process's environment holds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from counterfoil.abc.keys import Arrangement
from counterfoil.core.forms import is_digest
from counterfoil.core.ids import is_id
from counterfoil.errors import KeyDamaged, KeyWithheld
from counterfoil.keys import wrapping

VARIABLE: Final = "COUNTERFOIL_KEK"


class EnvironmentKeyProvider:
    """A ``KeyProvider`` that reads ``kek_…=64 hex``, or several of them separated by commas, from a variable.

    The greatest id is the current epoch. Copies of the ledger hold no key, so the arrangement is ``covered``. To
    rotate, add a second key, rotate, and take the first one away.
    """

    def __init__(self, variable: str = VARIABLE, environment: Mapping[str, str] | None = None) -> None:
        self._variable = variable
        self._environment = os.environ if environment is None else environment

    def arrangement(self) -> Arrangement:
        """See ``KeyProvider.arrangement``."""
        return "covered"

    def current(self) -> str:
        """See ``KeyProvider.current``."""
        return max(self._keys())

    def wrap(self, kek_id: str, data_key: bytes) -> bytes:
        """See ``KeyProvider.wrap``."""
        return wrapping.wrap(self._key(kek_id), data_key)

    def unwrap(self, kek_id: str, wrapped: bytes) -> bytes:
        """See ``KeyProvider.unwrap``."""
        return wrapping.unwrap(kek_id, self._key(kek_id), wrapped)

    def derive(self, kek_id: str, purpose: str) -> bytes:
        """See ``KeyProvider.derive``."""
        return wrapping.derive(self._key(kek_id), purpose)

    def _key(self, kek_id: str) -> bytes:
        found = self._keys().get(kek_id)
        if found is None:
            raise KeyWithheld(
                f"the environment variable {self._variable} does not hold {kek_id}",
                hint="start the process with the key-encryption keys of this ledger",
                kek_id=kek_id,
            )
        return found

    def _keys(self) -> dict[str, bytes]:
        entries = [entry.strip() for entry in self._environment.get(self._variable, "").split(",")]
        keys: dict[str, bytes] = {}
        for entry in filter(None, entries):
            kek_id, _, text = entry.partition("=")
            if not is_id(kek_id, "kek") or not is_digest(text):
                raise KeyDamaged(
                    f"the environment variable {self._variable} holds something else than kek_…=64 hex digits",
                    hint="several keys are separated by commas",
                )
            keys[kek_id] = bytes.fromhex(text)
        if not keys:
            raise KeyWithheld(
                f"the environment variable {self._variable} holds no key-encryption key",
                hint="start the process with kek_…=64 hex digits in it",
            )
        return keys
