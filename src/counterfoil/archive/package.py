"""Key packages: the keys of an archive's streams, sealed under a passphrase, for a recipient or under the epoch (FORMAT 15).

::

    {"box":"<base64>","commitment":"…","ctx":"counterfoil/keys/v1","n":131072,"p":1,"protection":"passphrase","r":8,"salt":"…"}
    {…,"enc":"…","protection":"recipient","recipient":"…","sealed":"…"}
    {…,"kek":"kek_…","protection":"epoch","wrapped":"…"}

A package opens under one secret only: the commitment is compared before anything is decrypted. The file holds the
canonical text and a line feed.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import secrets
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from msgspec import Struct

from counterfoil.abc.keys import KeyProvider
from counterfoil.archive import hpke
from counterfoil.core.canonical import decode, encode, encode_header, parse_header
from counterfoil.core.ids import is_id
from counterfoil.core.keyed import KEY_BYTES
from counterfoil.errors import (
    ArchiveInvalid,
    CounterfoilError,
    InputError,
    InvalidForm,
    KeyDamaged,
    KeyWithheld,
)

CTX: Final = "counterfoil/keys/v1"
SUFFIX: Final = ".keys.json"
"""A package lies beside its archive, under the archive's name with this behind it."""
PACKAGE_BYTES_MAX: Final = 64 * 1024 * 1024

SCRYPT: Final = {"n": 1 << 17, "r": 8, "p": 1}
"""128 MiB and about half a second; a package that demands anything else is refused."""
SALT_BYTES: Final = 16
SUBJECTS_MAX: Final = 1000

Protection = Literal["passphrase", "recipient", "epoch"]
_PARAMETERS: Final = {
    "passphrase": frozenset({"n", "r", "p", "salt"}),
    "recipient": frozenset({"recipient", "enc", "sealed"}),
    "epoch": frozenset({"kek", "wrapped"}),
}
_HEX_BYTES: Final = {
    "salt": SALT_BYTES,
    "recipient": hpke.KEY_BYTES,
    "enc": hpke.ENC_BYTES,
    "sealed": KEY_BYTES + hpke.TAG_BYTES,
    "commitment": 32,
}


@dataclass(frozen=True, slots=True, repr=False)
class PackedKey:
    """One data key with the stream it is for, and the ids outside of whom it is linked to, in their order."""

    key_id: str
    stream_id: str
    data_key: bytes
    subjects: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"PackedKey({self.key_id}, {self.stream_id})"


class Lock(Struct, frozen=True):
    """How a package is protected: its parameters, and the secret of 32 bytes that they lead to."""

    protection: Protection
    parameters: dict[str, Any]
    secret: bytes


# ---- the secret --------------------------------------------------------------------------------------------------


def by_passphrase(passphrase: str, *, salt: bytes | None = None) -> Lock:
    """A lock that a passphrase opens. ``salt`` is given by vectors alone."""
    salt = salt or secrets.token_bytes(SALT_BYTES)
    return Lock("passphrase", {**SCRYPT, "salt": salt.hex()}, _stretched(passphrase, salt))


def by_recipient(recipient: bytes, *, secret: bytes | None = None, ephemeral: bytes | None = None) -> Lock:
    """A lock that the holder of an X25519 private key opens; ``recipient`` is the public one."""
    secret = secret or secrets.token_bytes(KEY_BYTES)
    try:
        enc, sealed = hpke.seal(recipient, CTX.encode(), secret, ephemeral=ephemeral)
    except ValueError:
        raise InvalidForm("a recipient is an X25519 public key, 64 hex", argument="recipient") from None
    members = {"recipient": recipient.hex(), "enc": enc.hex(), "sealed": sealed.hex()}
    return Lock("recipient", members, secret)


def by_epoch(provider: KeyProvider, kek_id: str, *, secret: bytes | None = None) -> Lock:
    """A lock that the current key-encryption key opens, and nobody once that is destroyed; for backups."""
    secret = secret or secrets.token_bytes(KEY_BYTES)
    return Lock("epoch", {"kek": kek_id, "wrapped": provider.wrap(kek_id, secret).hex()}, secret)


