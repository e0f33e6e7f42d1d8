"""What is looked for: a text as it stands, or on request terms with operators; which rows may hold it, and which do.

Nothing of a query reaches FTS5 as syntax: candidates are asked for by trigrams, each quoted, and every candidate is
compared as a whole.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from msgspec import Struct

from counterfoil.errors import SearchQueryInvalid
from counterfoil.search.text import fold

CHARACTERS_MAX: Final = 100_000
TRIGRAMS_MAX: Final = 8
"""Trigrams of one term by which candidates are found; the comparison sees all of it."""
TRIGRAMS_LOOKED_AT_MAX: Final = 256
"""Trigrams of a long term among which they are chosen, spread over it."""
NEIGHBOUR: Final = 0.5
"""How often a trigram stands where its neighbour does because of it; the square of that two places away, and so on."""
STEP: Final = 0.001
"""What one step along a list of rows costs, in terms of reading one row and comparing it."""
OPERANDS_MAX: Final = 64
DEPTH_MAX: Final = 32
BEGINNINGS_MAX: Final = 2_000
"""Trigrams that begin with a short term; where there are more, rows are looked through instead."""


class Vocabulary(Protocol):
    """What the index knows of its trigrams."""

    def beginnings(self, text: str, most: int) -> list[str]:
        """The trigrams that occur and begin with a text, at most so many."""
        ...

    def share(self, trigram: str) -> float:
        """In which share of all rows a trigram stands, as far as a sample tells: more than 0, less than 1."""
        ...


class Term(Struct, frozen=True):
    """A text that is contained, folded."""

    text: str

    def holds(self, body: str) -> bool:
        """Whether the folded text holds it."""
        return self.text in body

    def candidates(self, vocabulary: Vocabulary, *, thorough: bool) -> str | None:
        """An FTS5 expression that every row with the term satisfies; None: any row may hold it.

        It has as many trigrams as seem worth their lists, or with ``thorough`` as many as may be.
        """
        if len(self.text) >= 3:
            return " AND ".join(map(quoted, _chosen(self.text, vocabulary, thorough=thorough)))
        found = vocabulary.beginnings(self.text, BEGINNINGS_MAX + 1)
        if len(found) > BEGINNINGS_MAX:
            return None
        return "(" + " OR ".join(map(quoted, found)) + ")" if found else NOTHING


class All(Struct, frozen=True):
    """Every one of these."""

    of: tuple[Expression, ...]

    def holds(self, body: str) -> bool:
        """See :meth:`Term.holds`."""
        return all(part.holds(body) for part in self.of)

    def candidates(self, vocabulary: Vocabulary, *, thorough: bool) -> str | None:
        """See :meth:`Term.candidates`."""
        found = [
            one for part in self.of if (one := part.candidates(vocabulary, thorough=thorough)) is not None
        ]
        return "(" + " AND ".join(found) + ")" if found else None


class AnyOf(Struct, frozen=True):
    """At least one of these."""

    of: tuple[Expression, ...]

    def holds(self, body: str) -> bool:
        """See :meth:`Term.holds`."""
        return any(part.holds(body) for part in self.of)

    def candidates(self, vocabulary: Vocabulary, *, thorough: bool) -> str | None:
        """See :meth:`Term.candidates`."""
        found: list[str] = []
        for part in self.of:
            one = part.candidates(vocabulary, thorough=thorough)
            if one is None:
                return None
            found.append(f"({one})")
        return "(" + " OR ".join(found) + ")"


class Not(Struct, frozen=True):
    """Not this."""

    of: Expression

    def holds(self, body: str) -> bool:
        """See :meth:`Term.holds`."""
        return not self.of.holds(body)

    def candidates(self, vocabulary: Vocabulary, *, thorough: bool) -> str | None:  # noqa: ARG002 - any row may lack it
        """See :meth:`Term.candidates`."""
        return None


Expression = Term | All | AnyOf | Not

NOTHING: Final = '"\U0010f7fd\U0010f7fd\U0010f7fd"'
"""A trigram that no row holds."""


def quoted(trigram: str) -> str:
    """A trigram as FTS5 takes it, whatever its characters are."""
    return '"' + trigram.replace('"', '""') + '"'


def _chosen(text: str, vocabulary: Vocabulary, *, thorough: bool) -> list[str]:
    """Trigrams that few rows hold together: rare ones, far from each other, as a word brings all of its own along.

    FTS5 walks the list of each to its end, so one more is taken only where it spares more than it costs, or with
    ``thorough`` in any case, up to ``TRIGRAMS_MAX``.
    """
    places = _spread(text)
    shares = {trigram: vocabulary.share(trigram) for trigram in places}
    beside = dict(shares)
    """The share of each among the rows that hold those chosen before."""
    chosen: list[str] = []
    left = 1.0
    while beside and len(chosen) < TRIGRAMS_MAX:
        best = min(beside, key=beside.__getitem__)
        together = beside.pop(best)
        if chosen and not thorough and left * (1 - together) < STEP * shares[best]:
            break
        chosen.append(best)
        left *= together
        for other, known in beside.items():
            near = NEIGHBOUR ** abs(places[other] - places[best])
            beside[other] = max(known, near + (1 - near) * shares[other])
    return chosen


def _spread(text: str) -> dict[str, int]:
    """Trigrams from all over the text, each once, with the place of each."""
    last = len(text) - 3
    step = max(1, last // (TRIGRAMS_LOOKED_AT_MAX - 1)) if last else 1
    places = [*range(0, last + 1, step)][:TRIGRAMS_LOOKED_AT_MAX]
    return {text[at : at + 3]: at for at in (*places, last)}


def terms_of(expression: Expression) -> list[str]:
    """The texts whose places an answer marks: all that are not under a NOT."""
    match expression:
        case Term():
            return [expression.text]
        case Not():
            return []
        case _:
            return [term for part in expression.of for term in terms_of(part)]


def plain(text: str) -> Expression:
    """The text as it stands. Raises ``SearchQueryInvalid`` for none, or one beyond any use."""
    if not text:
        raise SearchQueryInvalid("there is nothing to look for", hint="give a text", at=0)
    if len(text) > CHARACTERS_MAX:
        raise SearchQueryInvalid(
            f"the text to look for has {len(text)} characters; at most {CHARACTERS_MAX} are looked for",
            hint="look for a part of it",
            at=CHARACTERS_MAX,
        )
    return Term(fold(text))


# ---- operators -----------------------------------------------------------------------------------------------------

_TOKEN: Final = re.compile(
    r'\s*(?:(?P<open>\()|(?P<close>\))|"(?P<quoted>(?:[^"]|"")*)"|(?P<word>[^\s()"]+)|(?P<bad>"))'
)


def operators(text: str) -> Expression:
    """Words and ``"quoted texts"`` that must all occur, with ``OR``, ``NOT`` and parentheses; a quote is doubled inside.

    Raises ``SearchQueryInvalid`` with the place of what is wrong.
    """
    plain(text)
    expression = _Parser(text).whole()
    if not terms_of(expression):
        raise SearchQueryInvalid(
            "the query says only what must not occur", hint="name a text that must occur too", at=0
        )
    return expression


class _Parser:
    """Recursive descent over at most ``OPERANDS_MAX`` operands, at most ``DEPTH_MAX`` deep."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self._end = len(text)

    def whole(self) -> Expression:
        expression = self._any(0)
        if self._at < len(self._tokens):
            raise _wrong("a parenthesis closes that was not opened", self._place())
        return expression

    def _any(self, depth: int) -> Expression:
        found = [self._all(depth)]
        while self._next() == ("word", "OR"):
            self._at += 1
            found.append(self._all(depth))
        return found[0] if len(found) == 1 else AnyOf(tuple(found))

    def _all(self, depth: int) -> Expression:
        found = [self._one(depth)]
        while (token := self._next()) is not None and token not in {("word", "OR"), ("close", ")")}:
            if token == ("word", "AND"):
                self._at += 1
            found.append(self._one(depth))
        return found[0] if len(found) == 1 else All(tuple(found))

    def _one(self, depth: int) -> Expression:
        token = self._next()
        if depth > DEPTH_MAX:
            raise _wrong(f"parentheses and NOT go deeper than {DEPTH_MAX}", self._place())
        if token is None or token in {("word", "OR"), ("word", "AND"), ("close", ")")}:
            raise _wrong("a text is missing here", self._place())
        self._at += 1
        if token == ("word", "NOT"):
            return Not(self._one(depth + 1))
        if token[0] == "open":
            inner = self._any(depth + 1)
            if self._next() != ("close", ")"):
                raise _wrong("a parenthesis is not closed", self._place())
            self._at += 1
            return inner
        return Term(fold(token[1]))

    def _next(self) -> tuple[str, str] | None:
        return self._tokens[self._at][:2] if self._at < len(self._tokens) else None

    def _place(self) -> int:
        return self._tokens[self._at][2] if self._at < len(self._tokens) else self._end


def _tokens(text: str) -> list[tuple[str, str, int]]:
    found: list[tuple[str, str, int]] = []
    at = 0
    while match := _TOKEN.match(text, at):
        kind = str(match.lastgroup)
        start, at = match.start(kind), match.end()
        if kind == "bad":
            raise _wrong("a quotation mark is not closed", start)
        if kind == "quoted" and not match[kind]:
            raise _wrong("a quoted text is empty", start)
        found.append((kind, match[kind].replace('""', '"') if kind == "quoted" else match[kind], start))
    if not found:
        raise _wrong("there is nothing to look for", 0)
    if sum(kind in {"word", "quoted"} for kind, _, _ in found) > OPERANDS_MAX:
        raise _wrong(f"a query has at most {OPERANDS_MAX} words", found[OPERANDS_MAX][2])
    return found


def _wrong(said: str, at: int) -> SearchQueryInvalid:
    return SearchQueryInvalid(f"the query cannot be read: {said}, at character {at + 1}", at=at)
