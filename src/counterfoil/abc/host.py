"""What a host lends to the runtime: capabilities that it may replace, each with a default (ADR 0175)."""

from __future__ import annotations

from dataclasses import dataclass, field

from counterfoil.abc.sandbox import NoSandbox, SandboxProbe


@dataclass(frozen=True, slots=True)
class Host:
    """The capabilities of a host, for ``counterfoil.open(…, host=Host(…))``.

    ``sandbox`` answers ``run.probe``. What is not given has a default.
    """

    sandbox: SandboxProbe = field(default_factory=NoSandbox)
