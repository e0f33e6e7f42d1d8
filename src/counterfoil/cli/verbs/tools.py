"""``counterfoil tools``: every declared tool, what it touches, how its doubt ends, and what its arguments are."""

from __future__ import annotations

from typing import Any

import click

from counterfoil.cli.apps import APP_HELP, load
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face
from counterfoil.cli.render.declared import no_tool_lines, tool_card, tool_lines
from counterfoil.cli.render.line import Line, Span
from counterfoil.effects.registry import tools
from counterfoil.effects.tool import Tool
from counterfoil.errors import ToolNotFound


@click.command(name="tools", short_help="List the declared tools, or show one.")
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--app", metavar="MODULE", help=APP_HELP)
@click.option("--record", is_flag=True, help="Put them on record, so that a later change can be shown.")
@face_options(ledger=True)
@pass_face
def command(face: Face, name: str | None, app: str | None, record: bool) -> int:
    """List every tool that the application declares: version, what it touches, what tells its calls apart, its doubt rule.

    With NAME each version of that tool is shown in full, with the JSON schema of its arguments. With --json one object a
    line, schemas included. Effects are recorded with the schema's digest; one that has changed since is never sent again
    by itself. --record writes what each digest stands for into the ledger, once; a worker does so when it begins.
    """
    loaded = load(face, app)
    found = [tool for tool in tools() if name in (None, tool.name)]
    if name is not None and not found:
        raise ToolNotFound(f"no tool {name} is declared by {loaded or 'anything'}", tool=name)
    if record:
        with face.open(write=True) as ledger:
            new = ledger.record_tools()
        face.note(Line(Span("✓ ", "good"), f"put on record: {', '.join(new) or 'nothing new'}"))
    if face.as_json:
        for tool in found:
            face.give(_json(tool))
    elif not found:
        face.say(no_tool_lines(loaded))
    elif name is None:
        face.say(tool_lines(found, face.columns))
    else:
        for tool in found:
            face.say(tool_card(tool, face.columns))
    return Exit.DONE


def _json(tool: Tool[..., Any]) -> dict[str, Any]:
    return {
        "tool": tool.name,
        "version": tool.version,
        "touches": list(tool.touches),
        "doubt": tool.doubt.kind,
        "known_by": tool.known_by,
        "identity": None if tool.identity is None else list(tool.identity),
        "takes_key": tool.parameters.takes_key,
        "async": tool.asynchronous,
        "timeout_s": tool.timeout_s,
        "retry": [_retry(policy) for policy in tool.retry],
        "description": tool.description,
        "schema": tool.parameters.schema,
        "arguments": tool.parameters.described,
        "unchecked": list(tool.parameters.unchecked),
    }


def _retry(policy: Any) -> dict[str, Any]:
    kinds = policy.on if isinstance(policy.on, tuple) else (policy.on,)
    told = {name: getattr(policy, name) for name in policy.__struct_fields__ if name != "on"}
    return {**told, "on": [kind.__name__ for kind in kinds]}
