"""pgbouncer in transaction mode before a server, started and ended here."""

from __future__ import annotations

import contextlib
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from tests.servers.cluster import POLL_S, START_S, STOP_S, Cluster, end_with_parent, free_port, server_user

CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 200
server_reset_query =
"""


def pgbouncer() -> str | None:
    """The program, if it is installed; Debian keeps it out of a user's path."""
    return shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin")


class Pooler:
    """One pooler with few server connections, so that clients share them all the time."""

    def __init__(self, cluster: Cluster, size: int = 4) -> None:
        program = pgbouncer()
        assert program is not None, "pgbouncer is not installed; ./run test installs it"
        self.port = free_port()
        self._directory = Path(tempfile.mkdtemp(prefix="counterfoil-pool-"))
        self._directory.chmod(0o755)
        user = server_user() or pwd.getpwuid(self._directory.stat().st_uid).pw_name
        # With auth_type = any everybody is this user of the server.
        text = CONFIGURATION.format(server=f"{cluster.port} user=postgres", port=self.port, size=size)
        (self._directory / "pool.ini").write_text(text, "utf-8")
        options = (
            {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if server_user() else {}
        )
        self._process = subprocess.Popen(
            [program, "-q", str(self._directory / "pool.ini")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._directory,
            preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call, and no lock is taken
            **options,
        )
        deadline = time.monotonic() + START_S
        while not self._listens():
            assert self._process.poll() is None, "the pooler did not start"
            assert time.monotonic() < deadline, "the pooler does not listen"
            time.sleep(POLL_S)  # sleeps because a pooler that starts gives no signal

    def close(self) -> None:
        """End the pooler."""
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_S)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False
