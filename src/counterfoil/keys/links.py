"""Subject links: whose a data key is, findable and readable only with the current key-encryption key (FORMAT 12)."""

from __future__ import annotations

import secrets
from typing import Final

from counterfoil.abc.keys import KeyProvider, SubjectRow
from counterfoil.core.canonical import decode, encode
from counterfoil.core.keyed import KEY_BYTES, hmac_sha256
from counterfoil.errors import ContentDamaged
from counterfoil.keys import wrapping

NONCE_BYTES: Final = 12
CONTEXT: Final = "counterfoil/subject/v1"


class LinkKeys:
    """The two keys derived from one key-encryption key that links are made under.

    ``lookup`` = HMAC(lookup key, canonical([context, tenant, subject])) finds a subject;
    ``box`` = nonce || AES-256-GCM(box key, nonce, canonical([tenant, subject]), aad = canonical([context, key id]))
    says who it is. Both keys are derived by the provider, for purposes ``subject-lookup`` and ``subject-box``. In a
    ``clear`` ledger, which has no key-encryption key, 32 zero bytes stand for it: nothing there is private.
    """

    __slots__ = ("_box", "_lookup", "kek_id")

    def __init__(self, provider: KeyProvider, kek_id: str) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self.kek_id: str = kek_id
        self._lookup = _derive(provider, kek_id, "subject-lookup")
        self._box = AESGCM(_derive(provider, kek_id, "subject-box"))

    def lookup(self, tenant: str, subject: str) -> bytes:
        """32 bytes that find this subject's keys; the same in every stream of the tenant until rotation."""
        return hmac_sha256(self._lookup, encode([CONTEXT, tenant, subject]))

    def link(self, key_id: str, tenant: str, subject: str) -> SubjectRow:
        """The row that ties a data key to a subject."""
        # A random nonce is safe here: one box is made per key and rotation, far below 2^32 under one box key.
        nonce = secrets.token_bytes(NONCE_BYTES)
        box = nonce + self._box.encrypt(nonce, encode([tenant, subject]), encode([CONTEXT, key_id]))
        return SubjectRow(key_id, self.kek_id, self.lookup(tenant, subject), box)

    def open(self, row: SubjectRow) -> tuple[str, str]:
        """Tenant and subject of a link. Raises ContentDamaged when box, lookup and key id do not agree."""
        from cryptography.exceptions import InvalidTag

        damaged = ContentDamaged(
            f"the subject link of {row.key_id} is not what was written", check="subject", key_id=row.key_id
        )
        try:
            nonce, sealed = row.box[:NONCE_BYTES], row.box[NONCE_BYTES:]
            opened = decode(self._box.decrypt(nonce, sealed, encode([CONTEXT, row.key_id])))
        except (InvalidTag, TypeError, ValueError):
            raise damaged from None
        match opened:
            case [str(tenant), str(subject)] if self.lookup(tenant, subject) == row.lookup:
                return tenant, subject
            case _:
                raise damaged


def _derive(provider: KeyProvider, kek_id: str, purpose: str) -> bytes:
    return provider.derive(kek_id, purpose) if kek_id else wrapping.derive(bytes(KEY_BYTES), purpose)
