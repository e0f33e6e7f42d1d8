"""Objects that an option names: ``package.module:name``, and policies in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from counterfoil.abc import Policy
from counterfoil.cli.face import Face
from counterfoil.core.forms import is_label
from counterfoil.errors import ConfigInvalid, FileMissing

CEDAR: Final = ".cedar"


def named_object(face: Face, given: str, option: str) -> Any:
    """The object that ``module:name`` names, looked for from this directory and beside the file. Raises ``ConfigInvalid``."""
    from importlib import import_module

    from counterfoil.cli.apps import load

    module, colon, name = given.partition(":")
    if not colon or not module or not name:
        raise ConfigInvalid(
            f"{option} {given} does not name an object", hint="write it as package.module:name", member=option
        )
    load(face, module)
    try:
        return getattr(import_module(module), name)
    except AttributeError:
        raise ConfigInvalid(f"{option}: module {module} has no {name}", member=option) from None


def named_policy(face: Face, given: str) -> Policy:
    """A policy: ``module:name``, or a file of Cedar policies named ``….cedar``, whose stem is the policy's name.

    Raises ``ConfigInvalid``, ``FileMissing``.
    """
    if not given.endswith(CEDAR):
        found = named_object(face, given, "--policy")
        if not callable(getattr(found, "evaluate", None)):
            raise ConfigInvalid(f"--policy {given} is not a policy: it has no evaluate", member="--policy")
        policy: Policy = found
        return policy
    from counterfoil.policy.cedar import CedarPolicy

    path = (face.directory or Path.cwd()) / given
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileMissing(f"cannot read {path}: {error}", path=str(path)) from error
    name = path.stem if is_label(path.stem) else "policy"
    return CedarPolicy(name, text)
