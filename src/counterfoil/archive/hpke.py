"""HPKE (RFC 9180), base mode, one message: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM.

Written from its primitives, so that it does not depend on how new the library is; tests hold it to the vectors of
the RFC and to the library's own, where that has one.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
ENC_BYTES: Final = 32
TAG_BYTES: Final = 16
_KEM: Final = b"KEM" + (0x0020).to_bytes(2)
AES_128_GCM: Final = 0x0001
AES_256_GCM: Final = 0x0002
_KEY_BYTES_OF: Final = {AES_128_GCM: 16, AES_256_GCM: 32}
_NONCE_BYTES: Final = 12


def new_private_key() -> bytes:
    """32 random bytes that are an X25519 private key."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.generate().private_bytes_raw()


def public_key(private: bytes) -> bytes:
    """The public key of a private one, 32 bytes."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def seal(
    recipient: bytes, info: bytes, plain: bytes, *, ephemeral: bytes | None = None
) -> tuple[bytes, bytes]:
    """``enc`` and the sealed bytes, with an empty ``aad``. ``ephemeral`` is given by vectors alone.

    Raises ValueError for a public key that has no shared secret with anybody.
    """
    own = ephemeral or new_private_key()
    enc = public_key(own)
    shared = _shared(_exchange(own, recipient), enc, recipient)
    return enc, _sealed(shared, info, plain, AES_256_GCM)


def open_sealed(private: bytes, enc: bytes, info: bytes, sealed: bytes) -> bytes:
    """What was sealed. Raises ValueError where it was not sealed for this key, or was changed."""
    from cryptography.exceptions import InvalidTag

    shared = _shared(_exchange(private, enc), enc, public_key(private))
    key, nonce = schedule(shared, info, AES_256_GCM)
    try:
        return _cipher(key).decrypt(nonce, sealed, b"")
    except InvalidTag:
        raise ValueError("not sealed for this key") from None


def schedule(shared: bytes, info: bytes, aead: int) -> tuple[bytes, bytes]:
    """Key and base nonce of base mode (RFC 9180, 5.1)."""
    suite = b"HPKE" + (0x0020).to_bytes(2) + (0x0001).to_bytes(2) + aead.to_bytes(2)
    context = b"\x00" + _extract(suite, b"", b"psk_id_hash", b"") + _extract(suite, b"", b"info_hash", info)
    secret = _extract(suite, shared, b"secret", b"")
    return (
        _expand(suite, secret, b"key", context, _KEY_BYTES_OF[aead]),
        _expand(suite, secret, b"base_nonce", context, _NONCE_BYTES),
    )


def shared_secret(private: bytes, other: bytes, enc: bytes, recipient: bytes) -> bytes:
    """The KEM's shared secret between a private key and another's public one (RFC 9180, 4.1)."""
    return _shared(_exchange(private, other), enc, recipient)


def _sealed(shared: bytes, info: bytes, plain: bytes, aead: int) -> bytes:
    key, nonce = schedule(shared, info, aead)
    return _cipher(key).encrypt(nonce, plain, b"")


def _cipher(key: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _exchange(private: bytes, public: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))


def _shared(secret: bytes, enc: bytes, recipient: bytes) -> bytes:
    extracted = _extract(_KEM, b"", b"eae_prk", secret)
    return _expand(_KEM, extracted, b"shared_secret", enc + recipient, KEY_BYTES)


def _extract(suite: bytes, salt: bytes, label: bytes, data: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + data, "sha256")


def _expand(suite: bytes, secret: bytes, label: bytes, info: bytes, length: int) -> bytes:
    labelled = length.to_bytes(2) + b"HPKE-v1" + suite + label + info
    return hkdf_expand(secret, labelled, length)


def hkdf_expand(secret: bytes, info: bytes, length: int) -> bytes:
    """HKDF-Expand with SHA-256 (RFC 5869)."""
    made, block = b"", b""
    while len(made) < length:
        block = hmac.digest(secret, block + info + bytes([len(made) // 32 + 1]), "sha256")
        made += block
    return made[:length]
