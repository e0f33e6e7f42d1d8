"""Sandboxes: asking the host what the code of a tool may reach (ADR 0175: the sandbox is a capability of the host)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct, field


class Probed(Struct, frozen=True):
    """What a probe found.

    ``ok`` says that the sandbox is there and holds what it promises; a probe that cannot tell says False.
    ``capabilities`` are labels of what code inside can do (``network``, ``files.write``). ``output`` needs a JSON form
    and becomes content.
    """

    ok: bool
    capabilities: Sequence[str] = ()
    output: Mapping[str, Any] = field(default_factory=dict)


class SandboxProbe(Protocol):
    """What a host knows of its sandboxes."""

    def probe(self, sandbox: str) -> Probed:
        """Look at the sandbox of this name, now.

        It is called once for each ``run.probe`` that is not on record, in the run's own thread, or in a thread of its
        own for tasks. It may be called again where a process died before the answer was recorded, so it only looks.
        What it raises is recorded as ``ok`` False with the class of the error, and raised by nobody.
        """
        ...


class NoSandbox:
    """The default: this process runs tools itself, and has no means to tell what they are kept from."""

    def probe(self, sandbox: str) -> Probed:
        """Nothing is asserted: ``ok`` False, no capabilities, and the output says what cannot be told."""
        del sandbox
        return Probed(
            ok=False,
            output={
                "cannot_tell": ["network", "files", "processes", "environment"],
                "why": "no sandbox probe was given to counterfoil.open(host=Host(sandbox=…))",
            },
        )
