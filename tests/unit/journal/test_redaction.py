from __future__ import annotations

import json

import pytest

from counterfoil.journal.redaction import MASK, redact, redact_name
from counterfoil.journal.summary import Own, Said, summary


def wide(text):
    """The same in full-width forms."""
    return "".join(chr(ord(character) + 0xFEE0) for character in text)


MASKED = {
    "an e-mail address": ("ask ines.arvold@example.org now", "ask *** now"),
    "an address in words": ("ines (at) example.org", "***"),
    "a bearer token": ("Authorization: Bearer abc.def", "*** ***"),
    "a bearer token alone": ("sent bearer abcdef today", "sent bearer *** today"),
    "a provider's key": ("with sk-ant-api03-Zk3a9Qx7mN2pLw8v", "with ***"),
    "a card": ("card 4111 1111 1111 1111", "card ***"),
    "a phone number": ("call 170-1234567", "call ***"),
    "digits of another script": ("id ١٢٣٤٥٦٧٨٩", "id ***"),
    "an opaque token": ("cursor 9fQ2mZr7Lx0Vb4Tn8Ks1", "cursor ***"),
    "a long word of letters": ("x" * 40, "***"),
    "a password said": ("the password is hunter2", "the ***"),
    "a password in an address": ("postgres://shop:hunter2@db/x", "postgres://***@db/x"),
    "a private key": ("-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----", "***"),
    "a private key cut off": ("-----BEGIN PRIVATE KEY----- MIIB MIIC", "***"),
    "a token in full-width forms": (wide("sk-ant-api03-Zk3a9Qx7"), "***"),
    "a token with what draws nothing": ("sk-ant\u200b-api03-Zk3a9Qx7mN2p", "***"),
    "a token split by a line break": ("use sk-ant-\napi03-Zk3a9Qx7mN2p now", "***"),
    "a short key": ("with sk-abc123", "with ***"),
    "a key with another hyphen": ("with sk\u2010abc123def45", "with ***"),
    "a key with a dash": ("with sk\u2013proj-abc123DEF456", "with ***"),
    "a key with a letter that looks alike": ("with \u0455k-proj-abc12", "with ***"),
    "a key with spaces in it": ("with sk - abc123def", "with ***"),
    "a bearer with a letter that looks alike": ("B\u0435arer abcdefg1234", "Bearer ***"),
    "a bearer with a hyphen": ("Bearer-abcd123", "Bearer ***"),
    "a token said": ("the token hunter2secret", "the token ***"),
    "a token of any scheme": ("Authorization: Token abc", "*** ***"),
    "the key of an account": ("AccountKey=abcd", "***"),
    "a password said after its short name": ("pwd hunter2", "pwd ***"),
    "an address of a URL": ("to bob%40example.org", "to ***"),
    "an address of a URL in a URL": ("to bob%2540example.org", "to ***"),
    "an escaped address": (r"to bob\u0040example.org", "to ***"),
    "an address of a page": ("to ann&#64;b.com", "to ***"),
    "an address with quotes": ('to "ann"@b.com', "to ***"),
    "an address at a number": ("to ann@[10.0.0.1]", "to ***"),
    "hexadecimal letters": ("id deadbeefdeadbeefdeadbeef", "id ***"),
    "a long word in capitals": ("id ABCDEFGHIJKLMNOPQRSTUVWX", "id ***"),
    "digits with a letter between": ("id 12345a67890b", "id ***"),
    "a key that steers a terminal": ("sk-\x1b[1mant-api03-Zk3a9Qx7\x07", "***"),
    "an address split by a line break": ("to ines@exa\n  mple.org", "***"),
}

KEPT = (
    "payment.refund",
    "mcp__github__create_issue",
    "claude-3-5-sonnet-20241022",
    "claude-haiku-4-5-20251001",
    "gpt-4o-2024-08-06",
    "anthropic/claude-opus-4-1",
    "llama3.1:70b-instruct-q4_K_M",
    "us.amazon.nova-pro-v1:0",
    "getCustomerOrderHistory",
    "FabricatedUrlCheck",
    "keyboard_lookup_tool",
    "ValueError",
)


@pytest.mark.parametrize("name", MASKED)
def test_masked_is(name):
    text, shown = MASKED[name]
    assert redact(text) == shown


@pytest.mark.parametrize("name", KEPT)
def test_a_name_reads_as_it_is(name):
    assert redact_name(name) == name


def test_a_line_break_without_a_secret_is_a_space():
    assert redact("not found\r\n  in the shop") == "not found in the shop"


PLAIN = (
    "unexpected token in line 12",
    "the token was spent",
    "password reset was asked for",
    "see sk-learn and pk of the table",
    "basic-auth is off, digest-md5 too",
    "Заказ не найден в магазине",
    "нет доступа – позвоните",
    "sent – and kept",
    "dependencies: @scope/package",
    'import "from \\"@scope/package\\""',
    "the api key for v2 was turned",
)


@pytest.mark.parametrize("text", PLAIN)
def test_words_that_only_begin_like_a_secret_stay(text):
    assert MASK not in redact(text)
    assert redact(text) in (text, text.replace("\u2013", "-"))


def test_look_alikes_beside_a_secret_of_another_kind_stay_as_they_were_written():
    assert redact("Заказ 4111 1111 1111 1111") == "Заказ ***"


@pytest.mark.parametrize("character", [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0))])
def test_nothing_that_steers_a_terminal_is_part_of_a_summary(character):
    shown = redact(f"a{character}b{character}")
    assert shown in ("ab", "a b")


def test_nul_and_half_a_pair_are_no_part_of_a_summary():
    assert redact("a\0b\ud800c\x1b[2J") == "abc"


def test_a_text_without_end_is_looked_at_in_part():
    assert len(redact("word " * 100_000)) < 5000


def test_own_values_pass_and_others_are_redacted():
    made = summary(
        {"session": Own("ab" * 32), "request": "apr_01J9ZC3Y3V7W2R5T8QK4M6N0PN", "tool": "ab" * 32}
    )
    assert made == f"session={'ab' * 32} request=apr_01J9ZC3Y3V7W2R5T8QK4M6N0PN tool=***"


def test_a_value_from_outside_cannot_imitate_another_field():
    made = summary({"guard": "g", "reason": Said("no status=completed | seq=1")})
    assert made == "guard=g reason=no_status:completed_/_seq:1"


def test_a_gap_comes_first_so_that_no_cut_takes_it():
    made = summary({"reason": Said("word " * 200), "more": Said("word " * 200)}, gap=12)
    assert made.startswith("gap=12 reason=word_word")
    assert len(made) == 240


def test_what_tools_really_return_leaves_no_secret():
    output = json.dumps(
        {
            "env": {"OPENAI_API_KEY": "sk-proj-Zk3a9Qx7mN2pLw8vTr5y", "HOME": "/srv/shop"},
            "git": "https://x-access-token:ghp_Zk3a9Qx7mN2pLw8vTr5yBd6h@github.example/shop.git",
            "log": "2026-09-01 user ines.arvold@example.org card=4111111111111111",
            "headers": {"Authorization": "Bearer eyJhbGciOi.eyJzdWIiOj.c2lnbmF0", "Cookie": "sid=8f3a9c"},
        },
        indent=1,
    )
    made = summary({"error": Said(output)})
    for secret in ("sk-proj", "Zk3a9Qx7", "ines", "4111", "eyJ", "8f3a9c"):
        assert secret not in made
