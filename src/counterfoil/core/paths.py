"""Paths that say where in a value something stands: ``$.arguments.items[3].amount``."""

from __future__ import annotations

import re
from typing import Final

from counterfoil.core.limits import PATH_CHARACTERS_MAX

Path = tuple["Path", str | int] | None
"""A path as a chain of (parent, member name or position); None is the root. Cheap to extend while walking."""

# Error texts may reach a log, where only what a header could hold may stand (FORMAT 11). A member name that reads
# like a program's identifier is shown; any other (an address, a person's name) is given by its length alone.
_PLAIN: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]{0,63}").fullmatch


def path_text(path: Path, root: str = "$") -> str:
    """The path as text, in printable ASCII, with the middle left out when it is long."""
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(_step_text(step))
    text = root + "".join(reversed(steps))
    if len(text) <= PATH_CHARACTERS_MAX:
        return text
    half = (PATH_CHARACTERS_MAX - 3) // 2
    return f"{text[:half]}...{text[-half:]}"


def _step_text(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if _PLAIN(step):
        return f".{step}"
    return f"[a name of {len(step)} characters]"
