"""What the tools read: the files of the repository and the first lines of its packages."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "counterfoil"
UNWANTED = {".git", ".venv", "node_modules", "__pycache__", "dist"}


def tracked(root: Path = ROOT) -> list[Path]:
    """Every file that is committed or would be: what Git lists and does not ignore, sorted.

    Outside a Git checkout (an unpacked source archive) every file counts, but for what tools leave behind.
    """
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True).stdout.decode()
        paths = [root / name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        paths = [path for path in root.rglob("*") if not UNWANTED & set(path.relative_to(root).parts)]
    return sorted({path for path in paths if path.is_file()})


def text_of(path: Path) -> str | None:
    """The file's text, or None when it is not UTF-8."""
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        return None


def first_line(path: Path) -> str:
    """The first line of a module's docstring, or the empty string when it has none."""
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return docstring.partition("\n")[0].strip()


def children(package: Path = PACKAGE) -> dict[str, Path]:
    """The packages and modules directly below ``counterfoil``, by name, each with the file of its docstring."""
    found = {path.parent.name: path for path in package.glob("*/__init__.py")}
    found |= {path.stem: path for path in package.glob("*.py") if path.stem not in ("__init__", "__main__")}
    return dict(sorted(found.items()))


def python_files(paths: list[Path], *parts: str, root: Path = ROOT) -> Iterator[Path]:
    """The Python files among ``paths`` whose first folder is one of ``parts``."""
    for path in paths:
        if path.suffix == ".py" and path.relative_to(root).parts[0] in parts:
            yield path
