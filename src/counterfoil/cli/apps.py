"""The application's module for a command: its tools and agents are declared when it is imported."""

from __future__ import annotations

import sys
from pathlib import Path

from counterfoil.cli.face import Face
from counterfoil.client.config import import_app, load_app

APP_HELP = "The module that declares tools and agents; default: app in counterfoil.toml."


def load(face: Face, app: str | None) -> str | None:
    """Import the module; its name, or None if none is named."""
    if app is None:
        return load_app(face.config)
    here = str((face.directory or Path.cwd()).resolve())
    if here not in sys.path:
        sys.path.insert(0, here)
    hint = "name a module that Python can import from this directory, such as shop.agents"
    return import_app(app, f"--app {app}", hint)
