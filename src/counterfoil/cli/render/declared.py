"""Declared tools for people: a list, and each in full."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from counterfoil.cli.render.doubts import RULES
from counterfoil.cli.render.line import Line, Span, wrap
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.table import Column, table
from counterfoil.cli.render.times import plural
from counterfoil.effects.tool import Tool

KNOWN_BY: Final[Mapping[str, str]] = {
    "key": "business key",
    "content": "all arguments",
    "each_call": "each call",
    "identity": "some arguments, in a run",
    "arguments": "arguments, in a run",
}
DIGITS: Final = 12


def tool_lines(tools: Sequence[Tool[..., Any]], width: int) -> list[Line]:
    """One line for each tool."""
    columns = (
        Column("tool", shrinks=True, least=12),
        Column("version"),
        Column("touches", yields=2),
        Column("known by", yields=3),
        Column("in doubt", shrinks=True, least=16),
        Column("tries", "right", yields=4),
        Column("schema", yields=5),
    )
    return table(columns, [_row(tool) for tool in tools], width)


def _row(tool: Tool[..., Any]) -> list[Line]:
    return [
        Line(tool.name),
        Line(tool.version),
        Line(", ".join(tool.touches) or Span("nothing", "quiet")),
        Line(KNOWN_BY[tool.known_by]),
        Line(RULES[tool.doubt.kind]),
        Line(str(max((policy.attempts for policy in tool.retry), default=1))),
        Line(Span(tool.parameters.schema[:DIGITS], "quiet")),
    ]


def tool_card(tool: Tool[..., Any], width: int) -> Iterator[Line]:
    """Everything a declaration says."""
    yield Line(Span(tool.name, "strong"), f" {tool.version}")
    for piece in wrap(marked(tool.description), width - 2) if tool.description else []:
        yield Line("  ", piece)
    identity = "" if tool.identity is None else f": {', '.join(map(marked, tool.identity))}"
    yield _said("touches", ", ".join(tool.touches) or "nothing")
    yield _said("known by", KNOWN_BY[tool.known_by] + identity)
    yield _said("in doubt", RULES[tool.doubt.kind])
    yield _said("one try", f"at most {tool.timeout_s:g} s")
    for policy in tool.retry:
        kinds = policy.on if isinstance(policy.on, tuple) else (policy.on,)
        names = ", ".join(kind.__name__ for kind in kinds)
        delays = ", ".join(f"{delay:g}" for delay in policy.delays_s[:5])
        more = ", …" if len(policy.delays_s) > 5 else ""
        yield _said(
            "retries", f"after {marked(names)}: {plural(policy.attempts, 'attempt')}, pauses {delays}{more} s"
        )
    if tool.parameters.unchecked:
        names = ", ".join(map(marked, tool.parameters.unchecked))
        yield _said("unchecked", f"{names}: the type hint cannot be read, so any value is taken")
    yield _said("schema", tool.parameters.schema)
    for line in json.dumps(tool.parameters.described, indent=2, ensure_ascii=True).splitlines():
        yield Line("    ", marked(line))
    yield Line()


def _said(name: str, words: str) -> Line:
    return Line(Span(f"  {name:<9} ", "quiet"), words)


def no_tool_lines(app: str | None) -> list[Line]:
    """Where there is no tool: how they are found."""
    if app is not None:
        return [Line(f"{marked(app)} declares no tool with counterfoil.effect")]
    return [
        Line("no module of the application is named, so no tool is known"),
        Line(Span('  name it as app = "package.module" in counterfoil.toml, or with --app', "quiet")),
    ]
