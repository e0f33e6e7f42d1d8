"""What a summary never shows: e-mail addresses, bearer tokens, keys, long runs of digits, long opaque tokens (seed 000).

When in doubt it masks. A secret is found also when it is written in look-alike forms of Unicode, with characters inside
it that draw nothing, and when a line break splits it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Final

MASK: Final = "***"

DIGITS_MIN: Final = 7
"""A run of so many digits, single separators between them included, is masked."""

TOKEN_MIN: Final = 20
"""A token of so many, letters and digits among them, is opaque whatever other punctuation stands between them."""

OPAQUE_MIN: Final = 16
"""A piece of so many that mixes letters with digits, or upper with lower case beyond what names do."""

LETTERS_MIN: Final = 28
"""A piece of letters alone is opaque from here on: no word of a summary is so long."""

ONE_CASE_MIN: Final = 24
"""The same where it is all capitals or all small letters, and so not words that were put together."""

HEX_LETTERS_MIN: Final = 16
"""A piece of nothing but ``a`` to ``f`` is a number from here on."""

NAME_CHARACTERS_MAX: Final = 96
TEXT_CHARACTERS_MAX: Final = 512
"""Of a longer text only the beginning is looked at; a summary shows far less."""

EDGE_CHARACTERS: Final = 96
"""What is left out in front of that end: a secret that the end cuts is not known by its first few characters."""

_BREAKS: Final = re.compile(r"\\?[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
_BREAKS_ALONE: Final = re.compile(_BREAKS.pattern.removeprefix(r"\\?"))
_INVISIBLE: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180e\u2800\u3164\uffa0")

_PRIVATE_KEY: Final = re.compile(r"-{2,8}\s?BEGIN[^-]*-{2,8}.*?(?:-{2,8}\s?END[^-]*-{2,8}|\Z)", re.DOTALL)
_AT: Final = r"(?:@|%(?:25)*40|(?:&amp;|&)(?:\#0*64|\#x0*40|commat);|\\+(?:u00|x)40|\(at\)|\[at\])"
_HAS_AT: Final = re.compile(_AT, re.IGNORECASE)
_EMAIL: Final = re.compile(
    rf"(?:\\?\"\w(?:[\w.%+\- ]{{0,62}}\w)?\\?\"{_AT}|[\w.%+\-]+\s?{_AT}\s?)(?:\[[\w.:]+\]|[\w.\-]+)",
    re.IGNORECASE,
)
_USER_INFO: Final = re.compile(r"(?<=://)[^\s/@]+@")
_SCHEME: Final = re.compile(r"\b(bearer|basic|digest|negotiate)[\s:=]+\S+", re.IGNORECASE)
_BEARER: Final = re.compile(r"\b(bearer)[\-_](?=[^\s\-_]*\d)\S{4,}", re.IGNORECASE)
_AUTHORIZATION: Final = re.compile(
    r"(authorization[\"']?\s*[:=]\s*[\"']?\w[\w\-]*)\s+[^\s\"',;&]+", re.IGNORECASE
)
_SAID: Final = re.compile(
    r"\b(pass(?:word|wd|phrase)?|pwd|secret|token|api[_\- ]?key)\s+"
    r"(?=[^\s=:(/]*\d)(?=[^\s=:(/]*[^\W\d_])[^\s=:(/]{6,}(?=[\s,;.)\"']|\Z)",
    re.IGNORECASE,
)
_ASSIGNED: Final = re.compile(
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|(?:api|access|private|account|storage|master"
    r"|encryption|signing|shared|auth|subscription)[_\-]?key"
    r"|credential|authorization|cookie|session[_\-]?id|signature|otp|\bpin)[\w\-]*[\"']?\s*(?:=|:|\bis\b)\s*"
    r"[\"']?[^\s\"',;&]+",
    re.IGNORECASE,
)
_KEY_SHAPES: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:sk|pk|rk|ak|whsec|xox[abeoprs]|xapp|gh[oprsu]|github_pat|glpat|hf|npm|pypi|dop_v1|shpat|shpss"
    r"|SG|ya29|lin_api|rubygems|sq0[a-z]{3}|key|tok|AGE-SECRET-KEY)[_\-.]|AKIA|ASIA|AIza|eyJ)[A-Za-z0-9_\-.+/=]{8,}"
)
_SHORT_KEYS: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:sk|pk|rk|whsec|xox[abeoprs]|gh[oprsu]|glpat)\s?[_\-.]\s?"
    r"(?=[A-Za-z0-9_\-]*\d)[A-Za-z0-9_\-]{4,}"
)
_DIGITS: Final = re.compile(rf"\d(?:[ \-.()/:,_]{{0,2}}\d){{{DIGITS_MIN - 1},}}")
_DIGIT_WORD: Final = re.compile(rf"\w*{_DIGITS.pattern}\w*")
_TOKEN: Final = re.compile(r"[A-Za-z0-9+/=_\-~.]+")
_ONE_CASE: Final = re.compile(
    rf"[A-Z]{{{ONE_CASE_MIN},}}|[a-z]{{{ONE_CASE_MIN},}}|[a-f]{{{HEX_LETTERS_MIN},}}|[A-F]{{{HEX_LETTERS_MIN},}}"
).search
_SPACE: Final = re.compile(r"\s+")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]*").fullmatch
_VERSIONED: Final = re.compile(r"[A-Za-z]*[0-9]{1,4}[A-Za-z]{0,3}").fullmatch
_ERROR_CLASS: Final = re.compile(r"(?:[A-Z]{1,5}[a-z]+){1,7}(?:Error|Exception|Warning)").fullmatch
_PARTS: Final = re.compile(r"[^A-Za-z0-9]+")
_DATES: Final = re.compile(r"(?<!\d)20[0-9]{2}-?(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12][0-9]|3[01])(?!\d)")

_ALIKE: Final = str.maketrans(
    "аеіјорсухѕԁԛԝһкмтнвАВЕЅІЈКМНОРСТУХαεικνορτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧ\u2010\u2012\u2013\u2014\u2015\u2212\u30fb\u3002",
    "aeijopcyxsdqwhkmthbABESIJKMHOPCTYXaeiknoptuxABEZHIKMNOPTYX------..",
)
"""Cyrillic and Greek letters that look like Latin ones, dashes, and the full stops of Chinese and Japanese."""

CONTROLS: Final = re.compile("\x1b\\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
"""What steers a terminal and draws nothing; not what counts as a space or a line break."""


def redact(text: str) -> str:
    """A text as a summary may show it: one line, secrets masked. Takes any text and never fails."""
    seen = _visible(text[:TEXT_CHARACTERS_MAX])
    whole = len(text) <= TEXT_CHARACTERS_MAX and len(seen) <= TEXT_CHARACTERS_MAX
    lines = [line.strip() for line in _BREAKS.split(seen[:TEXT_CHARACTERS_MAX])]
    shown = _masked(" ".join(lines))
    if len(lines) > 1 and (MASK in shown or any(MASK in _masked(joined) for joined in _joined(seen, lines))):
        # A line break may have split a secret anywhere, its name included: of such a text nothing is shown.
        return MASK
    return _SPACE.sub(" ", shown if whole else shown[:-EDGE_CHARACTERS]).strip()


def _joined(seen: str, lines: list[str]) -> Iterator[str]:
    """The text as it would be without its breaks; a backslash may belong to the break or to what it splits."""
    yield "".join(lines)
    if "\\" in seen:
        yield "".join(line.strip() for line in _BREAKS_ALONE.split(seen[:TEXT_CHARACTERS_MAX]))


def _masked(text: str) -> str:
    """The text with its secrets masked; as it reads with look-alikes as Latin letters, where that shows more of them."""
    shown = _masked_as_written(text)
    if text.isascii():
        return shown
    alike = _masked_as_written(text.translate(_ALIKE))
    return shown if shown.translate(_ALIKE) == alike else alike


def _masked_as_written(text: str) -> str:
    text = _PRIVATE_KEY.sub(MASK, text)
    text = _USER_INFO.sub(f"{MASK}@", text)
    if _HAS_AT.search(text):
        text = _EMAIL.sub(MASK, text)
    for names_it in (_SCHEME, _BEARER, _AUTHORIZATION, _SAID):
        text = names_it.sub(rf"\1 {MASK}", text)
    for shape in (_ASSIGNED, _KEY_SHAPES, _SHORT_KEYS):
        text = shape.sub(MASK, text)
    text = _TOKEN.sub(_mask_opaque, text)
    return _DIGIT_WORD.sub(MASK, text) if _DIGITS.search(text) else text


@lru_cache(maxsize=1024)
def redact_name(name: str) -> str:
    """A name that an application gave a tool, model or guard: as it is if it reads like one, else as :func:`redact` has it.

    Names may hold a date or a version (``model-5-20260701``), which in a text would be masked.
    """
    if len(name) > NAME_CHARACTERS_MAX or _PLAIN_NAME(name) is None:
        return redact(name)
    undated = _DATES.sub("", name)
    shaped = any(
        shape.search(undated) for shape in (_KEY_SHAPES, _SHORT_KEYS, _ASSIGNED, _SCHEME, _BEARER, _DIGITS)
    )
    if shaped or not all(map(_is_word, _PARTS.split(name))):
        return redact(name)
    return name


def _visible(text: str) -> str:
    """Compatibility forms as what they stand for, and nothing that draws nothing or steers a terminal."""
    text = CONTROLS.sub("", text)
    if text.isascii():
        return text
    folded = unicodedata.normalize("NFKC", text)
    return "".join(
        character
        for character in folded
        if character not in _INVISIBLE and unicodedata.category(character) not in {"Cf", "Cs", "Co", "Cn"}
    )


def _mask_opaque(found: re.Match[str]) -> str:
    """Masks a token that is long and mixes letters with digits, however punctuation cuts it, or a piece that is no word."""
    token = found[0]
    if len(token) <= DIGITS_MIN:
        return token
    size = len(token) - sum(map(token.count, "-_.~"))
    if size >= TOKEN_MIN and any(map(str.isdigit, token)) and any(map(str.isalpha, token)):
        return MASK
    return MASK if any(map(_is_opaque, _PARTS.split(token))) else token


def _is_opaque(piece: str) -> bool:
    if len(piece) >= LETTERS_MIN:
        return True
    if len(piece) < OPAQUE_MIN:
        return sum(map(str.isdigit, piece)) >= DIGITS_MIN
    if any(map(str.isdigit, piece)):
        return True
    if _ONE_CASE(piece) is not None:
        return True
    return sum(a.islower() != b.islower() for a, b in pairwise(piece)) > len(piece) // 3


def _is_word(piece: str) -> bool:
    """Whether a piece of a name reads as a word, a version or a date."""
    if piece.isdigit():
        return len(piece) < DIGITS_MIN or _DATES.fullmatch(piece) is not None
    if piece.isalpha() or not piece:
        return _ERROR_CLASS(piece) is not None or not _is_opaque(piece)
    return len(piece) <= 12 and _VERSIONED(piece) is not None
