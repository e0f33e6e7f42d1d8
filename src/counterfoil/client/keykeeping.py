"""The keys of an open ledger as people look after them: which epoch, how many, rotated, and a former epoch destroyed."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from counterfoil.client.handle import Handle
from counterfoil.core.ids import is_id
from counterfoil.errors import InvalidForm, KeyWithheld
from counterfoil.flow.requests import Events
from counterfoil.keys.rotation import Rotation, destroy_epoch, rotate

ROTATED: Final = "keys.rotated"
PAGE: Final = 1000


class KeysHeld(Struct, frozen=True):
    """The key store at a glance: ``keys`` by the key-encryption key they lie under; ``epoch`` is the current one."""

    key_store: str
    epoch: str
    number: int
    keys: dict[str, int]
    arrangement: str

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "key_store": self.key_store,
            "epoch": self.epoch,
            "number": self.number,
            "keys": self.keys,
            "arrangement": self.arrangement,
        }


class KeyKeeping(Handle):
    """Looking after the keys."""

    def keys_held(self) -> KeysHeld:
        """What is in the key store. In a ``clear`` ledger keys lie under no key-encryption key, whose id is then empty."""
        counts: dict[str, int] = {}
        after = ""
        while page := self.keyring.store.scan(after, PAGE):
            after = page[-1].key_id
            for row in page:
                counts[row.kek_id] = counts.get(row.kek_id, 0) + 1
        epoch = self.keyring.store.epochs().get(self.tenant, "")
        return KeysHeld(
            self.keyring.store.store_id, epoch, self._number(), counts, self.keyring.provider.arrangement()
        )

    def rotate_keys(self) -> Rotation:
        """Wrap every key of the tenant anew under a new key-encryption key, and record it (FORMAT 12).

        The former one stays until :meth:`destroy_kek`: back the key store up in between, since older backups open
        nothing once it is gone. A rotation that was cut short is finished by the next. Raises KeyWithheld.
        """
        self.check_writable()
        if self.content == "clear":
            raise KeyWithheld(
                "a clear ledger has no key-encryption key to rotate", hint="nothing is encrypted there"
            )
        done = rotate(self.keyring)
        self.keyring.forget()
        number = self._number()
        fields = {"epoch_from": number, "epoch_to": number + 1, "keys": done.keys}
        held = {"key_store": self.keyring.store.store_id, "kek": done.epoch_to}
        self.streams.record("keys", (ROTATED, fields, held))
        return done

    def destroy_kek(self, kek_id: str) -> None:
        """Destroy the key-encryption key of a former epoch for good: what was backed up under it opens nothing now.

        Raises InvalidForm for the current one, and InternalError while a key still lies under it.
        """
        self.check_writable()
        if not is_id(kek_id, "kek") or kek_id in self.keyring.store.epochs().values():
            raise InvalidForm(
                f"{kek_id[:40]!r} is not a former epoch",
                hint="`counterfoil keys ls` shows the current one",
                argument="kek",
            )
        destroy_epoch(self.keyring, kek_id)

    def _number(self) -> int:
        """The number of the current epoch, as ``system/keys`` counts them."""
        number = 0
        for event in self.ports.events(Events(self.streams.id_of("keys"), types=frozenset({ROTATED}))):
            number = int(event.data["epoch_to"])
        return number
