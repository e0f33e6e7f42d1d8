"""What a data key makes: salts, keyed digests, tags, addresses, context nodes and the content cipher (FORMAT 3)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NoReturn

from counterfoil.core import canonical
from counterfoil.core.ids import check_id
from counterfoil.errors import InvalidForm

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
TAG_HEX: Final = 32
ROOT_NODE: Final = bytes(32)
"""The node above the first message of a context tree (FORMAT 9)."""

_INDEX_HEADS_MAX: Final = 1024
"""Beginnings of index texts that are kept: a few purposes for each tenant."""

_BLOCK_BYTES: Final = 64
_INNER: Final = bytes(value ^ 0x36 for value in range(256))
_OUTER: Final = bytes(value ^ 0x5C for value in range(256))
_INNER_REST: Final = b"\x36" * (_BLOCK_BYTES - KEY_BYTES)
_OUTER_REST: Final = b"\x5c" * (_BLOCK_BYTES - KEY_BYTES)
_NODE_DOMAIN: Final = b"counterfoil/context/v1\x00"

_sha256 = hashlib.sha256


def hmac_sha256(key: bytes, data: bytes) -> bytes:
    """HMAC-SHA-256 with a key of exactly 32 bytes; for keys used once, quicker than keeping a state."""
    # RFC 2104 written out: a third of the time that the hmac module takes for one message. A key of another length
    # would be padded or hashed there, so that two keys could make the same digest (FORMAT 6): refused here.
    if len(key) != KEY_BYTES:
        raise InvalidForm(f"an HMAC key has exactly {KEY_BYTES} bytes; this one has {len(key)}")
    inner = _sha256(key.translate(_INNER) + _INNER_REST + data).digest()
    return _sha256(key.translate(_OUTER) + _OUTER_REST + inner).digest()


class HmacState:
    """HMAC-SHA-256 under one key used many times: the two hash states after the key's block are kept."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise InvalidForm(f"an HMAC key has exactly {KEY_BYTES} bytes; this one has {len(key)}")
        self._inner = _sha256(key.translate(_INNER) + _INNER_REST)
        self._outer = _sha256(key.translate(_OUTER) + _OUTER_REST)

    def digest(self, data: bytes) -> bytes:
        """The 32 bytes for ``data``. Any number of threads may ask at the same time."""
        inner = self._inner.copy()
        inner.update(data)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.digest()

    def state(self) -> AddressState:
        """The same for data that comes piece by piece."""
        return AddressState(self._inner.copy(), self._outer.copy())


