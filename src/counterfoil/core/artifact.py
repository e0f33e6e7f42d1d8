"""The bytes of artifacts: chunked encryption, keyed address, the object's name, and references to it (FORMAT 10).

Encryption is c2sp.org/chunked-encryption in its instance Cobblestone-256: HKDF-Expand with SHA-512, AES-256-GCM in
chunks of 16 KiB, of which the last alone is shorter. An object that is cut, prolonged, put in another order or
changed in any bit does not decrypt, and neither does one made under another key or context.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from counterfoil.core.event_types import CLASSES
from counterfoil.core.keyed import KEY_BYTES, AddressState, KeyMaterial
from counterfoil.errors import ArtifactDamaged, ContentTooLarge, InvalidForm

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

CHUNK_BYTES: Final = 16 * 1024
"""Plain bytes of every chunk but the last, which has fewer and may have none."""

TAG_BYTES: Final = 16
SALT_BYTES: Final = 24
COMMITMENT_BYTES: Final = 32
HEAD_BYTES: Final = SALT_BYTES + COMMITMENT_BYTES
"""Bytes before the first chunk: salt and commitment."""

CHUNKS_MAX: Final = 2**38
NONCE_BYTES: Final = 12
SEALED_CHUNK_BYTES: Final = CHUNK_BYTES + TAG_BYTES

PUBLIC: Final = "public"
INTERNAL: Final = "internal"
PERSONAL_CLASSES: Final = frozenset({"confidential", "personal", "secret"})
"""Classes of what is encrypted under the key of a subject in a stream."""

SCHEME: Final = "artifact:sha256:"
"""What a ``storage_ref`` begins with on the wire."""

_INFO: Final = b"c2sp.org/chunked-encryption@v1+AEAD_AES_256_GCM\x00"


class Reference(NamedTuple):
    """An artifact as a header names it: what it is for, its class, its object, and under which key it lies.

    ``key`` is None in a header where it is the stream key; ``address`` and ``key`` are None for public bytes.
    """

    kind: str
    klass: str
    sha256: str
    address: str | None = None
    key: str | None = None

    def member(self, stream_key: str | None = None) -> dict[str, str]:
        """The entry of ``artifact_refs``; the key is left out where it is the stream key."""
        found = {"kind": self.kind, "class": self.klass, "sha256": self.sha256}
        if self.address is not None:
            found["address"] = self.address
        if self.key is not None and self.key != stream_key:
            found["key"] = self.key
        return found


def reference_of(member: dict[str, str], stream_key: str) -> Reference:
    """The reference behind a checked entry of ``artifact_refs``, with its key named."""
    klass = member["class"]
    key = None if klass == PUBLIC else member.get("key", stream_key)
    return Reference(member["kind"], klass, member["sha256"], member.get("address"), key)


def storage_ref(sha256: str) -> str:
    """``artifact:sha256:<hex>``: how an object is named on the wire, wherever it lies."""
    return SCHEME + sha256


def size_class(size: int) -> int:
    """The smallest n such that 2^n bytes hold it; what a header may say of a size."""
    return max(0, size - 1).bit_length()


def sealed_bytes(size: int) -> int:
    """Bytes of the object that ``size`` plain bytes are encrypted to."""
    return HEAD_BYTES + size + TAG_BYTES * (size // CHUNK_BYTES + 1)


def check_class(klass: str) -> str:
    """The class itself. Raises InvalidForm for any other word."""
    if klass not in CLASSES:
        raise InvalidForm(
            f"the class of an artifact is one of {', '.join(CLASSES)}", argument="classification"
        )
    return klass


def salt_for(material: KeyMaterial, address: bytes) -> bytes:
    """The salt of bytes that are known whole: the same bytes under the same key make the same object.

    A salt must not serve two messages under one key. This one is a pseudo-random function of the message, through its
    address. Bytes that are read only once as they stream in get a random salt instead.
    """
    return material.keyed("artifact-salt", (), address)[:SALT_BYTES]


class _Keys(NamedTuple):
    """What one message is encrypted with."""

    cipher: AESGCM
    base_nonce: int
    commitment: bytes

    def nonce(self, chunk: int) -> bytes:
        """The base nonce with the chunk's number in its low bits."""
        return (self.base_nonce ^ chunk).to_bytes(NONCE_BYTES)


