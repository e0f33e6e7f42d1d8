"""Secrets of every kind, made up by the thousand, dressed up in Unicode and split by line breaks, never reach a summary."""

from __future__ import annotations

import random
import re
import unicodedata
from itertools import accumulate

from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.journal.grapheme import cut_text
from counterfoil.journal.redaction import TEXT_CHARACTERS_MAX, redact, redact_name
from counterfoil.journal.summary import SUMMARY_CHARACTERS_MAX, Said, summary

LOWER = "abcdefghijklmnopqrstuvwxyz"
ALNUM = LOWER + LOWER.upper() + "0123456789"
KEY_HEADS = (
    "sk-", "sk-ant-api03-", "sk_live_", "rk_test_", "ghp_", "gho_", "github_pat_", "glpat-", "xoxb-", "xoxp-",
    "AKIA", "AIza", "hf_", "npm_", "ya29.", "whsec_", "SG.", "dop_v1_", "shpat_",
)  # fmt: skip
SCHEMES = ("Bearer ", "bearer ", "BEARER  ", "Authorization: Bearer ", "Basic ", "bearer: ")
ASSIGNMENTS = (
    "password=",
    "api_key: ",
    "API-KEY = ",
    '"client_secret": "',
    "pwd=",
    "token=",
    "aws_secret_access_key=",
    "AccountKey=",
)
AT_SIGNS = ("@", "@", "@", "%40", "%2540", r"\u0040", "&#64;", "&#x40;", " (at) ")
UNLIKE = str.maketrans("аеорсухѕ\u2013", "aeopcyxs-")  # noqa: RUF001
ALIKE = str.maketrans("aeopcyxs-", "аеорсухѕ\u2013")  # noqa: RUF001
BREAKS = ("\n", "\r\n", "\n  ", "\\\n", "\u2028", "\x85")
STEERING = ("\x1b[1m", "\x07", "\x1b", "\x9b", "\x08")
NOTHING = ("\u200b", "\u200d", "\u00ad", "\u2060", "\ufeff", "\u202e")
WORDS = ("the", "order", "was", "sent", "to", "Ines", "status", "is", "café", "退款", "résumé", "ok")


def letters(alphabet, least, most):
    """Letters by chance, as a machine makes a token: what is found is not made simpler, since AAAA is no secret."""

    def made(seed, size):
        chance = random.Random(seed)
        return "".join(chance.choice(alphabet) for _ in range(size))

    return st.builds(made, st.integers(0, 2**32), st.integers(least, most))


def mixed(text):
    """Whether a random token looks like one: a run of few kinds of letters is a word."""
    return any(c.isdigit() for c in text) and any(c.isalpha() for c in text)


@st.composite
def emails(draw):
    local = draw(letters(LOWER + "0123456789._+-éüß", 1, 20).filter(lambda text: text.strip("._+-")))
    domain = draw(letters(LOWER + "ä-", 2, 12).filter(lambda text: text.strip("-")))
    end = draw(st.sampled_from(["com", "org", "co.in", "example"]))
    return f"{local}{draw(st.sampled_from(AT_SIGNS))}{domain}.{end}"


@st.composite
def digits(draw):
    runs = draw(st.lists(letters("0123456789", 3, 6), min_size=4, max_size=6))
    return draw(st.sampled_from(["", " ", "-", ".", "\u0660"])).join(runs)


@st.composite
def short_keys(draw):
    tail = draw(letters(ALNUM, 6, 12).filter(mixed))
    return draw(st.sampled_from(["sk-", "sk_", "pk-", "rk_", "sk - ", "ghp_"])) + tail


said = st.builds(
    lambda head, tail: head + tail,
    st.sampled_from(("token ", "pwd ", "Password ", "Authorization: Token ", "Bearer-")),
    letters(ALNUM, 7, 20).filter(mixed),
)
one_case = st.one_of(letters(LOWER, 24, 40), letters(LOWER.upper(), 24, 40), letters("abcdef", 16, 40))
numbered = letters("0123456789" * 3 + "abc", 10, 15).filter(
    lambda text: mixed(text) and sum(map(str.isdigit, text)) >= 7
)
opaque = letters(ALNUM, 20, 64).filter(mixed)
base64ish = letters(ALNUM + "+/", 24, 88).filter(mixed).map(lambda text: text + "==")
hexadecimal = letters("0123456789abcdef", 32, 64).filter(mixed)
provider_keys = st.builds(
    lambda head, tail: head + tail, st.sampled_from(KEY_HEADS), letters(ALNUM + "_-", 16, 60)
)
bearers = st.builds(
    lambda head, tail: head + tail, st.sampled_from(SCHEMES), letters(ALNUM + "._~+/-", 8, 80)
)
assigned = st.builds(
    lambda head, tail: head + tail, st.sampled_from(ASSIGNMENTS), letters(ALNUM + "!$%^*", 6, 24)
)
jwts = st.builds(lambda a, b, c: f"eyJ{a}.eyJ{b}.{c}", *(letters(ALNUM + "_-", 12, 40) for _ in range(3)))
secrets = st.one_of(
    emails(),
    digits(),
    opaque,
    base64ish,
    hexadecimal,
    provider_keys,
    bearers,
    assigned,
    jwts,
    short_keys(),
    said,
    one_case,
    numbered,
)


