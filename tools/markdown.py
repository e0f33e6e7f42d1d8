"""Reads from Markdown what the checks need: fenced blocks, links, headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

FENCE = re.compile(r"^(?P<indent> *)(?P<mark>`{3,}|~{3,})(?P<info>[^`]*)$")
LINK = re.compile(r"!?\[(?:[^\]\\]|\\.)*\]\((?P<target><[^>]*>|[^)\s]+)(?:\s+\"[^\"]*\")?\)")
REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s+(?P<target>\S+)")
HEADING = re.compile(r"^#{1,6}\s+(?P<text>.+?)\s*#*$")
CODE_SPAN = re.compile(r"(`+)(?:(?!\1).)+?\1")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: the word after the fence, the line its text starts on, and its text."""

    language: str
    line: int
    text: str


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks, in order. A fence that is never closed ends with the document."""
    opened: tuple[str, str, int] | None = None
    body: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if opened is None:
            if fence:
                opened, body = (fence["mark"], fence["info"].strip(), number + 1), []
        elif fence and fence["mark"].startswith(opened[0]) and not fence["info"].strip():
            yield Block(opened[1].partition(" ")[0], opened[2], _joined(body))
            opened = None
        else:
            body.append(line)
    if opened is not None:
        yield Block(opened[1].partition(" ")[0], opened[2], _joined(body))


def _joined(lines: list[str]) -> str:
    return "".join(line + "\n" for line in lines)


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The numbered lines outside fenced blocks, their code spans blanked."""
    mark = ""
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if fence and not mark:
            mark = fence["mark"]
        elif fence and fence["mark"].startswith(mark) and not fence["info"].strip():
            mark = ""
        elif not mark:
            yield number, CODE_SPAN.sub("`…`", line)


def links(text: str) -> Iterator[tuple[int, str]]:
    """The link targets in the prose, with their line numbers."""
    for number, line in prose(text):
        for match in [*LINK.finditer(line), *REFERENCE.finditer(line)]:
            yield number, match["target"].strip("<>")


def anchors(text: str) -> set[str]:
    """The anchors that a renderer makes from the headings: lower case, spaces to hyphens, numbered when repeated."""
    found: dict[str, int] = {}
    mark = ""
    for line in text.splitlines():
        fence = FENCE.match(line)
        if fence:
            mark = "" if mark and fence["mark"].startswith(mark) else mark or fence["mark"]
        heading = HEADING.match(line)
        if heading and not mark:
            slug = re.sub(r"[^\w\- ]", "", heading["text"].lower()).replace(" ", "-")
            found[slug] = found.get(slug, -1) + 1
    return {slug if not n else f"{slug}-{n}" for slug, last in found.items() for n in range(last + 1)}