class AddressState:
    """An address under way: :meth:`KeyMaterial.address` of bytes that come piece by piece."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, inner: Hash, outer: Hash) -> None:
        self._inner = inner
        self._outer = outer

    def update(self, data: bytes) -> None:
        """The next bytes."""
        self._inner.update(data)

    def digest(self) -> bytes:
        """The 32 bytes for what came so far."""
        outer = self._outer.copy()
        outer.update(self._inner.digest())
        return outer.digest()


def _expand(data_key: bytes, purpose: str) -> bytes:
    """HKDF-Expand (RFC 5869) to one block."""
    return hmac_sha256(data_key, f"counterfoil/{purpose}/v1".encode() + b"\x01")


class KeyMaterial:
    """Everything derived from one data key, for one (subject, stream); never shown, printed or pickled.

    The data key itself is not kept. Objects are immutable and may be shared by threads.
    """

    __slots__ = (
        "_address",
        "_aead",
        "_context_head",
        "_enc",
        "_mac",
        "_salts",
        "artifact_key",
        "key_id",
        "stream_id",
    )

    def __init__(self, key_id: str, stream_id: str, data_key: bytes) -> None:
        self.key_id: str = check_id(key_id, "dk")
        self.stream_id: str = check_id(stream_id, "str")
        self._enc = _expand(data_key, "enc")
        self._mac = HmacState(_expand(data_key, "mac"))
        self._address = HmacState(_expand(data_key, "address"))
        self.artifact_key: bytes = _expand(data_key, "artifact")
        self._aead: AESGCM | None = None
        # Of purposes without ids, such as the tags of steps: always the same, and there are few.
        self._salts: dict[str, HmacState] = {}
        self._context_head = f'/v1","{stream_id}"'

    def __repr__(self) -> str:
        return f"<KeyMaterial {self.key_id} of {self.stream_id}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("key material is not pickled: it would leave the process")

    @property
    def cipher(self) -> AESGCM:
        """AES-256-GCM under K_enc, made once."""
        cipher = self._aead
        if cipher is None:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            cipher = self._aead = AESGCM(self._enc)
        return cipher

    def context(self, purpose: str, ids: Sequence[str | int]) -> bytes:
        """``canonical(["counterfoil/<purpose>/v1", stream_id, ...ids])``."""
        for item in ids:
            if type(item) is str and not canonical.is_header_text(item):
                return canonical.encode([f"counterfoil/{purpose}/v1", self.stream_id, *ids])
        rest = "".join([f',"{item}"' if type(item) is str else f",{item}" for item in ids])
        return f'["counterfoil/{purpose}{self._context_head}{rest}]'.encode()

    def content_context(self, event_id: str, part: int) -> bytes:
        """The context of one content part; as :meth:`context` with purpose ``content``, for checked ids."""
        return f'["counterfoil/content{self._context_head},"{event_id}",{part}]'.encode()

    def salt_of(self, context: bytes) -> bytes:
        """HMAC of a context under K_mac."""
        return self._mac.digest(context)

    def salt(self, purpose: str, ids: Sequence[str | int]) -> bytes:
        """``HMAC(K_mac, context(purpose, ids))``, 32 bytes."""
        return self._mac.digest(self.context(purpose, ids))

    def keyed(self, purpose: str, ids: Sequence[str | int], data: bytes) -> bytes:
        """``HMAC(salt(purpose, ids), data)``, 32 bytes: digests, tags and derived ids are made of it."""
        if ids:
            return hmac_sha256(self.salt(purpose, ids), data)
        state = self._salts.get(purpose)
        if state is None:
            state = self._salts[purpose] = HmacState(self.salt(purpose, ids))
        return state.digest(data)

    def digest(self, purpose: str, ids: Sequence[str | int], data: bytes) -> str:
        """The keyed value as 64 hex."""
        return self.keyed(purpose, ids, data).hex()

    def tag(self, purpose: str, ids: Sequence[str | int], data: bytes) -> str:
        """The first 32 hex of the keyed value: shows equality inside the stream only."""
        return self.keyed(purpose, ids, data).hex()[:TAG_HEX]

    def address(self, data: bytes) -> bytes:
        """``HMAC(K_address, data)``: equal bytes in one stream have one address."""
        return self._address.digest(data)

    def address_state(self) -> AddressState:
        """As :meth:`address`, for bytes that come piece by piece."""
        return self._address.state()

    def node(self, parent: bytes, body: bytes) -> bytes:
        """The context-tree node of a message under ``parent`` (FORMAT 9); the root is :data:`ROOT_NODE`."""
        if len(parent) != 32:
            raise InvalidForm(f"a context node has 32 bytes; the parent given has {len(parent)}")
        return self.node_at(parent, self._address.digest(body))

    def node_at(self, parent: bytes, address: bytes) -> bytes:
        """As :meth:`node`, for a body whose address is known; ``parent`` and ``address`` have 32 bytes."""
        return _sha256(_NODE_DOMAIN + parent + address).digest()


def index_value(index_key: bytes, purpose: str, tenant: str, text: str) -> str:
    """The tenant-keyed lookup value of a text from outside, 64 hex; for rows only, never for headers (FORMAT 3)."""
    return hmac_sha256(index_key, _index_head(purpose, tenant) + canonical.encode(text) + b"]").hex()


@lru_cache(maxsize=_INDEX_HEADS_MAX)
def _index_head(purpose: str, tenant: str) -> bytes:
    """What stands before the text in ``canonical(["counterfoil/index/v1", purpose, tenant, text])``."""
    return canonical.encode(["counterfoil/index/v1", purpose, tenant])[:-1] + b","


def key_check(data_key: bytes, key_id: str, stream_id: str) -> bytes:
    """16 bytes that find a wrong key-encryption key or a row swapped with another (FORMAT 12)."""
    return hmac_sha256(data_key, canonical.encode(["counterfoil/key/v1", key_id, stream_id]))[:16]
