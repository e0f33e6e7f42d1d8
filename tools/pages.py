"""The pages and parts of pages that are written from the code, so that they cannot fall behind it."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from counterfoil import errors
from counterfoil.core.catalogue import EVENT_TYPES, TypeSpec
from counterfoil.core.fields import FieldForm
from counterfoil.errors import CounterfoilError
from tools.commands import with_commands
from tools.effects import with_states
from tools.figures import figure_pages
from tools.schemas import with_schemas
from tools.tree import ROOT, children, first_line

MAP_START = "<!-- The map. Written by `./run docs` from the layers in pyproject.toml and the packages' docstrings. -->"
MAP_END = "<!-- End of the map. -->"
WRITTEN = "<!-- Written by `./run docs` from the code; not edited by hand. -->"


def pages(root: Path = ROOT) -> dict[Path, str]:
    """Every generated file, by path, as it should read now."""
    architecture = root / "docs" / "ARCHITECTURE.md"
    commands = root / "docs" / "commands.md"
    effects = root / "docs" / "effects.md"
    form = root / "docs" / "FORMAT.md"
    return {
        root / "docs" / "ERRORS.md": errors_page(),
        root / "docs" / "EVENTS.md": events_page(),
        architecture: with_map(architecture.read_text("utf-8")),
        commands: with_commands(commands.read_text("utf-8")),
        effects: with_states(effects.read_text("utf-8")),
        form: with_schemas(form.read_text("utf-8")),
        **figure_pages(root),
    }


# ---- the map of the packages -----------------------------------------------------------------------------------------


def layers() -> list[list[str]]:
    """The layers from the top down, each with its packages; what does not exist yet stands there in parentheses."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    rows = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [[name.strip() for name in re.split(r"[|:]", row)] for row in rows]


def map_lines() -> Iterator[str]:
    """One line for each package that exists, from the top layer down."""
    files = children()
    for names in layers():
        for name in (name for name in names if name in files):
            yield f"- `{name}`: {first_line(files[name])}"


def with_map(text: str) -> str:
    """The architecture page with its map as it should be now."""
    before, start, rest = text.partition(MAP_START)
    _, end, after = rest.partition(MAP_END)
    if not (start and end):
        raise ValueError(f"docs/ARCHITECTURE.md has lost the lines around its map:\n{MAP_START}\n{MAP_END}")
    return "\n".join([before + start, "", *map_lines(), "", end + after])


# ---- errors ----------------------------------------------------------------------------------------------------------

ERRORS_INTRO = """\
The second level of the tree says what the caller should do; a code is stable from release to release. Every error has
`code`, `retryable`, `hint` and `fields`, and its message names what happened, where, and what comes next. Fields hold
ids, sequences and paths, never content."""


def errors_page() -> str:
    """Every error with its code, grouped by what the caller should do."""
    lines = ["# Errors", "", WRITTEN, "", ERRORS_INTRO]
    for group in CounterfoilError.__subclasses__():
        lines += ["", f"## {group.__name__}", "", _sentence(group), ""]
        lines += ["| code | class | try again | meaning | what to do |", "|---|---|---|---|---|"]
        lines += [_error_row(kind) for kind in [group, *_below(group)]]
    lines += ["", "## Control flow", "", CONTROL_INTRO, ""]
    lines += [f"- `{kind.__name__}`: {_sentence(kind)}" for kind in _control_flow()]
    return "\n".join(lines) + "\n"


CONTROL_INTRO = """\
These derive from `BaseException`, so that no framework's `except Exception` swallows them. They steer a run and are
seen by code inside it; outside the run they become one of the errors above."""


def _below(kind: type[CounterfoilError]) -> Iterator[type[CounterfoilError]]:
    # What a module or a test derives for itself is not part of the tree that is promised.
    for child in kind.__subclasses__():
        if child.__module__.startswith(errors.__name__):
            yield child
            yield from _below(child)


def _control_flow() -> list[type[BaseException]]:
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, BaseException)
    ]
    return [
        kind
        for kind in kinds
        if kind.__module__.startswith("counterfoil.") and not issubclass(kind, Exception)
    ]


def _error_row(kind: type[CounterfoilError]) -> str:
    retryable = "yes" if kind.retryable else "no"
    cells = [f"`{kind.code}`", f"`{kind.__name__}`", retryable, _sentence(kind), kind.default_hint or ""]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _sentence(kind: type) -> str:
    """The docstring's first paragraph as one line, reST's double back-quotes made Markdown's."""
    paragraph = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0]
    plain = re.sub(r":\w+:`([^`]+)`", r"`\1`", " ".join(paragraph.split()))
    return plain.replace("``", "`")


# ---- event types -----------------------------------------------------------------------------------------------------

EVENTS_INTRO = """\
The public fields of each type stand in the header and are hashed as they are; everything else is content and sealed. A
field with `?` may be absent. An application declares types of its own beside these."""


def events_page() -> str:
    """Every registered event type with its public fields and what its content holds, by subject."""
    lines = ["# Event types", "", WRITTEN, "", EVENTS_INTRO]
    subjects: dict[str, list[TypeSpec]] = {}
    for spec in EVENT_TYPES.values():
        subjects.setdefault(spec.event_type.partition(".")[0], []).append(spec)
    for subject, specs in subjects.items():
        lines += ["", f"## {subject}"]
        for spec in specs:
            lines += ["", *_event_lines(spec)]
    return "\n".join(lines) + "\n"


def _event_lines(spec: TypeSpec) -> Iterator[str]:
    version = f", version {spec.version}" if spec.version != 1 else ""
    yield f"### {spec.event_type}{version}"
    yield ""
    yield from (f"- {_field(name, form)}" for name, form in spec.fields.items())
    if spec.groups:
        choices = (" and ".join(f"`{name}`" for name in sorted(group)) for group in spec.groups)
        yield f"- exactly one of: {'; '.join(choices)}"
    yield f"- content: {spec.content or 'none'}"


def _field(name: str, form: FieldForm) -> str:
    return f"`{name}`{'?' if form.optional else ''}: {form.describe()}"
