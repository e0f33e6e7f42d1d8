"""What some benchmarks need beside a directory: a PostgreSQL server, and the environment of the peers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct, field

from counterfoil.bench.rounds import Contender
from counterfoil.bench.server import Server, check_durable
from counterfoil.errors import InputError

Need = Literal["server", "peers"]

SQLITE_FULL: Final = 2
"""``PRAGMA synchronous`` from which on a commit waits for the disk."""

CHECKOUT: Final = Path(__file__).resolve().parents[3]

NO_CHECKOUT: Final = (
    "Peers are not compared: that works from a checkout of the source, by ./run bench --peers"
)
NO_ENVIRONMENT: Final = "Peers are not compared: their environment is not there; ./run bench --peers makes it, which needs a package index"


class Peers(Struct):
    """Where the peers' scripts and their interpreter lie; ``told`` gathers what each says of itself."""

    scripts: Path
    python: Path
    told: list[dict[str, Any]] = field(default_factory=list)

    @contextmanager
    def start(self, script: str, place: str | Path, *flags: str) -> Iterator[Peer]:
        """A peer in a process of its own, on a directory or a database of its own; ended afterwards.

        Raises InputError when it cannot begin, or does not wait for the disk.
        """
        command = [str(self.python), str(self.scripts / f"{script}.py"), str(place), *flags]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            peer = Peer(script, process)
            self.told.append({"peer": peer.name, **peer.durable})
            yield peer
        finally:
            process.communicate()


class Peer:
    """One peer that takes its turns. Its settings have been looked at: it is durable."""

    def __init__(self, script: str, process: subprocess.Popen[str]) -> None:
        self._script, self._process = script, process
        told = self._answer()
        self.name: str = told["peer"]
        self.durable: dict[str, Any] = told["durable"]
        check_peer(self.name, self.durable)

    def does(self, work: str) -> Contender:
        """Its turns of one kind of work, timed by its own clock."""
        return Contender(lambda items: self._turn(work, items))

    def _turn(self, work: str, items: int) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"work": work, "items": items}) + "\n")
        self._process.stdin.flush()
        seconds: float = self._answer()["seconds"]
        return seconds

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise InputError(
                f"the peer {self._script} has ended; what it said stands above",
                hint="remove .benchmarks and run ./run bench --peers again",
            )
        told: dict[str, Any] = json.loads(line)
        return told


def check_peer(name: str, durable: dict[str, Any]) -> None:
    """Raise InputError for a peer that acknowledges before its disk has: that is other work."""
    if durable["engine"] == "postgresql":
        check_durable(durable)
    elif durable["synchronous"] < SQLITE_FULL:
        raise InputError(
            f"{name} uses synchronous = {durable['synchronous']}: what is not durable is not compared",
            hint="report it: its defaults have changed",
        )


class Means(Struct):
    """What there is. ``missing`` says in one line each what is not measured, and why."""

    server: Server | None = None
    peers: Peers | None = None
    missing: list[str] = field(default_factory=list)

    def has(self, need: Need) -> bool:
        """Whether it is there."""
        return (self.server if need == "server" else self.peers) is not None

    def database(self, name: str, **parameters: str) -> str:
        """An empty database of the server, which must be there."""
        assert self.server is not None
        return self.server.database(name, **parameters)


def find_peers(checkout: Path = CHECKOUT) -> Peers | str:
    """The peers of a checkout, or the line that says why there are none."""
    scripts, python = checkout / "benchmarks" / "peers", checkout / ".benchmarks" / "venv" / "bin" / "python"
    if not scripts.is_dir():
        return NO_CHECKOUT
    return Peers(scripts, python) if (python.parent.parent / "set-up.stamp").exists() else NO_ENVIRONMENT