def wide(text):
    """The same in full-width forms, as a model may write it."""
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


@st.composite
def dressed(draw):
    """A secret as found: with what draws nothing inside it, in full-width forms, or with a line break in the middle."""
    secret = draw(secrets)
    place = draw(st.integers(1, max(1, len(secret) - 1)))
    form = draw(st.sampled_from(["plain", "wide", "invisible", "broken", "alike", "steering"]))
    if form == "wide":
        return secret, wide(secret)
    if form == "alike":
        return secret, secret.translate(ALIKE)
    if form == "steering":
        return secret, secret[:place] + draw(st.sampled_from(STEERING)) + secret[place:]
    if form == "invisible":
        return secret, secret[:place] + draw(st.sampled_from(NOTHING)) + secret[place:]
    if form == "broken":
        return secret, secret[:place] + draw(st.sampled_from(BREAKS)) + secret[place:]
    return secret, secret


def core_of(secret):
    """What nobody may read: the part behind a scheme, a name or a vendor's head."""
    for head in (*SCHEMES, *ASSIGNMENTS, "token ", "pwd ", "Password ", "Authorization: Token ", "Bearer-"):
        secret = secret.removeprefix(head)
    return secret


def bare(text):
    return re.sub(r"[\W_]", "", unicodedata.normalize("NFKC", text))


def shows(text, secret):
    """Whether six characters of the secret in a row, a third of a short one, can be read in the text."""
    hidden, seen = bare(core_of(secret)), bare(text.translate(UNLIKE))
    size = min(6, max(4, len(hidden) // 3))
    return any(hidden[place : place + size] in seen for place in range(len(hidden) - size + 1))


@settings(max_examples=600, deadline=None)
@given(dressed(), st.sampled_from(WORDS), st.sampled_from(WORDS))
def test_no_piece_of_a_secret_is_left(found, before, after):
    secret, written = found
    assert not shows(redact(f"{before} {written} {after}"), secret)


@settings(max_examples=300, deadline=None)
@given(dressed())
def test_a_secret_that_stands_where_a_name_belongs_is_masked_too(found):
    secret, written = found
    assert not shows(redact_name(written), secret)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=600), st.integers(0, 3))
def test_a_summary_is_one_line_of_at_most_240_characters(text, gap):
    made = summary({"tool": text[:40], "reason": Said(text), "more": Said(text[::-1])}, gap=gap)
    assert len(made) <= SUMMARY_CHARACTERS_MAX
    assert len(made.splitlines()) <= 1
    assert unicodedata.category(made[-1]) != "Cf"


@settings(max_examples=300, deadline=None)
@given(dressed(), st.integers(0, 120), st.sampled_from(["", " and then some more words", "\nmore"]))
def test_a_secret_that_the_end_of_what_is_looked_at_cuts_is_not_shown(found, before, after):
    secret, written = found
    text = "word " * (TEXT_CHARACTERS_MAX // 5) + after
    place = TEXT_CHARACTERS_MAX - before
    assert not shows(redact(f"{text[:place]} {written}{text[place:]}"), secret)


GRAPHEMES = (
    *"aé한",
    "e\u0301",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f44d\U0001f3fd",
    "\U0001f1eb\U0001f1f7",
    "\u2764\ufe0f",
    "1\ufe0f\u20e3",
    "\u0915\u094d\u0937",
    "\u0e01\u0e33",
    "\r\n",
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(GRAPHEMES), max_size=40), st.integers(0, 60))
def test_a_cut_keeps_whole_graphemes(graphemes, size):
    text = "".join(graphemes)
    ends = list(accumulate(map(len, graphemes), initial=0))
    kept = cut_text(text, size)
    assert text.startswith(kept)
    assert len(kept) <= size or len(text) <= size
    assert len(kept) in ends


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12))
def test_plain_words_stay_as_they_are(words):
    text = " ".join(words)
    assert redact(text) == text