def _stretched(passphrase: str, salt: bytes) -> bytes:
    if not passphrase:
        raise InvalidForm("a passphrase is not empty", argument="passphrase")
    text = unicodedata.normalize("NFC", passphrase).encode("utf-8", "surrogatepass")
    return hashlib.scrypt(text, salt=salt, **SCRYPT, maxmem=256 * 1024 * 1024, dklen=KEY_BYTES)


# ---- closing -----------------------------------------------------------------------------------------------------


def pack(keys: Sequence[PackedKey], lock: Lock) -> bytes:
    """The package of these keys, with its line feed."""
    members: dict[str, Any] = {"ctx": CTX, "protection": lock.protection, **lock.parameters}
    key, commitment = _expanded(lock.secret, members)
    box = _cipher(key).encrypt(bytes(12), _key_list(keys), encode_header(members))
    members |= {
        "commitment": commitment.hex(),
        "box": binascii.b2a_base64(box, newline=False).decode(),
    }
    return encode_header(members) + b"\n"


def _key_list(keys: Sequence[PackedKey]) -> bytes:
    ordered = sorted(keys, key=lambda key: (key.stream_id, key.key_id))
    return encode(
        [
            {
                "key": key.data_key.hex(),
                "key_id": key.key_id,
                "stream_id": key.stream_id,
                **({"subjects": list(key.subjects)} if key.subjects else {}),
            }
            for key in ordered
        ]
    )


def _expanded(secret: bytes, members: dict[str, Any]) -> tuple[bytes, bytes]:
    info = CTX.encode() + encode_header(members)
    made = hpke.hkdf_expand(secret, info, 64)
    return made[:32], made[32:]


