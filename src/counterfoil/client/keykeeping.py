"""The keys of an open ledger as people look after them: which epoch, how many, rotated, and a former epoch destroyed."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from counterfoil.abc.keys import EpochKeyProvider
from counterfoil.client.handle import Handle
from counterfoil.core.ids import is_id
from counterfoil.errors import InvalidForm, KeyDamaged, KeyWithheld
from counterfoil.flow.requests import Events
from counterfoil.keys.file_provider import FileKeyProvider
from counterfoil.keys.rotation import Rotation, destroy_epoch, rotate

ROTATED: Final = "keys.rotated"
PAGE: Final = 1000
AT_HAND: Final = "at-hand"
"""What is derived of a key-encryption key to see whether it is there; nothing is done with it."""


class KeysHeld(Struct, frozen=True):
    """The key store at a glance: ``keys`` by the key-encryption key they lie under; ``epoch`` is the current one.

    ``number`` counts epochs as the ledger does. ``former`` are key-encryption keys of earlier epochs that are still at
    hand as files: what was copied in those epochs can be opened with them.
    """

    key_store: str
    epoch: str
    number: int
    keys: dict[str, int]
    arrangement: str
    former: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "key_store": self.key_store,
            "epoch": self.epoch,
            "number": self.number,
            "keys": self.keys,
            "arrangement": self.arrangement,
            "former": list(self.former),
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
        store, epoch = self.keyring.store, self.keyring.store.epochs().get(self.tenant, "")
        arrangement = self.keyring.provider.arrangement()
        return KeysHeld(store.store_id, epoch, self._number(epoch), counts, arrangement, self._former(epoch))

    def rotate_keys(self) -> Rotation:
        """Wrap every key of the tenant anew under a new key-encryption key, and record it (FORMAT 12).

        The former one stays until :meth:`destroy_kek`: back the key store up in between, since older copies of it open
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

        Raises InvalidForm for the current one and for one that is kept elsewhere, KeyWithheld for one that is not at
        hand, so that a slip of the pen is not taken for a key that is gone, and InternalError while a key lies under it.
        """
        self.check_writable()
        if not is_id(kek_id, "kek") or kek_id in self.keyring.store.epochs().values():
            raise InvalidForm(
                f"{kek_id[:40]!r} is not a former epoch",
                hint="`counterfoil keys ls` shows the current one",
                argument="kek",
            )
        if not isinstance(self.keyring.provider, EpochKeyProvider):
            raise InvalidForm(
                f"{kek_id} is kept elsewhere, and cannot be destroyed from here",
                hint="take the key away where it is kept",
                argument="kek",
            )
        self._check_at_hand(kek_id)
        destroy_epoch(self.keyring, kek_id)

    def _check_at_hand(self, kek_id: str) -> None:
        try:
            self.keyring.provider.derive(kek_id, AT_HAND)
        except KeyDamaged:
            pass  # what is left of it may be destroyed all the same
        except KeyWithheld as error:
            raise KeyWithheld(
                f"{kek_id} is not at hand, so nothing was destroyed",
                hint="`counterfoil keys ls` names the former ones that are; one that was destroyed before is gone",
                kek_id=kek_id,
            ) from error

    def _former(self, epoch: str) -> tuple[str, ...]:
        """Key-encryption keys at hand that no tenant's keys lie under any more, oldest first."""
        provider, current = self.keyring.provider, set(self.keyring.store.epochs().values())
        if not isinstance(provider, FileKeyProvider):
            return ()
        return tuple(kek for kek in provider.epochs() if kek < epoch and kek not in current)

    def _number(self, epoch: str | None = None) -> int:
        """The number of an epoch, as ``system/keys`` counts them; of the newest where that cannot be told."""
        number = 0
        for event in self.ports.events(Events(self.streams.id_of("keys"), types=frozenset({ROTATED}))):
            number = int(event.data["epoch_to"])
            if epoch and (event.content_or_none() or {}).get("kek") == epoch:
                return number
        return number