def _keys(material: KeyMaterial, salt: bytes) -> _Keys:
    """HKDF-Expand (RFC 5869) with SHA-512 to key, base nonce and commitment: 76 bytes, two blocks."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    info = _INFO + salt + material.context("artifact", ())
    first = hmac.digest(material.artifact_key, info + b"\x01", "sha512")
    found = first + hmac.digest(material.artifact_key, first + info + b"\x02", "sha512")
    nonce = int.from_bytes(found[KEY_BYTES : KEY_BYTES + NONCE_BYTES])
    at = KEY_BYTES + NONCE_BYTES
    return _Keys(AESGCM(found[:KEY_BYTES]), nonce, found[at : at + COMMITMENT_BYTES])


class Sealer:
    """Encrypts one message as it comes. ``update`` any number of times, then ``finish`` once.

    Holds one chunk at most. ``address`` and ``size`` are those of the plain bytes so far.
    """

    def __init__(self, material: KeyMaterial, salt: bytes) -> None:
        if len(salt) != SALT_BYTES:
            raise InvalidForm(f"the salt of an artifact has {SALT_BYTES} bytes; this one has {len(salt)}")
        self._keys = _keys(material, salt)
        self._head: bytes | None = salt + self._keys.commitment
        self._rest = bytearray()
        self._chunk = 0
        self._address: AddressState = material.address_state()
        self.size: int = 0

    def update(self, data: bytes) -> bytes:
        """The next encrypted bytes, as far as whole chunks are there."""
        self._address.update(data)
        self.size += len(data)
        self._rest += data
        out = [self._take_head()]
        whole = len(self._rest) - len(self._rest) % CHUNK_BYTES
        out += [self._sealed(self._rest[at : at + CHUNK_BYTES]) for at in range(0, whole, CHUNK_BYTES)]
        del self._rest[:whole]
        return b"".join(out)

    def finish(self) -> bytes:
        """The last encrypted bytes; the last chunk is short, which says that the message is whole."""
        return self._take_head() + self._sealed(self._rest)

    @property
    def address(self) -> bytes:
        """``HMAC(K_address, plain bytes)``."""
        return self._address.digest()

    def _take_head(self) -> bytes:
        head, self._head = self._head or b"", None
        return head

    def _sealed(self, chunk: bytes | bytearray) -> bytes:
        if self._chunk >= CHUNKS_MAX:
            raise ContentTooLarge("an artifact has at most 2^38 chunks of 16 KiB", bytes=self.size)
        sealed = self._keys.cipher.encrypt(self._keys.nonce(self._chunk), bytes(chunk), None)
        self._chunk += 1
        return sealed


class Opener:
    """Decrypts one object as it comes; each chunk is handed out only after its own check.

    Until ``finish`` returns, the object may still turn out to be cut short or to be another one than the reference
    names. Every fault is ArtifactDamaged with field ``check``: length, commitment, chunk, cut or address.
    """

    def __init__(self, material: KeyMaterial, address: str | None = None) -> None:
        self._material = material
        self._wanted = address
        self._keys: _Keys | None = None
        self._rest = bytearray()
        self._chunk = 0
        self._address: AddressState = material.address_state()
        self.size: int = 0

    def update(self, data: bytes) -> bytes:
        """The next plain bytes, as far as whole chunks are there."""
        self._rest += data
        keys = self._ready()
        if keys is None:
            return b""
        whole = len(self._rest) - len(self._rest) % SEALED_CHUNK_BYTES
        step = SEALED_CHUNK_BYTES
        found = b"".join([self._opened(keys, self._rest[at : at + step]) for at in range(0, whole, step)])
        del self._rest[:whole]
        return found

    def finish(self) -> bytes:
        """The last plain bytes, after the whole message was found complete and to be the one that was asked for."""
        keys = self._ready()
        if keys is None:
            raise damaged("length", f"the object is shorter than its head of {HEAD_BYTES} bytes")
        if len(self._rest) < TAG_BYTES:
            raise damaged("cut", "the object ends before its last chunk: it was cut short")
        last = self._opened(keys, self._rest)
        self._rest.clear()
        if self._wanted is not None and not hmac.compare_digest(self._address.digest().hex(), self._wanted):
            raise damaged("address", "the bytes are not those that the reference names")
        return last

    def _ready(self) -> _Keys | None:
        if self._keys is None and len(self._rest) >= HEAD_BYTES:
            keys = _keys(self._material, bytes(self._rest[:SALT_BYTES]))
            if not hmac.compare_digest(keys.commitment, bytes(self._rest[SALT_BYTES:HEAD_BYTES])):
                raise damaged("commitment", "the object was not made under this key, or its head was changed")
            del self._rest[:HEAD_BYTES]
            self._keys = keys
        return self._keys

    def _opened(self, keys: _Keys, chunk: bytes | bytearray) -> bytes:
        from cryptography.exceptions import InvalidTag

        if self._chunk >= CHUNKS_MAX:
            raise damaged("length", "the object has more chunks than the format allows")
        try:
            found = keys.cipher.decrypt(keys.nonce(self._chunk), bytes(chunk), None)
        except InvalidTag:
            raise damaged("chunk", f"chunk {self._chunk} was changed, moved or cut") from None
        self._chunk += 1
        self._address.update(found)
        self.size += len(found)
        return found


def seal_artifact(material: KeyMaterial, data: bytes) -> tuple[bytes, str]:
    """The object of these bytes and their address (hex); a pure function of key and bytes."""
    address = material.address(data)
    sealer = Sealer(material, salt_for(material, address))
    return sealer.update(data) + sealer.finish(), address.hex()


def open_artifact(material: KeyMaterial, stored: bytes, address: str | None = None) -> bytes:
    """The plain bytes of a whole object. Raises ArtifactDamaged; nothing is handed out of a damaged one."""
    opener = Opener(material, address)
    return opener.update(stored) + opener.finish()


def opened_pieces(material: KeyMaterial, address: str | None, stored: Iterable[bytes]) -> Iterator[bytes]:
    """The plain bytes piece by piece; the last piece comes only after the whole was checked."""
    opener = Opener(material, address)
    for piece in stored:
        found = opener.update(piece)
        if found:
            yield found
    yield opener.finish()


def checked_pieces(sha256: str, stored: Iterable[bytes]) -> Iterator[bytes]:
    """Bytes that are stored as they are; raises ArtifactDamaged at their end if they are not those of the name."""
    digest = hashlib.sha256()
    held = b""
    for piece in stored:
        digest.update(piece)
        if held:
            yield held
        held = piece
    if digest.hexdigest() != sha256:
        raise damaged("sha256", "the stored bytes have not the digest that names them")
    yield held


def damaged(check: str, what: str) -> ArtifactDamaged:
    """The error of a check that failed."""
    return ArtifactDamaged(what, check=check)
