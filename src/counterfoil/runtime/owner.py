"""Who holds a lease: a process, named so that a later one on the same machine can tell that it is gone."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from functools import lru_cache
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_GONE_STATES: Final = frozenset({"Z", "X"})
"""A zombie has been killed and only waits for its parent to look."""


def make_owner() -> str:
    """A new owner: machine (since it was started), process and when that began, and a random part.

    Machine and process namespace are hashed: the text stands in a row and names nobody.
    """
    pid = os.getpid()
    began = _began(pid)
    return f"{_machine()}-{pid}-{'' if began is None else began}-{secrets.token_hex(4)}"


def is_gone(owner: str) -> bool:
    """Whether the process that holds a lease has certainly ended, so that nobody need wait for the lease to expire.

    Only a process of this machine and process namespace, since the machine was started, can be judged; of any
    other, and where the system does not tell, the answer is no.
    """
    parts = owner.split("-")
    if (
        len(parts) != 4
        or not parts[0]
        or parts[0] != _machine()
        or not parts[1].isdigit()
        or not parts[2].isdigit()
    ):
        return False
    return _began(int(parts[1])) != int(parts[2])


@lru_cache(maxsize=1)
def _machine() -> str:
    """This machine since its start, and this process namespace; empty where the system does not say."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text()
        namespace = (_PROC / "self/ns/pid").readlink()
    except OSError:
        return ""
    return hashlib.sha256(f"{boot}{namespace}".encode()).hexdigest()[:16]


def _began(pid: int) -> int | None:
    """When a process began, in ticks since the machine was started; None if there is none of this number."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        # The name in parentheses may hold anything; what follows it is fields.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        if fields[0] not in _GONE_STATES:
            return int(fields[19])
    return None
