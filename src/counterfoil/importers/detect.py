"""Which format a file is in; a file that is none of them is refused with a hint, before anything is written."""

from __future__ import annotations

import json
from typing import BinaryIO, Final

from counterfoil.errors import UnknownTranscript
from counterfoil.importers.claude_code import CLAUDE_CODE
from counterfoil.importers.claude_stream import CLAUDE_STREAM
from counterfoil.importers.codex import CODEX
from counterfoil.importers.codex_exec import CODEX_EXEC
from counterfoil.importers.entry import Format
from counterfoil.importers.pi import PI
from counterfoil.importers.reader import HEAD_BYTES, Record, read

FORMATS: Final = {kind.name: kind for kind in (CLAUDE_CODE, CLAUDE_STREAM, CODEX, CODEX_EXEC, PI)}
"""The formats by name, as ``--format`` takes them."""

LOOKED_AT_MAX: Final = 10_000
"""Lines read in search of the first record that tells the format."""

_KNOWN: Final = "Counterfoil reads Claude Code sessions and stream-json, Codex rollouts and `codex exec --json`, and pi sessions"


def named(name: str) -> Format:
    """The format of this name. Raises UnknownTranscript."""
    found = FORMATS.get(name)
    if found is None:
        raise UnknownTranscript(
            f"no importer is called {name!r}", hint=f"one of {', '.join(sorted(FORMATS))}"
        )
    return found


def detect(file: BinaryIO, shown: str, *, end: int, only: Format | None = None) -> Format:
    """The format of the first record that one of them recognises; ``shown`` names the file in the error.

    Raises UnknownTranscript, with a hint that says what the file looks like.
    """
    kinds = (only,) if only is not None else tuple(FORMATS.values())
    for looked_at, record in enumerate(read(file, end), 1):
        if isinstance(record, Record):
            for kind in kinds:
                if kind.recognises(record.value):
                    return kind
        if looked_at >= LOOKED_AT_MAX:
            break
    file.seek(0)
    what = f"a {only.name} transcript" if only is not None else "a transcript that can be imported"
    raise UnknownTranscript(f"{shown} is not {what}", hint=_hint(file.read(min(end, HEAD_BYTES))))


def _hint(head: bytes) -> str:
    """What the file looks like, for the person who chose it."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not start:
        return "the file is empty"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in head[:64]:
        return f"it is not UTF-8 text; {_KNOWN}"
    if b'"loglines"' in head:
        return (
            "it is an export of Claude Code for the web, one JSON document; import the session file of the command "
            "line, one JSON record on each line, from ~/.claude/projects"
        )
    if start.startswith(b"[") or (start.startswith(b"{") and not _is_record(start)):
        return f"it is one JSON document, not one record on each line; {_KNOWN}"
    return _KNOWN


def _is_record(start: bytes) -> bool:
    try:
        return isinstance(json.loads(start.partition(b"\n")[0]), dict)
    except (ValueError, RecursionError):
        return False
