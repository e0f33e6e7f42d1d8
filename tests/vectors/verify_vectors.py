"""Recomputes every vector beside it with Python's standard library alone; no line is shared with the package.

    python -I tests/vectors/verify_vectors.py [NAME...]

prints one line for each file, or for those named, and exits 0 when all agree, 1 otherwise. AES-256-GCM is written out below, since the
standard library has none; it is meant to be read, not to be quick or safe against timing.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
import re
import struct
import sys
import unicodedata
import zlib
from datetime import datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
NESTING = 64
DIGITS = 1000
PART_BYTES = 4 * 1024 * 1024
HEADER_BYTES = 16 * 1024


class Refused(Exception):
    """Raised with the word that the vector file uses for the reason."""


# ---- JSON: strict reading and canonical writing ------------------------------------------------------------------


class Reader:
    """A strict JSON reader over text, without recursion limits of its own: nesting is counted."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def document(self):
        value = self.value(0)
        self.space()
        if self.at != len(self.text):
            raise Refused("json")
        return value

    def space(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in " \t\r\n":
            self.at += 1

    def take(self, word: str) -> bool:
        if self.text.startswith(word, self.at):
            self.at += len(word)
            return True
        return False

    def value(self, depth: int):
        self.space()
        if self.take("{"):
            return self.members(depth + 1)
        if self.take("["):
            return self.items(depth + 1)
        if self.take('"'):
            return self.string()
        for word, value in (("true", True), ("false", False), ("null", None)):
            if self.take(word):
                return value
        for word in ("NaN", "Infinity", "-Infinity"):
            if self.take(word):
                raise Refused("number")
        return self.number()

    def deeper(self, depth: int) -> None:
        if depth > NESTING:
            raise Refused("depth")

    def members(self, depth: int) -> dict:
        self.deeper(depth)
        found: dict = {}
        self.space()
        if self.take("}"):
            return found
        while True:
            self.space()
            if not self.take('"'):
                raise Refused("json")
            name = self.string()
            self.space()
            if not self.take(":"):
                raise Refused("json")
            if name in found:
                raise Refused("duplicate")
            found[name] = self.value(depth)
            self.space()
            if self.take("}"):
                return found
            if not self.take(","):
                raise Refused("json")

    def items(self, depth: int) -> list:
        self.deeper(depth)
        found: list = []
        self.space()
        if self.take("]"):
            return found
        while True:
            found.append(self.value(depth))
            self.space()
            if self.take("]"):
                return found
            if not self.take(","):
                raise Refused("json")

    def string(self) -> str:
        units = []
        while True:
            if self.at >= len(self.text):
                raise Refused("json")
            letter = self.text[self.at]
            self.at += 1
            if letter == '"':
                return joined("".join(units))
            if letter == "\\":
                units.append(self.escape())
            elif letter < " ":
                raise Refused("json")
            else:
                units.append(letter)

    def escape(self) -> str:
        letter = self.text[self.at : self.at + 1]
        self.at += 1
        if letter == "u":
            digits = self.text[self.at : self.at + 4]
            if not re.fullmatch("[0-9a-fA-F]{4}", digits):
                raise Refused("json")
            self.at += 4
            return chr(int(digits, 16))
        plain = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
        if letter not in plain:
            raise Refused("json")
        return plain[letter]

    def number(self):
        found = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?").match(self.text, self.at)
        if found is None:
            raise Refused("json")
        self.at = found.end()
        if found[2] is None and found[3] is None:
            if len(found[1]) > DIGITS:
                raise Refused("digits")
            return int(found[0])
        value = float(found[0])
        if math.isinf(value):
            raise Refused("number")
        return value


def joined(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def read_json(data: bytes):
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused("utf8") from None
    return Reader(text).document()


def number_text(value: float) -> str:
    """Number::toString of ECMAScript, from the digits that Python's repr gives."""
    if math.isnan(value) or math.isinf(value):
        raise Refused("number")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    digits, exponent = f"{abs(value)!r}", 0
    if "e" in digits:
        digits, power = digits.split("e")
        exponent = int(power)
    whole, _, fraction = digits.partition(".")
    exponent += len(whole)
    digits = whole + fraction
    while digits.startswith("0"):
        digits, exponent = digits[1:], exponent - 1
    digits = digits.rstrip("0")
    k, n = len(digits), exponent
    if k <= n <= 21:
        return sign + digits + "0" * (n - k)
    if 0 < n <= 21:
        return sign + digits[:n] + "." + digits[n:]
    if -6 < n <= 0:
        return sign + "0." + "0" * -n + digits
    power = f"e{'+' if n > 0 else '-'}{abs(n - 1)}"
    return sign + digits[0] + ("." + digits[1:] if k > 1 else "") + power


def string_text(text: str) -> str:
    short = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    out = []
    for letter in joined(text):
        if letter in short:
            out.append(short[letter])
        elif letter < " " or "\ud800" <= letter <= "\udfff":
            out.append(f"\\u{ord(letter):04x}")
        else:
            out.append(letter)
    return '"' + "".join(out) + '"'


def canonical_text(value) -> str:
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return string_text(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, list):
        return "[" + ",".join(map(canonical_text, value)) + "]"
    names = sorted(value, key=lambda name: joined(name).encode("utf-16-be", "surrogatepass"))
    return "{" + ",".join(f"{string_text(name)}:{canonical_text(value[name])}" for name in names) + "}"


def canonical(value) -> bytes:
    return canonical_text(value).encode("utf-8")


# ---- AES-256-GCM (FIPS 197, SP 800-38D) --------------------------------------------------------------------------


def _xtime(byte: int) -> int:
    return (byte << 1) ^ (0x11B if byte & 0x80 else 0)


def _sbox() -> bytes:
    exponents, value = [0] * 256, 1
    logs = [0] * 256
    for power in range(255):
        exponents[power], logs[value] = value, power
        value ^= _xtime(value)
    table = bytearray(256)
    for byte in range(256):
        inverse = exponents[(255 - logs[byte]) % 255] if byte else 0
        out = 0
        for shift in range(5):
            out ^= (inverse << shift) | (inverse >> (8 - shift))
        table[byte] = (out & 0xFF) ^ 0x63
    return bytes(table)


SBOX = _sbox()


class Aes256Gcm:
    """AES-256-GCM with a 96-bit nonce and a 16-byte tag behind the cipher text."""

    def __init__(self, key: bytes) -> None:
        self.rounds = self.schedule(key)
        self.h = int.from_bytes(self.block(bytes(16)), "big")

    @staticmethod
    def schedule(key: bytes) -> list[bytes]:
        words = [key[i : i + 4] for i in range(0, 32, 4)]
        constant = 1
        for i in range(8, 60):
            word = words[-1]
            if i % 8 == 0:
                word = bytes(SBOX[b] for b in word[1:] + word[:1])
                word = bytes([word[0] ^ constant]) + word[1:]
                constant = _xtime(constant)
            elif i % 8 == 4:
                word = bytes(SBOX[b] for b in word)
            words.append(bytes(a ^ b for a, b in zip(word, words[-8], strict=True)))
        return [b"".join(words[i : i + 4]) for i in range(0, 60, 4)]

    def block(self, data: bytes) -> bytes:
        state = bytes(a ^ b for a, b in zip(data, self.rounds[0], strict=True))
        for number, key in enumerate(self.rounds[1:], 1):
            state = bytes(SBOX[state[(i + 4 * (i % 4)) % 16]] for i in range(16))
            if number < 14:
                state = b"".join(self.mixed(state[i : i + 4]) for i in range(0, 16, 4))
            state = bytes(a ^ b for a, b in zip(state, key, strict=True))
        return state

    @staticmethod
    def mixed(column: bytes) -> bytes:
        total = column[0] ^ column[1] ^ column[2] ^ column[3]
        return bytes(column[i] ^ total ^ _xtime(column[i] ^ column[(i + 1) % 4]) for i in range(4))

    def ghash(self, *texts: bytes) -> int:
        value = 0
        for text in texts:
            for i in range(0, len(text), 16):
                value = self.times(value ^ int.from_bytes(text[i : i + 16].ljust(16, b"\0"), "big"))
        lengths = b"".join((8 * len(text)).to_bytes(8, "big") for text in texts)
        return self.times(value ^ int.from_bytes(lengths, "big"))

    def times(self, value: int) -> int:
        product, factor = 0, self.h
        for bit in range(127, -1, -1):
            if value >> bit & 1:
                product ^= factor
            factor = (factor >> 1) ^ (0xE1 << 120 if factor & 1 else 0)
        return product

    def tag(self, nonce: bytes, text: bytes, aad: bytes) -> bytes:
        mask = self.block(nonce + b"\0\0\0\1")
        return (self.ghash(aad, text) ^ int.from_bytes(mask, "big")).to_bytes(16, "big")

    def encrypt(self, nonce: bytes, text: bytes) -> bytes:
        sealed = self.stream(nonce, text)
        return sealed + self.tag(nonce, sealed, b"")

    def decrypt(self, nonce: bytes, sealed: bytes, aad: bytes) -> bytes:
        text, tag = sealed[:-16], sealed[-16:]
        if len(tag) != 16 or self.tag(nonce, text, aad) != tag:
            raise Refused("tag")
        return self.stream(nonce, text)

    def stream(self, nonce: bytes, text: bytes) -> bytes:
        """The text under the key stream: both ways are the same."""
        out = bytearray()
        for number, i in enumerate(range(0, len(text), 16), 2):
            stream = self.block(nonce + number.to_bytes(4, "big"))
            out += bytes(a ^ b for a, b in zip(text[i : i + 16], stream, strict=False))
        return bytes(out)


# ---- keys and records --------------------------------------------------------------------------------------------


def mac(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hashlib.sha256).digest()


def derived(data_key: bytes, name: str) -> bytes:
    return mac(data_key, f"counterfoil/{name}/v1".encode() + b"\x01")


def context(stream_id: str, purpose: str, ids: list) -> bytes:
    return canonical([f"counterfoil/{purpose}/v1", stream_id, *ids])


def unpacked(packed: bytes) -> bytes:
    if packed[:1] == b"\x00":
        return packed[1:]
    if packed[:1] != b"\x01":
        raise Refused("packing")
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(packed[1:], PART_BYTES + 1)
    except zlib.error:
        raise Refused("packing") from None
    if len(content) > PART_BYTES or not stream.eof or stream.unused_data:
        raise Refused("packing")
    return content


def opened(case: dict) -> tuple[bytes, bytes, bytes]:
    """Content, packed bytes and salt of a record; every check of FORMAT 6 in its order."""
    record = bytes.fromhex(case["record"])
    if case["mode"] == "clear":
        if record[:1] != b"\x00" or len(record) < 34:
            raise Refused("form")
        salt, packed = record[1:33], record[33:]
    else:
        if record[:1] != b"\x01" or len(record) < 1 + 12 + 1 + 16:
            raise Refused("form")
        key = bytes.fromhex(case["data_key"])
        aad = context(case["stream_id"], case["purpose"], case["ids"])
        salt = mac(derived(key, "mac"), aad)
        packed = Aes256Gcm(derived(key, "enc")).decrypt(record[1:13], record[13:], aad)
    content = unpacked(packed)
    if mac(salt, b"\x00" + content).hex() != case["commitment"]:
        raise Refused("commitment")
    if case["mode"] == "sealed" and record[1:13] != mac(salt, packed)[:12]:
        raise Refused("nonce")
    return content, packed, salt


# ---- artifacts ---------------------------------------------------------------------------------------------------

CHUNK = 16 * 1024


def chunk_keys(file: dict, salt: bytes) -> tuple[bytes, int, bytes]:
    """Key, base nonce and commitment of one object: HKDF-Expand with SHA-512."""
    key = derived(bytes.fromhex(file["data_key"]), "artifact")
    info = b"c2sp.org/chunked-encryption@v1+AEAD_AES_256_GCM\0" + salt
    info += context(file["stream_id"], "artifact", [])
    first = hmac.new(key, info + b"\1", hashlib.sha512).digest()
    found = first + hmac.new(key, first + info + b"\2", hashlib.sha512).digest()
    return found[:32], int.from_bytes(found[32:44], "big"), found[44:76]


def chunked(file: dict, salt: bytes, plain: bytes) -> bytes:
    key, nonce, commitment = chunk_keys(file, salt)
    cipher, out = Aes256Gcm(key), salt + commitment
    for number in range(len(plain) // CHUNK + 1):
        chunk = plain[number * CHUNK : (number + 1) * CHUNK]
        out += cipher.encrypt((nonce ^ number).to_bytes(12, "big"), chunk)
    return out


def unchunked(file: dict, stored: bytes, address: str) -> bytes:
    """The plain bytes of an object; every check of FORMAT 10 in its order."""
    if len(stored) < 56:
        raise Refused("length")
    key, nonce, commitment = chunk_keys(file, stored[:24])
    if stored[24:56] != commitment:
        raise Refused("commitment")
    cipher, plain, rest = Aes256Gcm(key), b"", stored[56:]
    pieces = [rest[at : at + CHUNK + 16] for at in range(0, len(rest), CHUNK + 16)]
    if len(rest) % (CHUNK + 16) == 0:
        pieces.append(b"")
    for number, piece in enumerate(pieces):
        if len(piece) < 16:
            raise Refused("cut")
        try:
            plain += cipher.decrypt((nonce ^ number).to_bytes(12, "big"), piece, b"")
        except Refused:
            raise Refused("chunk") from None
    if mac(derived(bytes.fromhex(file["data_key"]), "address"), plain).hex() != address:
        raise Refused("address")
    return plain


# ---- forms -------------------------------------------------------------------------------------------------------

ULID = "[0-7][0-9A-HJKMNP-TV-Z]{25}"
PREFIXES = ["ldg", "str", "evt", "run", "stp", "cal", "eff", "apr", "rev", "rep", "adm", "sch", "trn"]
PREFIXES += ["dk", "kek", "del", "ers", "hld"]
LABEL = "[A-Za-z0-9_][A-Za-z0-9_.:/+-]{0,127}"
CLASSES = {"public", "internal", "confidential", "personal", "secret"}


def fits(pattern: str, text: object) -> bool:
    return isinstance(text, str) and re.fullmatch(pattern, text) is not None


def is_time(text: object) -> bool:
    if not fits(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z", text):
        return False
    try:
        datetime.fromisoformat(text[:19])
    except ValueError:
        return False
    return True


def is_id(text: object, *prefixes: str) -> bool:
    return fits(f"(?:{'|'.join(prefixes or PREFIXES)})_{ULID}", text)


def is_event_type(text: object) -> bool:
    return fits(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*){1,4}", text) and len(text) <= 96


FORMS = {
    "label": lambda text: fits(LABEL, text),
    "name": lambda text: fits(f"{LABEL}|~[0-9a-f]{{16}}", text),
    "event_type": is_event_type,
    "decimal": lambda text: fits(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?", text) and len(text) <= 40,
    "time": is_time,
    "digest": lambda text: fits("[0-9a-f]{64}", text),
    "tag": lambda text: fits("[0-9a-f]{32}", text),
    "id": is_id,
}


def is_integer(value: object, low: int, high: int = 2**53 - 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


# ---- headers and genesis -----------------------------------------------------------------------------------------


def read_record(text: str) -> dict:
    """The canonical subset of headers, genesis and signed records."""
    if any(not " " <= letter <= "~" or letter == "\\" for letter in text):
        raise Refused("canonical")
    try:
        value = read_json(text.encode("ascii"))
    except Refused:
        raise Refused("canonical") from None
    if not isinstance(value, dict) or canonical_text(value) != text or has_float(value):
        raise Refused("canonical")
    return value


def has_float(value: object) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, float) or any(map(has_float, inner))


def read_genesis(text: str) -> dict:
    members = read_record(text)
    if members.get("ctx") != "counterfoil/genesis/v1" or members.get("suite") != "CF1":
        raise Refused("format")
    continues = members.pop("continues", None)
    good = (
        set(members) == {"ctx", "ledger", "tenant", "stream_id", "kind", "key", "content", "suite"}
        and is_id(members["ledger"], "ldg")
        and fits(LABEL, members["tenant"])
        and is_id(members["stream_id"], "str")
        and (
            members["kind"] == "conversation"
            or (fits(LABEL, members["kind"]) and fits("system/.+", members["kind"]))
        )
        and is_id(members["key"], "dk")
        and members["content"] in ("sealed", "clear")
    )
    if not good:
        raise Refused("member")
    if continues is not None:
        if not (len(continues) == 3 and is_id(continues[0], "str") and is_integer(continues[1], 0)):
            raise Refused("member")
        members["continues"] = continues
    return members


def is_actor(value: object) -> bool:
    if not isinstance(value, dict) or not {"type", "id"} <= set(value) <= {"type", "id", "identity_version"}:
        return False
    if value["type"] not in ("agent", "user", "human", "worker", "service", "system"):
        return False
    person = value["type"] in ("user", "human")
    named = is_id(value["id"], "dk") if person else fits(LABEL, value["id"])
    return named and fits(LABEL, value.get("identity_version", "x"))


def is_part(value: object) -> bool:
    return (
        isinstance(value, dict)
        and {"commitment", "sha256"} <= set(value) <= {"commitment", "sha256", "key", "class"}
        and fits("[0-9a-f]{64}", value["commitment"])
        and fits("[0-9a-f]{64}", value["sha256"])
        and is_id(value.get("key", "dk_" + "0" * 26), "dk")
        and value.get("class", "public") in CLASSES
    )


def is_reference(value: object) -> bool:
    if not isinstance(value, dict) or not {"kind", "class", "sha256"} <= set(value):
        return False
    allowed = {"kind", "class", "sha256"} | (set() if value["class"] == "public" else {"address", "key"})
    return (
        set(value) <= allowed
        and fits(LABEL, value["kind"])
        and value["class"] in CLASSES
        and fits("[0-9a-f]{64}", value["sha256"])
        and fits("[0-9a-f]{64}", value.get("address", "0" * 64))
        and is_id(value.get("key", "dk_" + "0" * 26), "dk")
    )


def is_data(value: object) -> bool:
    def plain(item: object) -> bool:
        return isinstance(item, str) or is_integer(item, -(2**53) + 1)

    def fine(item: object) -> bool:
        if isinstance(item, list):
            texts = all(isinstance(one, str) for one in item)
            return len(item) <= 64 and (texts or all(is_integer(one, -(2**53) + 1) for one in item))
        return isinstance(item, bool) or plain(item)

    return isinstance(value, dict) and all(map(fine, value.values()))


def list_of(check, most: int):
    return lambda value: isinstance(value, list) and 1 <= len(value) <= most and all(map(check, value))


HEADER = {
    "actor": is_actor,
    "artifact_refs": list_of(is_reference, 64),
    "attempt": lambda value: is_integer(value, 1),
    "causation_event_id": lambda value: is_id(value, "evt"),
    "causation_stream_id": lambda value: is_id(value, "str"),
    "content": list_of(is_part, 8),
    "correlation_id": is_id,
    "ctx": lambda value: value == "counterfoil/event/v1",
    "data": is_data,
    "event_id": lambda value: is_id(value, "evt"),
    "event_schema_version": lambda value: is_integer(value, 1),
    "event_type": is_event_type,
    "ignorable": lambda value: value is True,
    "occurred_at": is_time,
    "previous_event_hash": FORMS["digest"],
    "recorded_at": is_time,
    "run_id": lambda value: is_id(value, "run"),
    "step_id": lambda value: is_id(value, "stp"),
    "stream_id": lambda value: is_id(value, "str"),
    "stream_sequence": lambda value: is_integer(value, 1, 2**28),
    "trace_id": FORMS["tag"],
}
REQUIRED = {"actor", "ctx", "data", "event_id", "event_schema_version", "event_type", "occurred_at"}
REQUIRED |= {"previous_event_hash", "recorded_at", "stream_id", "stream_sequence"}


def read_header(text: str) -> dict:
    if len(text.encode("utf-8")) > HEADER_BYTES:
        raise Refused("size")
    # A float is told from a wrong member only where its spelling is canonical.
    if any(not " " <= letter <= "~" or letter == "\\" for letter in text):
        raise Refused("canonical")
    try:
        value = read_json(text.encode("ascii"))
    except Refused:
        raise Refused("canonical") from None
    if not isinstance(value, dict) or canonical_text(value) != text:
        raise Refused("canonical")
    ctx = value.get("ctx")
    if isinstance(ctx, str) and ctx != "counterfoil/event/v1":
        raise Refused("format")
    if not REQUIRED <= set(value) <= set(HEADER):
        raise Refused("member")
    if "causation_stream_id" in value and "causation_event_id" not in value:
        raise Refused("member")
    if not all(HEADER[name](item) for name, item in value.items()):
        raise Refused("member")
    if value.get("causation_stream_id") == value["stream_id"]:
        raise Refused("member")
    return value


# ---- the files ---------------------------------------------------------------------------------------------------


class Check:
    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.wrong: list[str] = []

    def same(self, what: str, found: object, wanted: object) -> None:
        self.count += 1
        if found != wanted:
            self.wrong.append(f"{what}: found {str(found)[:100]!r}, wanted {str(wanted)[:100]!r}")

    def refused(self, what: str, reason: str, call, *arguments) -> None:
        self.count += 1
        try:
            call(*arguments)
        except Refused as refusal:
            if str(refusal) != reason:
                self.wrong.append(f"{what}: refused for {refusal}, not for {reason}")
        else:
            self.wrong.append(f"{what}: accepted, though {reason} is wrong")


def check_canonical(check: Check, file: dict) -> None:
    for case in file["accept"]:
        check.same(case["name"], canonical_text(read_json(case["text"].encode("utf-8"))), case["canonical"])
        check.same(
            case["name"] + ", again", canonical_text(read_json(case["canonical"].encode())), case["canonical"]
        )
    for case in file["refuse"]:
        data = bytes.fromhex(case["hex"]) if "hex" in case else case["text"].encode("utf-8")
        check.refused(case["name"], case["reason"], read_json, data)


def check_numbers(check: Check, file: dict) -> None:
    for case in file["numbers"]:
        value = struct.unpack(">d", bytes.fromhex(case["ieee754"]))[0]
        if case["text"] is None:
            check.refused(case["ieee754"], "number", number_text, value)
        else:
            check.same(case["ieee754"], number_text(value), case["text"])


def check_forms(check: Check, file: dict) -> None:
    for name, cases in file["forms"].items():
        for text in cases["accept"]:
            check.same(f"{name} {text!r}", FORMS[name](text), True)
        for text in cases["refuse"]:
            check.same(f"{name} {text!r}", FORMS[name](text), False)
    for case in file["times"]:
        check.same(case["outside"], is_time(case["time"]), True)
    for case in file["ulids"]:
        check.same(case["text"], ulid(int(case["number"]).to_bytes(16, "big")), case["text"])


def ulid(raw: bytes) -> str:
    value, out = int.from_bytes(raw, "big"), ""
    for _ in range(26):
        out, value = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"[value & 31] + out, value >> 5
    return out


def check_keys(check: Check, file: dict) -> None:
    key, stream = bytes.fromhex(file["data_key"]), file["stream_id"]
    for name in ("enc", "mac", "address", "artifact"):
        check.same(f"K_{name}", derived(key, name).hex(), file[f"K_{name}"])
    check.same(
        "check", mac(key, canonical(["counterfoil/key/v1", file["key_id"], stream]))[:16].hex(), file["check"]
    )
    for case in file["keyed"]:
        aad = context(stream, case["purpose"], case["ids"])
        salt = mac(derived(key, "mac"), aad)
        value = mac(salt, bytes.fromhex(case["data"])).hex()
        check.same(case["purpose"], aad.decode(), case["context"])
        check.same(
            case["purpose"], (salt.hex(), value, value[:32]), (case["salt"], case["keyed"], case["tag"])
        )
    for case in file["derived_ids"]:
        check.same(case["id"], f"{case['prefix']}_{ulid(bytes.fromhex(case['keyed'])[:16])}", case["id"])
    for case in file["hidden_names"]:
        salt = mac(derived(key, "mac"), context(stream, "name", []))
        check.same(case["name"], "~" + mac(salt, case["name"].encode()).hex()[:16], case["hidden"])
    for case in file["tree"]:
        address = mac(derived(key, "address"), case["body"].encode())
        node = hashlib.sha256(
            b"counterfoil/context/v1\0" + bytes.fromhex(case["parent"]) + address
        ).hexdigest()
        check.same("node", (address.hex(), node), (case["address"], case["node"]))
    for case in file["index"]:
        text = canonical(["counterfoil/index/v1", case["purpose"], case["tenant"], case["text"]])
        check.same(case["text"], mac(bytes.fromhex(file["index_key"]), text).hex(), case["value"])


def check_genesis(check: Check, file: dict) -> None:
    for case in file["accept"]:
        check.same(case["name"], read_genesis(case["text"]), case["members"])
        check.same(case["name"], hashlib.sha256(b"\0" + case["text"].encode()).hexdigest(), case["hash"])
    for case in file["refuse"]:
        check.refused(case["name"], case["reason"], read_genesis, case["text"])


def check_records(check: Check, file: dict) -> None:
    for case in file["accept"]:
        content, packed, salt = opened(case)
        check.same(case["name"], content.decode("utf-8"), case["content"])
        check.same(case["name"], (packed.hex(), salt.hex()), (case["packed"], case["salt"]))
        check.same(case["name"], hashlib.sha256(bytes.fromhex(case["record"])).hexdigest(), case["sha256"])
        check.same(
            case["name"], context(case["stream_id"], case["purpose"], case["ids"]).decode(), case["context"]
        )
        check.same(case["name"], canonical(read_json(content)), content)
    for case in file["refuse"]:
        check.refused(case["name"], case["check"], opened, case)
    for case in file["openings"]:
        salt = bytes.fromhex(case["salt"])
        proves = len(salt) == 32 and mac(salt, b"\0" + case["content"].encode()).hex() == case["commitment"]
        check.same(case["name"], proves, case["proves"])


def check_events(check: Check, file: dict) -> None:
    genesis = read_genesis(file["genesis"])
    previous = hashlib.sha256(b"\0" + file["genesis"].encode()).hexdigest()
    for sequence, case in enumerate(file["accept"], 1):
        header = read_header(case["header"])
        place = (header["stream_id"], header["stream_sequence"], header["previous_event_hash"])
        check.same(case["name"], place, (genesis["stream_id"], sequence, previous))
        previous = hashlib.sha256(b"\0" + case["header"].encode()).hexdigest()
        check.same(case["name"], previous, case["hash"])
        check.same(case["name"], len(header.get("content", [])), len(case["records"]))
        for number, part in enumerate(header.get("content", [])):
            record = {
                "mode": genesis["content"],
                "record": case["records"][number],
                "commitment": part["commitment"],
                "data_key": file["keys"][part.get("key", genesis["key"])],
                "stream_id": genesis["stream_id"],
                "purpose": "content",
                "ids": [header["event_id"], number],
            }
            check.same(case["name"], opened(record)[0].decode("utf-8"), case["contents"][number])
            digest = hashlib.sha256(bytes.fromhex(case["records"][number])).hexdigest()
            check.same(case["name"], digest, part["sha256"])
    check.same("binding", bound(file, genesis), file["binding"]["value"])
    for case in file["refuse"]:
        check.refused(case["name"], case["reason"], read_header, case["header"])


def bound(file: dict, genesis: dict) -> str:
    binding = {name: item for name, item in file["binding"].items() if name not in ("effect_id", "value")}
    key = derived(bytes.fromhex(file["keys"][genesis["key"]]), "mac")
    salt = mac(key, context(genesis["stream_id"], "binding", [file["binding"]["effect_id"]]))
    return mac(salt, canonical(binding)).hex()


def check_artifacts(check: Check, file: dict) -> None:
    key = bytes.fromhex(file["data_key"])
    check.same("K_artifact", derived(key, "artifact").hex(), file["K_artifact"])
    check.same("context", context(file["stream_id"], "artifact", []).decode(), file["context"])
    objects = {}
    for case in file["accept"]:
        step, size = case.get("step"), case["size"]
        plain = (
            bytes.fromhex(case["plain"]) if step is None else bytes((i * step + 7) % 256 for i in range(size))
        )
        address = mac(derived(key, "address"), plain)
        salt = bytes.fromhex(case["salt"])
        if case["salt_from_address"]:
            own = mac(mac(derived(key, "mac"), context(file["stream_id"], "artifact-salt", [])), address)[:24]
            check.same(case["name"], salt.hex(), own.hex())
        stored = objects[case["name"]] = chunked(file, salt, plain)
        check.same(case["name"], address.hex(), case["address"])
        check.same(case["name"], (len(plain), len(stored)), (size, case["object_bytes"]))
        check.same(case["name"], stored[24:56].hex(), case["commitment"])
        check.same(case["name"], hashlib.sha256(stored).hexdigest(), case["sha256"])
        check.same(case["name"], stored.hex(), case.get("object", stored.hex()))
        if step is None:
            check.same(case["name"], unchunked(file, stored, case["address"]), plain)
    for case in file["refuse"]:
        whole = objects.get(case.get("of"))
        kept = b"" if whole is None else b"".join(whole[low:high] for low, high in case["edit"]["keep"])
        stored = kept if whole is not None else bytes.fromhex(case["object"])
        check.refused(case["name"], case["check"], unchunked, file, stored, case["address"])
    for size, wanted in file["size_classes"]:
        check.same(f"{size} bytes", next(n for n in range(64) if 2**n >= size), wanted)


# ---- exact requests ----------------------------------------------------------------------------------------------


class Requests:
    """What one stream has recorded of requests: bodies under their addresses, nodes with parent and address."""

    def __init__(self, data_key: bytes) -> None:
        self.key = derived(data_key, "address")
        self.bodies: dict[str, bytes] = {}
        self.nodes: dict[str, tuple[str, str]] = {}

    def digest(self, text: object) -> str:
        if not fits("[0-9a-f]{64}", text):
            raise Refused("form")
        return text

    def add(self, branch: dict) -> None:
        if not {"bodies"} <= set(branch) <= {"bodies", "parent"} or not 1 <= len(branch["bodies"]) <= 64:
            raise Refused("form")
        parent = self.digest(branch["parent"]) if "parent" in branch else None
        if parent not in (None, "0" * 64) and parent not in self.nodes:
            raise Refused("parent")
        for entry in branch["bodies"]:
            address = self.entry(entry)
            if address not in self.bodies:
                raise Refused("body")
            if parent is not None:
                joined_hashes = bytes.fromhex(parent) + bytes.fromhex(address)
                node = hashlib.sha256(b"counterfoil/context/v1\0" + joined_hashes).hexdigest()
                self.nodes[node] = (parent, address)
                parent = node

    def entry(self, entry: object) -> str:
        if isinstance(entry, str):
            return self.bring(mac(self.key, entry.encode()).hex(), entry.encode())
        if not isinstance(entry, dict) or set(entry) != {"body"}:
            raise Refused("form")
        return self.digest(entry["body"])

    def bring(self, address: str, body: bytes) -> str:
        if mac(self.key, body).hex() != address:
            raise Refused("body")
        self.bodies[address] = body
        return address

    def path(self, tip: str) -> list[bytes]:
        found = []
        while tip != "0" * 64:
            if tip not in self.nodes:
                raise Refused("tip")
            tip, address = self.nodes[tip]
            found.insert(0, self.bodies[address])
        return found

    def segment(self, segment: dict) -> bytes:
        match sorted(segment):
            case ["raw"]:
                return segment["raw"].encode()
            case ["body"]:
                return self.bodies[self.digest(segment["body"])]
            case ["join", "path"]:
                return segment["join"].encode().join(self.path(self.digest(segment["path"])))
        raise Refused("form")

    def whole(self, case: dict) -> bytes:
        found = b"".join(map(self.segment, case["segments"]))
        if mac(self.key, found).hex() != case["request"]:
            raise Refused("request")
        return found


def check_requests(check: Check, file: dict) -> None:
    stream = Requests(bytes.fromhex(file["data_key"]))
    for case in file["accept"]:
        for branch in case["branches"]:
            stream.add(branch)
        check.same(case["name"], stream.whole(case).decode(), case["sent"])
        check.same(case["name"], [body.decode() for body in stream.path(case["tip"])], case["messages"])
        check.same(case["name"], len(case["messages"]), case["bodies"])
    for case in file["refuse"]:
        call, given = (stream.add, case["branch"]) if "branch" in case else (stream.whole, case)
        check.refused(case["name"], case["check"], call, given)


class Bodies(Requests):
    """As Requests, with the two forms of a body that is not written out."""

    def __init__(self, file: dict) -> None:
        super().__init__(bytes.fromhex(file["data_key"]))
        self.responses = {one["event_id"]: one["text"] for one in file["responses"]}
        self.objects = {one["sha256"]: one for one in file["objects"]}

    def entry(self, entry: object) -> str:
        if isinstance(entry, dict) and set(entry) == {"$spilled"}:
            return self.moved(entry["$spilled"])
        if isinstance(entry, dict) and set(entry) == {"body", "said", "in"}:
            return self.said(entry)
        return super().entry(entry)

    def moved(self, inner: dict) -> str:
        one = self.objects.get(inner["sha256"])
        if inner["form"] != "text" or one is None:
            raise Refused("form")
        check_bytes = one["plain"].encode()
        if inner["bytes"] != len(check_bytes):
            raise Refused("body")
        return self.bring(one["address"], check_bytes)

    def said(self, entry: dict) -> str:
        around = entry["in"]
        sides = [side for side in around if isinstance(side, str)]
        if len(around) != 2 or len(sides) != 2 or not fits("evt_[0-9A-HJKMNP-TV-Z]{26}", entry["said"]):
            raise Refused("form")
        address, text = self.digest(entry["body"]), self.responses.get(entry["said"])
        if text is None:
            raise Refused("body")
        return self.bring(address, sides[0].encode() + canonical(text) + sides[1].encode())


def check_bodies(check: Check, file: dict) -> None:
    stream = Bodies(file)
    for case in file["accept"]:
        before = len(stream.nodes)
        stream.add(case["branch"])
        check.same(case["name"], list(stream.nodes)[before:], case["nodes"])
        found = [stream.bodies[address].decode() for address in case["addresses"]]
        check.same(case["name"], found, case["bodies"])
        addresses = [mac(stream.key, body.encode()).hex() for body in case["bodies"]]
        check.same(case["name"], addresses, case["addresses"])
    for case in file["refuse"]:
        check.refused(case["name"], case["check"], stream.add, case["branch"])


def check_turn(check: Check, file: dict) -> None:
    previous = "0" * 64
    for case in file["events"]:
        summary = re.sub("[\ud800-\udfff]", "\ufffd", joined(case["summary"]))
        fields = [
            case["turn_id"],
            case["agent_id"],
            str(case["seq"]),
            case["type"],
            case["payload_hash"] or "",
        ]
        text = "|".join([previous, *fields, summary, str(case["created_at_ms"])])
        check.same(case["type"], case["previous"], previous)
        previous = hashlib.sha256(text.encode("utf-8")).hexdigest()
        check.same(case["type"], previous, case["hash"])


PACKAGE = {
    "passphrase": {"n", "r", "p", "salt"},
    "recipient": {"recipient", "enc", "sealed"},
    "epoch": {"kek", "wrapped"},
}
PRIME = 2**255 - 19


def x25519(scalar: bytes, point: bytes) -> bytes:
    """RFC 7748, section 5: the Montgomery ladder."""
    number = int.from_bytes(scalar, "little") & ~7 & ((1 << 255) - 1) | 1 << 254
    base = int.from_bytes(point, "little") & ((1 << 255) - 1)
    x2, z2, x3, z3, swap = 1, 0, base, 1, 0
    for place in range(254, -1, -1):
        bit = number >> place & 1
        if swap ^ bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swap = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a, b * b, d * a, c * b
        x3, z3 = (da + cb) ** 2 % PRIME, base * (da - cb) ** 2 % PRIME
        x2, z2 = aa * bb % PRIME, (aa - bb) * (aa + 121665 * (aa - bb)) % PRIME
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, PRIME - 2, PRIME) % PRIME).to_bytes(32, "little")


def expanded(secret: bytes, info: bytes, length: int) -> bytes:
    """HKDF-Expand with SHA-256."""
    made, block = b"", b""
    while len(made) < length:
        block = mac(secret, block + info + bytes([len(made) // 32 + 1]))
        made += block
    return made[:length]


def received(private: bytes, enc: bytes, sealed: bytes) -> bytes:
    """HPKE, base mode, without aad (RFC 9180)."""
    kem = b"KEM\x00\x20"
    suite = b"HPKE\x00\x20\x00\x01\x00\x02"

    def extract(of: bytes, salt: bytes, label: bytes, data: bytes) -> bytes:
        return mac(salt or bytes(32), b"HPKE-v1" + of + label + data)

    def expand(of: bytes, key: bytes, label: bytes, info: bytes, length: int) -> bytes:
        return expanded(key, length.to_bytes(2, "big") + b"HPKE-v1" + of + label + info, length)

    own = x25519(private, (9).to_bytes(32, "little"))
    shared = extract(kem, b"", b"eae_prk", x25519(private, enc))
    shared = expand(kem, shared, b"shared_secret", enc + own, 32)
    info = b"counterfoil/keys/v1"
    told = b"\0" + extract(suite, b"", b"psk_id_hash", b"") + extract(suite, b"", b"info_hash", info)
    secret = extract(suite, shared, b"secret", b"")
    key, nonce = expand(suite, secret, b"key", told, 32), expand(suite, secret, b"base_nonce", told, 12)
    return Aes256Gcm(key).decrypt(nonce, sealed, b"")


def read_package(case: dict) -> list:
    """The keys of a package under its secret; every check of FORMAT 15 in its order."""
    if not case["package"].endswith("\n"):
        raise Refused("canonical")
    value = read_record(case["package"][:-1])
    if value.keys() != PACKAGE[value["protection"]] | {"ctx", "protection", "commitment", "box"}:
        raise Refused("members")
    if value["protection"] == "passphrase" and (value["n"], value["r"], value["p"]) != (1 << 17, 8, 1):
        raise Refused("cost")
    box, commitment = base64.b64decode(value.pop("box"), validate=True), value.pop("commitment")
    aad = canonical(value)
    made = expanded(bytes.fromhex(case["secret"]), b"counterfoil/keys/v1" + aad, 64)
    if made[32:].hex() != commitment:
        raise Refused("commitment")
    return json.loads(Aes256Gcm(made[:32]).decrypt(bytes(12), box, aad))


def stretched(passphrase: str, salt: bytes) -> bytes:
    text = unicodedata.normalize("NFC", passphrase).encode()
    return hashlib.scrypt(text, salt=salt, n=1 << 17, r=8, p=1, maxmem=1 << 28, dklen=32)


def read_archive(text: str) -> dict:
    """The head of each stream of an archive, by id; every check of FORMAT 15 in its order."""
    data = text.encode()
    lines = data.splitlines(keepends=True)
    values, heads, place = [], {}, 1
    for line in lines:
        value = read_json(line[:-1])
        if not line.endswith(b"\n") or canonical(value) != line[:-1]:
            raise Refused("canonical")
        values.append(value)
    if values[0].get("ctx") != "counterfoil/archive/v1":
        raise Refused("format")
    for _ in range(values[0]["streams"]):
        begin = expect(values, place, "stream")
        genesis = read_genesis(begin["genesis"])
        tip = hashlib.sha256(b"\0" + begin["genesis"].encode()).hexdigest()
        for number in range(1, begin["events"] + 1):
            tip = read_event(expect(values, place + number, "event"), genesis, number, tip)
        heads[genesis["stream_id"]] = tip
        place += begin["events"] + 1
    end = expect(values, place, "end")
    before = b"".join(lines[:place])
    if (
        place != len(lines) - 1
        or end["lines"] != place
        or end["sha256"] != hashlib.sha256(before).hexdigest()
    ):
        raise Refused("end")
    return heads


def expect(values: list, place: int, kind: str) -> dict:
    if place >= len(values) or values[place].get("record") != kind:
        raise Refused("kind")
    return values[place]


def read_event(line: dict, genesis: dict, number: int, tip: str) -> str:
    header = read_header(line["header"])
    fits_in = (header["stream_id"], header["stream_sequence"]) == (genesis["stream_id"], number)
    if not fits_in or header["previous_event_hash"] != tip:
        raise Refused("link")
    parts = header.get("content", [])
    if len(parts) != len(line["content"]):
        raise Refused("record")
    for part, record in zip(parts, line["content"]):
        if record is not None:
            stored = base64.b64decode(record, validate=True)
            if hashlib.sha256(stored).hexdigest() != part["sha256"]:
                raise Refused("record")
    return hashlib.sha256(b"\0" + line["header"].encode()).hexdigest()


def check_archive(check: Check, file: dict) -> None:
    check.same("heads", read_archive(file["archive"]), file["heads"])
    check.same("sha256", hashlib.sha256(file["archive"].encode()).hexdigest(), file["sha256"])
    for case in file["packages"]:
        check.same(case["name"], read_package(case), case["keys"])
        value = json.loads(case["package"])
        if "passphrase" in case:
            found = stretched(case["passphrase"], bytes.fromhex(value["salt"]))
            check.same(case["name"], found.hex(), case["secret"])
        elif "private_key" in case:
            given = (case["private_key"], value["enc"], value["sealed"])
            check.same(case["name"], received(*map(bytes.fromhex, given)).hex(), case["secret"])
    for case in file["refuse"]:
        check.refused(case["name"], case["check"], read_archive, case["archive"])
    for case in file["refuse_packages"]:
        check.refused(case["name"], case["check"], read_package, case)


FILES = {
    "archive": check_archive,
    "canonical": check_canonical,
    "numbers": check_numbers,
    "forms": check_forms,
    "keys": check_keys,
    "genesis": check_genesis,
    "records": check_records,
    "artifacts": check_artifacts,
    "requests": check_requests,
    "bodies": check_bodies,
    "events": check_events,
    "turn": check_turn,
}


def main() -> int:
    failed = 0
    for name in sys.argv[1:] or FILES:
        check, run = Check(name), FILES[name]
        try:
            run(check, json.loads((HERE / f"{name}.json").read_text("utf-8")))
        except Refused as refusal:
            check.same("a vector that should be accepted", f"refused for {refusal}", "accepted")
        failed += len(check.wrong)
        lines = [f"{name}: {check.count - len(check.wrong)} of {check.count} agree", *check.wrong]
        sys.stdout.write("\n  ".join(lines).encode("ascii", "backslashreplace").decode() + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
