"""The demo: refunds survive a SIGKILL at the dangerous moment, one is permitted and undone, and both sides agree."""

from __future__ import annotations

from pathlib import Path


def main(
    directory: str | Path | None = None,
    *,
    ledger: str | None = None,
    keep: bool = True,
    as_json: bool = False,
) -> int:
    """Play the demo in ``directory`` (default: a new temporary one) and return its exit code.

    0 only when everything was checked: the kills, the recovery, the review, the permission, the repair, the verification,
    and that provider and ledger agree on exactly one refund in each case. The directory stays, so that the commands which the demo prints
    work; ``keep=False`` removes it in the end if the demo made it. ``ledger`` is the place of the ledger (default: in
    that directory), such as ``postgresql://…``; there must be none yet. ``as_json`` prints one object and no story.
    Raises ``InputError`` for a directory that is not empty, ``InternalError`` when the demo goes wrong.
    """
    from counterfoil.demo.play import play

    return play(None if directory is None else Path(directory), ledger, keep=keep, as_json=as_json)