def _cipher(key: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


# ---- opening -----------------------------------------------------------------------------------------------------


class Package(Struct, frozen=True):
    """A package as it was read: how it is protected, and what is still closed."""

    protection: Protection
    parameters: dict[str, Any]
    commitment: bytes
    box: bytes

    def open(self, secret: bytes) -> list[PackedKey]:
        """The keys. Raises KeyWithheld where this is not the secret, ArchiveInvalid where the box is damaged."""
        from cryptography.exceptions import InvalidTag

        members: dict[str, Any] = {"ctx": CTX, "protection": self.protection, **self.parameters}
        key, commitment = _expanded(secret, members)
        if not hmac.compare_digest(commitment, self.commitment):
            raise KeyWithheld(
                f"the key package does not open under this {_NAMED[self.protection]}",
                hint="nothing was taken in; try the right one, or import without keys: --no-keys",
            )
        try:
            opened = _cipher(key).decrypt(bytes(12), self.box, encode_header(members))
        except InvalidTag:
            raise _invalid("its box was changed") from None
        return _parse_keys(opened)

    def open_with(
        self,
        *,
        passphrase: Callable[[], str] | None = None,
        private_key: bytes | None = None,
        provider: KeyProvider | None = None,
    ) -> list[PackedKey]:
        """The keys, by whichever of these the package asks for. Raises KeyWithheld where it is not given."""
        if self.protection == "passphrase" and passphrase is not None:
            return self.open(_stretched(passphrase(), bytes.fromhex(self.parameters["salt"])))
        if self.protection == "recipient" and private_key is not None:
            return self.open(self._received(private_key))
        if self.protection == "epoch" and provider is not None:
            return self.open(self._unwrapped(provider))
        raise KeyWithheld(
            f"the key package opens with a {_NAMED[self.protection]}, and none was given",
            hint="give it, or import without keys: --no-keys",
        )

    def _received(self, private_key: bytes) -> bytes:
        enc, sealed = bytes.fromhex(self.parameters["enc"]), bytes.fromhex(self.parameters["sealed"])
        try:
            return hpke.open_sealed(private_key, enc, CTX.encode(), sealed)
        except ValueError:
            raise KeyWithheld(
                "the key package was not made for this private key",
                hint="the package names the public key it was made for as `recipient`",
                recipient=self.parameters["recipient"],
            ) from None

    def _unwrapped(self, provider: KeyProvider) -> bytes:
        try:
            return provider.unwrap(self.parameters["kek"], bytes.fromhex(self.parameters["wrapped"]))
        except KeyWithheld as error:
            raise KeyWithheld(
                f"the key package opens with the key-encryption key {self.parameters['kek']}, which is not at hand here",
                hint="an epoch is of one ledger and its backups: export with a passphrase or for a recipient, or import "
                "without keys: --no-keys",
                kek_id=self.parameters["kek"],
            ) from error
        except KeyDamaged as error:
            raise _invalid("what it wraps does not unwrap") from error


_NAMED: Final = {
    "passphrase": "passphrase",
    "recipient": "private key",
    "epoch": "key-encryption key",
}


def read_package(data: bytes) -> Package:
    """A package from its bytes, strictly. Raises ArchiveInvalid."""
    if not data.endswith(b"\n"):
        raise _invalid("it does not end with a line feed")
    try:
        members = parse_header(data[:-1])
    except InputError as error:
        raise _invalid(error.message) from error
    if members.get("ctx") != CTX:
        raise _invalid("it is of a version this build does not know, or no key package")
    protection = members.get("protection")
    wanted = _PARAMETERS.get(protection) if isinstance(protection, str) else None
    if wanted is None or members.keys() != wanted | {"ctx", "protection", "commitment", "box"}:
        raise _invalid("its members are not those of a protection that this build knows")
    for name, count in _HEX_BYTES.items():
        if name in members and not _is_hex(members[name], count):
            raise _invalid(f"its member {name} has not {count} bytes in hex")
    if protection == "passphrase" and any(members[name] != value for name, value in SCRYPT.items()):
        raise _invalid("it demands other work than n 2^17, r 8, p 1")
    if protection == "epoch" and not (is_id(members["kek"], "kek") and _is_hex(members["wrapped"], None)):
        raise _invalid("what it says of the epoch has not its form")
    parameters = {name: members[name] for name in sorted(wanted)}
    kind: Protection = protection  # type: ignore[assignment]  # one of the three, as the members say
    return Package(kind, parameters, bytes.fromhex(members["commitment"]), _box(members["box"]))


def _box(text: Any) -> bytes:
    try:
        box = binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except (AttributeError, UnicodeEncodeError, binascii.Error):
        raise _invalid("its box is not in base64") from None
    if binascii.b2a_base64(box, newline=False).decode() != text:
        raise _invalid("its box is in base64 with bits left over")
    return box


def _is_hex(value: Any, count: int | None) -> bool:
    if type(value) is not str:
        return False
    try:
        data = bytes.fromhex(value)
    except ValueError:
        return False
    return data.hex() == value and count in (None, len(data))


def _parse_keys(data: bytes) -> list[PackedKey]:
    try:
        listed = decode(data)
        canonical = encode(listed) == data
    except CounterfoilError as error:
        raise _invalid("its key list is not JSON") from error
    if type(listed) is not list or not canonical:
        raise _invalid("its key list is not canonical")
    keys = [_parse_key(entry) for entry in listed]
    places = [(key.stream_id, key.key_id) for key in keys]
    if places != sorted(set(places)):
        raise _invalid("its keys do not come in order, each once")
    return keys


def _parse_key(entry: Any) -> PackedKey:
    match entry:
        case {"key": str(key), "key_id": str(key_id), "stream_id": str(stream_id), **rest}:
            subjects = rest.pop("subjects", None)
            fits = (
                not rest
                and _is_hex(key, KEY_BYTES)
                and is_id(key_id, "dk")
                and is_id(stream_id, "str")
                and (subjects is None or _are_subjects(subjects))
            )
            if fits:
                named: list[str] = subjects or []  # type: ignore[assignment]  # looked at above
                return PackedKey(key_id, stream_id, bytes.fromhex(key), tuple(named))
    raise _invalid("a key in it has not its form")


def _are_subjects(value: Any) -> bool:
    return (
        type(value) is list
        and 0 < len(value) <= SUBJECTS_MAX
        and all(type(subject) is str and subject for subject in value)
    )


def _invalid(what: str) -> ArchiveInvalid:
    return ArchiveInvalid(
        f"the key package is not one: {what}",
        hint="take it again from where it came from, or import without keys: --no-keys",
        line=1,
        offset=None,
    )
