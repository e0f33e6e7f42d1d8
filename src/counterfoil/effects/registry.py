"""Every tool this process has declared, by name and version; what recovery and ``counterfoil tools`` look up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from counterfoil.errors import ToolInvalid, ToolNotFound

if TYPE_CHECKING:
    from counterfoil.effects.tool import Tool

_tools: Final[dict[tuple[str, str], Tool[..., Any]]] = {}


def register(tool: Tool[..., Any]) -> None:
    """Make a tool known. The same function again (a reload) replaces itself.

    Raises :class:`counterfoil.errors.ToolInvalid` when another function has this name and version.
    """
    known = _tools.get((tool.name, tool.version))
    if known is not None and _place(known.fn) != _place(tool.fn):
        raise ToolInvalid(
            f"tool {tool.name} version {tool.version} is declared twice: {_shown(known.fn)} and {_shown(tool.fn)}",
            hint="give one of them another name or another version",
            tool=tool.name,
        )
    _tools[tool.name, tool.version] = tool


def tools() -> list[Tool[..., Any]]:
    """Every declared tool, by name and version."""
    return [_tools[name] for name in sorted(_tools)]


def find_tool(name: str, version: str | None = None) -> Tool[..., Any] | None:
    """The tool of this name: this version if it is loaded, otherwise the highest one, or None."""
    exact = _tools.get((name, version)) if version is not None else None
    if exact is not None:
        return exact
    versions = sorted(key for key in _tools if key[0] == name)
    return _tools[versions[-1]] if versions else None


def tool_of(name: str, version: str | None = None) -> Tool[..., Any]:
    """As :func:`find_tool`. Raises :class:`counterfoil.errors.ToolNotFound`."""
    found = find_tool(name, version)
    if found is None:
        raise ToolNotFound(f"no tool {name} is declared in this process", tool=name)
    return found


@contextmanager
def own_tools() -> Iterator[None]:
    """Tools declared inside are forgotten afterwards, and those from outside are not seen; for tests."""
    kept = dict(_tools)
    _tools.clear()
    try:
        yield
    finally:
        _tools.clear()
        _tools.update(kept)


def _place(fn: Callable[..., Any]) -> tuple[str, str]:
    # The file rather than the module: the same source run as a script is `__main__` and imported has its name.
    code = getattr(fn, "__code__", None)
    return (
        code.co_filename if code is not None else getattr(fn, "__module__", ""),
        getattr(fn, "__qualname__", ""),
    )


def _shown(fn: Callable[..., Any]) -> str:
    return f"{getattr(fn, '__module__', '?')}.{getattr(fn, '__qualname__', '?')}"
