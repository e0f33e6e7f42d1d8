"""The limits of style that no other tool keeps: lengths, names, sleeps, unexplained ignores, places named.

``python -m tools.tidy`` prints each finding as ``path:line: what, and what to do`` and exits 1 when there is one.
The print and sleep rules stand here and not in the linter alone because an inline ignore does not lift them.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.tree import ROOT, python_files, text_of, tracked

FUNCTION_LINES_MAX = 60
MODULE_LINES_MAX = 500
SLEEPS_MAX = 12
"""Sleeps in the whole test suite, each with its reason on the line."""

BANNED_NAMES = {"common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}
MAY_PRINT = {"cli", "demo", "bench", "testing"}

SLEEP_REASON = re.compile(r"#\s*sleeps because \w+")
IGNORE = re.compile(r"#\s*(?:type|pyright):\s*ignore(?P<code>\[[\w, -]+\])?(?P<rest>.*)")
NOQA = re.compile(r"#\s*noqa(?P<code>:\s*[A-Z]+\d+(?:\s*,\s*[A-Z]+\d+)*)?(?P<rest>.*)")
REASON = re.compile(r"^\s*(?:#|-|:)\s*\w+")

# Written in pieces, or this file would find itself.
PLACES = re.compile(
    "|".join(
        [
            r"/(?:work|farm|root|tmp/plan|opt/pypi[\w-]*)" + "/",
            r"/(?:home|Users)" + r"/(?!(?:USER|user|you|me|alice|bob|dev)\b)\w+/",
            r"\bpypi\." + r"(?:org|python\.org)\b",
            r"pythonhosted" + r"\.org",
            r"npmjs\." + r"(?:org|com)",
            r"(?:deb|security)\.debian" + r"\.org",
        ]
    )
)
SOURCES = re.compile(r"://|--(?:extra-)?index-url|--find-links|--trusted-host")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line that breaks a rule."""

    path: Path
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


def check(root: Path = ROOT) -> list[Finding]:
    """Every finding in the files of ``root``, by path and line."""
    paths = tracked(root)
    found = [*_in_source(paths, root), *_in_tests(paths, root), *_places(paths, root)]
    return sorted(found, key=lambda finding: (finding.path, finding.line))


# ---- the library -----------------------------------------------------------------------------------------------------


def _in_source(paths: list[Path], root: Path) -> Iterator[Finding]:
    for path in python_files(paths, "src", root=root):
        name = path.relative_to(root)
        text = path.read_text("utf-8")
        tree = ast.parse(text)
        yield from _lengths(name, text, tree)
        yield from _docstring(name, tree)
        yield from _ignores(name, text)
        if not MAY_PRINT & set(name.parts):
            yield from _prints(name, tree)
        if BANNED_NAMES & {path.stem, path.parent.name}:
            yield Finding(name, 1, "a name that says nothing: call the module by what is in it")


def _lengths(name: Path, text: str, tree: ast.Module) -> Iterator[Finding]:
    lines = text.count("\n")
    if lines > MODULE_LINES_MAX:
        yield Finding(name, lines, f"{lines} lines, {MODULE_LINES_MAX} at most: split the module by subject")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.body[0].lineno + 1
            if length > FUNCTION_LINES_MAX:
                what = f"{node.name} has {length} lines, {FUNCTION_LINES_MAX} at most: name its parts"
                yield Finding(name, node.lineno, what)


def _docstring(name: Path, tree: ast.Module) -> Iterator[Finding]:
    first = (ast.get_docstring(tree) or "").partition("\n")[0].strip()
    if not first:
        yield Finding(name, 1, "no docstring: its first line says what the module is")
    elif not first.endswith("."):
        yield Finding(name, 1, "the docstring's first line is not a sentence that ends on that line")


def _ignores(name: Path, text: str) -> Iterator[Finding]:
    for number, line in enumerate(text.splitlines(), 1):
        for pattern in (IGNORE, NOQA):
            match = pattern.search(line)
            if match and not (match["code"] and REASON.match(match["rest"])):
                what = "an ignore names its rule and says why: `# type: ignore[rule]  # reason`, `# noqa: RULE - reason`"
                yield Finding(name, number, what)


def _prints(name: Path, tree: ast.Module) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield Finding(name, node.lineno, f"print outside {', '.join(sorted(MAY_PRINT))}: return or raise")


# ---- the tests -------------------------------------------------------------------------------------------------------


def _in_tests(paths: list[Path], root: Path) -> Iterator[Finding]:
    explained: list[Finding] = []
    for path in python_files(paths, "tests", root=root):
        lines = path.read_text("utf-8").splitlines()
        for number in _sleeps(ast.parse("\n".join(lines))):
            finding = Finding(path.relative_to(root), number, "")
            if SLEEP_REASON.search(lines[number - 1]):
                explained.append(finding)
            else:
                what = "a sleep: wait for a signal or turn a manual clock; else end the line `# sleeps because …`"
                yield Finding(finding.path, number, what)
    for finding in explained[SLEEPS_MAX:]:
        yield Finding(
            finding.path, finding.line, f"more than {SLEEPS_MAX} sleeps in the suite, reasons or not"
        )


def _sleeps(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="time"), attr="sleep"):
                yield node.lineno
            case ast.ImportFrom(module="time") if any(alias.name == "sleep" for alias in node.names):
                yield node.lineno
            case _:
                pass


# ---- every file ------------------------------------------------------------------------------------------------------


def _places(paths: Iterable[Path], root: Path) -> Iterator[Finding]:
    for path in paths:
        text = text_of(path)
        if text is None:
            continue
        name = path.relative_to(root)
        for number, line in enumerate(text.splitlines(), 1):
            if PLACES.search(line):
                yield Finding(name, number, "names a machine's path or a registry's host: say it without")
            elif path.suffix == ".lock" and SOURCES.search(line):
                yield Finding(name, number, "a lock file says what is installed, not from where")


def main() -> int:
    """Prints the findings and returns 1 when there is one."""
    findings = check()
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
