"""``counterfoil.toml``: which ledger, and which module declares the tools that recovery needs."""

from __future__ import annotations

import importlib
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from counterfoil.errors import ConfigInvalid, FileMissing

if TYPE_CHECKING:
    from counterfoil.client.guarding import Guarding

FILE_NAME: Final = "counterfoil.toml"

_MEMBERS: Final[dict[str, type]] = {"ledger": str, "app": str, "tenant": str, "artifacts": str, "turns": bool}


class Config(Struct, frozen=True):
    """What the file says. ``path`` is the file, or None when there is none and everything is default.

    A relative ``ledger`` or ``artifacts`` is relative to the file. ``app`` is a module name such as ``shop.agents``.
    ``artifacts`` is the directory where artifacts lie, if not in the ledger's own. With ``turns`` commands that write
    keep the heads of turns (``turn.committed``). ``access`` says who may be shown content.
    """

    path: Path | None = None
    ledger: str | None = None
    app: str | None = None
    tenant: str = "default"
    artifacts: str | None = None
    turns: bool = False
    access: Guarding | None = None


def find_config(start: Path | None = None) -> Config:
    """The configuration of this directory or the nearest one above that has a ``counterfoil.toml``."""
    directory = (start or Path.cwd()).resolve()
    for place in (directory, *directory.parents):
        if (place / FILE_NAME).is_file():
            return read_config(place / FILE_NAME)
    return Config()


def read_config(path: Path) -> Config:
    """Read one file. Raises ``FileMissing`` or ``ConfigInvalid`` naming the member."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise FileMissing(f"cannot read {path}: {error.strerror}", path=str(path)) from error
    try:
        members = tomllib.loads(text.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigInvalid(f"{path} is not TOML: {error}", path=str(path)) from error
    access = members.pop("access", None)
    _check(path, members)
    ledger = members.get("ledger")
    if ledger is not None and "://" not in ledger:
        ledger = str(path.parent / Path(ledger).expanduser())
    artifacts = members.get("artifacts")
    if artifacts is not None:
        artifacts = str(path.parent / Path(artifacts).expanduser())
    tenant, turns = members.get("tenant", "default"), members.get("turns", False)
    guarding = None
    if access is not None:
        from counterfoil.client.guarding import guarding_of

        guarding = guarding_of(access, str(path))
    return Config(path, ledger, members.get("app"), tenant, artifacts, turns, guarding)


def load_app(config: Config) -> str | None:
    """Import the module that declares the tools; its name, or None if none is named.

    It is looked for beside the file too. Raises ``ConfigInvalid`` when it cannot be imported.
    """
    if config.app is None:
        return None
    if config.path is not None and str(config.path.parent) not in sys.path:
        sys.path.insert(0, str(config.path.parent))
    hint = f"{config.path} names a module that Python can import from its directory"
    return import_app(config.app, f"app = {config.app!r}", hint)


def import_app(module: str, given: str, hint: str) -> str:
    """Import the module that declares the tools; ``given`` is how it was named. Raises ``ConfigInvalid``.

    Whatever the module raises is its own fault and is told as such, ``sys.exit`` too; Ctrl-C stays itself.
    """
    try:
        importlib.import_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, SystemExit):
            hint = f'{module} ends the program when it is imported: keep that behind `if __name__ == "__main__":`'
        raise ConfigInvalid(
            f"{given} cannot be imported: {_told(error)}", hint=hint, member="app", module=module
        ) from error
    return module


def _told(error: BaseException) -> str:
    """The error by its kind and what it says, if it can say anything."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - an error of the application whose text is broken too
        said = ""
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _check(path: Path, members: dict[str, Any]) -> None:
    for name, value in members.items():
        if name not in _MEMBERS:
            raise ConfigInvalid(
                f"{path} has a member {name} that this version does not know",
                hint=f"it knows {', '.join(sorted([*_MEMBERS, 'access']))}",
                member=name,
            )
        if _MEMBERS[name] is bool:
            if not isinstance(value, bool):
                raise ConfigInvalid(f"{name} in {path} must be true or false", member=name)
        elif not isinstance(value, _MEMBERS[name]) or not value:
            raise ConfigInvalid(f"{name} in {path} must be text, and not empty", member=name)
