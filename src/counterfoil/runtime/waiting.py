"""What is said of a run that waits: for what, why, and which command ends the waiting."""

from __future__ import annotations

from collections.abc import Sequence

from counterfoil.errors import RunWaiting

_COMMANDS = (
    ("rev_", "review show {}", "shows what is known and how to settle it"),
    ("apr_", "approve ls", "lists what is asked"),
    ("run_", "worker --once", "goes on with it where it can"),
    ("eff_", "recover", "finds out what became of it"),
)


def waiting(
    run_id: str, waits_for: Sequence[str], cause: str, *, place: str | None, why: str = ""
) -> RunWaiting:
    """The error for whoever started a run that waits; ``place`` names the ledger to a command, if a command can open it.

    ``why`` is what parked the run: ids and names of tools and of exceptions' classes, never their words (FORMAT 11).
    """
    waits = f" for {', '.join(waits_for)}" if waits_for else ""
    return RunWaiting(
        f"run {run_id} waits{waits} ({cause})" + (f": {why}" if why else ""),
        hint=_way_out(waits_for, place),
        run_id=run_id,
        cause=cause,
        waits_for=tuple(waits_for),
    )


def _way_out(waits_for: Sequence[str], place: str | None) -> str:
    import shlex

    for prefix, command, does in _COMMANDS:
        name = next((name for name in waits_for if name.startswith(prefix)), None)
        if name is not None:
            ledger = "" if place is None else f" --ledger {shlex.quote(place)}"
            return f"`counterfoil {command.format(name)}{ledger}` {does}; then run the same code again"
    return "run the same code again when it has come"
