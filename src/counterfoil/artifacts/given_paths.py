"""Paths as a caller gives them: text or a path, with ``~`` for the home directory."""

from __future__ import annotations

import os
from pathlib import Path

from counterfoil.errors import InvalidForm


def given_path(given: object, argument: str) -> Path:
    """The path, home directories filled in. Raises InvalidForm for none, for bytes, and for what no system can name."""
    if not isinstance(given, str | os.PathLike):
        raise InvalidForm(f"{argument} is a path, not {type(given).__name__}", argument=argument)
    text = os.fspath(given)
    if not isinstance(text, str) or "\0" in text or not text:
        what = "bytes" if isinstance(text, bytes) else "empty" if not text else "a path with a NUL in it"
        raise InvalidForm(f"{argument} is {what}; a path is text that a file can have", argument=argument)
    try:
        return Path(text).expanduser()
    except RuntimeError as unknown:
        raise InvalidForm(
            f"{argument} begins with ~, and nobody knows whose home that is", argument=argument
        ) from unknown
