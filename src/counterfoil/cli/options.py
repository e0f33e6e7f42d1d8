"""Options that many commands share, before the command's name or after it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

import click

from counterfoil.access.session import DEFAULT_CEILING
from counterfoil.cli.exits import Exit
from counterfoil.cli.face import Face
from counterfoil.core.event_types import CLASSES

F = TypeVar("F", bound=Callable[..., Any])

LIMIT_MAX: Final = 10_000
"""Lines of a page, unless a command says otherwise."""

pass_face = click.make_pass_decorator(Face)


def face_options(*, ledger: bool) -> Callable[[F], F]:
    """Adds ``--json`` and ``--no-color``, and with ``ledger`` also ``--ledger`` and ``--tenant``."""

    def decorate(function: F) -> F:
        found: Any = _kept(function)
        if ledger:
            found = click.option("--tenant", metavar="NAME", help="The tenant to work in.")(found)
            found = click.option(
                "--ledger", metavar="DIR", help="The ledger's directory.", type=click.Path(path_type=str)
            )(found)
        found = click.option("--no-color", is_flag=True, help="No colour; every line reads the same.")(found)
        decorated: F = click.option("--json", "as_json", is_flag=True, help="JSON for programs.")(found)
        return decorated

    return decorate


def limit_option(default: int, told: str = "Lines of a page.", *, most: int = LIMIT_MAX) -> Callable[[F], F]:
    """Adds ``--limit``, by the one rule of all lists: from 0, which is nothing (``core.bounds``)."""
    decorate: Callable[[F], F] = click.option(
        "--limit", type=click.IntRange(0, most), default=default, show_default=True, help=told
    )
    return decorate


def reading_options(function: F) -> F:
    """Adds ``--as``, ``--purpose`` and ``--class``: who is shown content, what for, and up to which class."""
    found: Any = _read(function)
    told = "The highest class of content to show."
    found = click.option(
        "--class", "ceiling", type=click.Choice(CLASSES), default=DEFAULT_CEILING, help=told
    )(found)
    found = click.option("--purpose", metavar="TEXT", help="What for; goes with --as.")(found)
    told = "Who reads: the decision to show content is recorded first."
    decorated: F = click.option("--as", "reader", metavar="NAME", help=told)(found)
    return decorated


def _read(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without the options of reading, which go to the face."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        face = click.get_current_context().ensure_object(Face)
        face.reader, face.purpose = options.pop("reader"), options.pop("purpose")
        face.ceiling = options.pop("ceiling")
        if (face.reader is None) is not (face.purpose is None):
            raise click.UsageError("--as and --purpose are given together")
        return function(*args, **options)

    return call


def _kept(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without the shared options, which go to the face."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        face = click.get_current_context().ensure_object(Face)
        face.as_json = options.pop("as_json") or face.as_json
        face.ledger = options.pop("ledger", None) or face.ledger
        face.tenant = options.pop("tenant", None) or face.tenant
        if options.pop("no_color"):
            face.color = False
        return _nothing(face, options) if options.get("limit") == 0 else function(*args, **options)

    return call


def _nothing(face: Face, options: dict[str, Any]) -> int:
    """A list of nothing: no line, and none that says that there is nothing; the ledger has to be there all the same."""
    if options.get("journal") is None:
        face.open().close()
    return Exit.DONE
