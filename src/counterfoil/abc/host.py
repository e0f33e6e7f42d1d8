"""What a host lends to the runtime: capabilities that it may replace, each with a default (ADR 0175)."""

from __future__ import annotations

from msgspec import Struct, field

from counterfoil.abc.children import ChildHost
from counterfoil.abc.sandbox import NoSandbox, SandboxProbe
from counterfoil.abc.timer import Timer


class Host(Struct, frozen=True):
    """The capabilities of a host, for ``counterfoil.open(…, host=Host(…))``.

    ``sandbox`` answers ``run.probe``. ``children`` carries out what runs spawn; without one, threads of this process run
    registered agents. Children may lie ``child_depth_max`` deep. ``timer`` says when the time of a schedule has come;
    None: the ledger's own rows, which forget nothing. What is not given has a default.
    """

    sandbox: SandboxProbe = field(default_factory=NoSandbox)
    children: ChildHost | None = None
    child_depth_max: int = 8
    timer: Timer | None = None
