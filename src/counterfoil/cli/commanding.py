"""Command lines that a person can copy: quoted for a shell, and finding the ledger they were printed for."""

from __future__ import annotations

import re
import shlex

from counterfoil.cli.face import Face
from counterfoil.cli.render.marks import is_marked


def ledger_option(face: Face) -> str:
    """`` --ledger DIR``, or nothing where the command would find this ledger by itself."""
    return "" if face.ledger is None else f" --ledger {shlex.quote(without_password(face.ledger))}"


def without_password(place: str) -> str:
    """An address without what no screen or log should keep; libpq finds the password in ``~/.pgpass`` or PGPASSWORD."""
    place = re.sub(r"(?<=[?&])password=[^&]*&?", "", place)
    return re.sub(r"(?<=://)([^/?#@:]*):[^/?#]*@", r"\1@", place)


def word(name: str, otherwise: str) -> str:
    """A name as a word of a command line; ``otherwise`` where it holds what cannot be copied from a screen."""
    return otherwise if is_marked(name) or not name or name.startswith("-") else shlex.quote(name)
