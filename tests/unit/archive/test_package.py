"""Key packages: the golden vectors, HPKE as RFC 9180 has it, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from counterfoil.archive import hpke
from counterfoil.archive.package import PackedKey, by_epoch, by_passphrase, by_recipient, pack, read_package
from counterfoil.archive.reading import ArchiveReader
from counterfoil.archive.writing import Exported
from counterfoil.errors import ArchiveInvalid, CounterfoilError, InvalidForm, KeyWithheld
from counterfoil.keys import wrapping

VECTORS = json.loads((Path(__file__).resolve().parents[2] / "vectors" / "archive.json").read_text("utf-8"))
SECRET = bytes(range(96, 128))


class OneKek:
    """A provider that holds the one key-encryption key of the vector."""

    def __init__(self, kek):
        self._kek = kek

    def wrap(self, kek_id, data_key):
        return wrapping.wrap(self._kek, data_key)

    def unwrap(self, kek_id, wrapped):
        return wrapping.unwrap(kek_id, self._kek, wrapped)


def keys_of(case):
    return [
        PackedKey(key["key_id"], key["stream_id"], bytes.fromhex(key["key"]), tuple(key.get("subjects", ())))
        for key in case["keys"]
    ]


@pytest.mark.parametrize("case", VECTORS["packages"], ids=lambda case: case["name"])
def test_a_package_is_made_and_opened_as_the_vector_says(case):
    package = read_package(case["package"].encode())
    told = package.parameters
    match package.protection:
        case "passphrase":
            lock = by_passphrase(case["passphrase"], salt=bytes.fromhex(told["salt"]))
            how = {"passphrase": lambda: case["passphrase"]}
        case "recipient":
            private = bytes.fromhex(case["private_key"])
            lock = by_recipient(hpke.public_key(private), secret=SECRET, ephemeral=bytes(range(128, 160)))
            how = {"private_key": private}
        case _:
            provider = OneKek(bytes.fromhex(case["kek"]))
            lock = by_epoch(provider, told["kek"], secret=SECRET)
            how = {"provider": provider}
    assert pack(keys_of(case), lock).decode() == case["package"]
    assert package.open_with(**how) == keys_of(case)


@pytest.mark.parametrize("case", VECTORS["refuse_packages"], ids=lambda case: case["name"])
def test_what_is_no_package_or_another_s_is_refused(case):
    with pytest.raises((ArchiveInvalid, KeyWithheld)):
        read_package(case["package"].encode()).open(bytes.fromhex(case["secret"]))


class Text:
    """An archive whose lines are a text."""

    def __init__(self, text):
        self._data = text.encode()

    def lines(self):
        import io

        return io.BytesIO(self._data)

    def object(self, sha256):
        return None

    def objects(self):
        return None

    def names(self):
        return []


def test_the_golden_archive_is_read():
    reader = ArchiveReader(Text(VECTORS["archive"]), accept_damaged=True)
    list(reader.items())
    assert reader.sha256 == VECTORS["sha256"]
    # One record is gone in it, and no certificate says why.
    assert [fault.code for fault, _ in reader.damage.faults] == ["content_missing"]
    assert Exported().to_json()["sha256"] == ""


@pytest.mark.parametrize("case", VECTORS["refuse"], ids=lambda case: case["name"])
def test_what_is_no_archive_is_refused(case):
    with pytest.raises(ArchiveInvalid):
        list(ArchiveReader(Text(case["archive"])).items())


def test_hpke_is_that_of_the_rfc():
    # RFC 9180, A.1.1: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, base mode.
    enc = bytes.fromhex("37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431")
    recipient = bytes.fromhex("3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d")
    ephemeral = bytes.fromhex("52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736")
    shared = hpke.shared_secret(ephemeral, recipient, enc, recipient)
    assert shared.hex() == "fe0e18c9f024ce43799ae393c7e8fe8fce9d218875e8227b0187c04e7d2ea1fc"
    info = bytes.fromhex("4f6465206f6e2061204772656369616e2055726e")
    key, nonce = hpke.schedule(shared, info, hpke.AES_128_GCM)
    assert (key.hex(), nonce.hex()) == ("4531685d41d65f03dc48f6b8302c05b0", "56d890e5accaaf011cff4b7d")


def test_hpke_is_that_of_the_library_where_it_has_one():
    library = pytest.importorskip("cryptography.hazmat.primitives.hpke")
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    suite = library.Suite(library.KEM.X25519, library.KDF.HKDF_SHA256, library.AEAD.AES_256_GCM)
    private = hpke.new_private_key()
    theirs = X25519PrivateKey.from_private_bytes(private)
    enc, sealed = hpke.seal(hpke.public_key(private), b"info", b"hello")
    assert suite.decrypt(enc + sealed, theirs, b"info") == b"hello"
    made = suite.encrypt(b"hello", theirs.public_key(), b"info")
    assert hpke.open_sealed(private, made[:32], b"info", made[32:]) == b"hello"


def test_every_bit_of_a_package_counts():
    private = hpke.new_private_key()
    keys = keys_of(VECTORS["packages"][0])
    whole = pack(keys, by_recipient(hpke.public_key(private)))
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1
        with pytest.raises(CounterfoilError):
            read_package(bytes(changed)).open_with(private_key=private)
        with pytest.raises(CounterfoilError):
            read_package(whole[:place]).open_with(private_key=private)


def test_a_passphrase_is_not_empty_and_a_recipient_is_a_public_key():
    with pytest.raises(InvalidForm):
        by_passphrase("")
    with pytest.raises(InvalidForm):
        by_recipient(bytes(32))
    with pytest.raises(InvalidForm):
        by_recipient(bytes(31))


def test_a_key_shows_itself_nowhere():
    key = PackedKey("dk_1", "str_1", b"secret" * 6, ("ann",))
    assert "secret" not in repr(key)
    assert "ann" not in repr(key)
