"""Which file system a path lies on, read from the system's mount table (or one given by a test)."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

MOUNTINFO = Path("/proc/self/mountinfo")

NETWORK_TYPES = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "davfs",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "orangefs",
        "smb3",
        "smbfs",
        "webdav",
    }
)
"""Types whose locks or fsync cannot be trusted by a database: another machine may hold the other end."""

NETWORK_FUSE = frozenset(
    {
        "curlftpfs",
        "davfs2",
        "gcsfuse",
        "geesefs",
        "glusterfs",
        "goofys",
        "juicefs",
        "mount-s3",
        "rclone",
        "s3fs",
        "seaweedfs",
        "sshfs",
        "weed",
    }
)
"""Programs behind ``fuse.NAME`` that reach over a network."""

_ESCAPE = re.compile(r"\\([0-7]{3})")
_BSD_LINE = re.compile(r"^.* on (?P<point>/.*) \((?P<type>[^,)]+)")


class Mount(Struct, frozen=True):
    """One line of the mount table."""

    point: str
    type: str

    @property
    def network(self) -> bool:
        """Whether this file system reaches over a network."""
        kind, _, program = self.type.partition(".")
        return kind in NETWORK_TYPES or (kind in {"fuse", "fuseblk"} and program in NETWORK_FUSE)


def read_mounts() -> list[Mount]:
    """The system's mount table: ``/proc/self/mountinfo`` on Linux, the output of ``mount`` elsewhere."""
    try:
        return parse_mountinfo(MOUNTINFO.read_text("utf-8", "surrogateescape"))
    except OSError:
        return parse_mount_output(_mount_output())


def _mount_output() -> str:
    import subprocess

    # A fixed command of the system without arguments; nothing from outside reaches it.
    done = subprocess.run(["/sbin/mount"], capture_output=True, timeout=10, check=False)
    return done.stdout.decode("utf-8", "surrogateescape")


def parse_mountinfo(text: str) -> list[Mount]:
    """Mounts of proc(5) ``mountinfo``; lines that do not have its form are passed over."""
    mounts = []
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields, rest = before.split(" "), after.split(" ")
        if separator and len(fields) >= 6 and rest[0]:
            mounts.append(Mount(_ESCAPE.sub(lambda found: chr(int(found[1], 8)), fields[4]), rest[0]))
    return mounts


def parse_mount_output(text: str) -> list[Mount]:
    """Mounts of the BSD and macOS form ``DEVICE on POINT (TYPE, OPTIONS)``."""
    found = (_BSD_LINE.match(line) for line in text.splitlines())
    return [Mount(line["point"], line["type"].strip()) for line in found if line]


def mount_of(path: Path, mounts: list[Mount]) -> Mount | None:
    """The mount that holds ``path``: the longest mount point above it; of equal ones the last, which hides the rest."""
    best: Mount | None = None
    for mount in mounts:
        inside = path == Path(mount.point) or Path(mount.point) in path.parents
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best
