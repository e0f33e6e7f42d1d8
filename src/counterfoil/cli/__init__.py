"""The command line ``counterfoil``: what happened, what is in doubt and what that proves, in a terminal."""

from __future__ import annotations

import sys

MISSING = "counterfoil: the command line needs click and rich: pip install 'counterfoil[cli]'"

try:
    import rich  # noqa: F401 - looked for now, so that its absence is told in one line

    from counterfoil.cli.root import root  # noqa: F401 - what main runs
except ModuleNotFoundError as missing:
    if missing.name not in {"click", "rich"}:
        raise


def main() -> None:
    """The program ``counterfoil``; leaves with a code of :mod:`counterfoil.cli.exits`."""
    command = globals().get("root")
    if command is None:
        sys.stderr.write(f"{MISSING}\n")
        sys.exit(64)
    command.main()
