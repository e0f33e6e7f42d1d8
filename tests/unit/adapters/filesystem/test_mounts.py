"""The mount table: both forms, odd names, and what counts as a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterfoil.adapters.filesystem.mounts import (
    Mount,
    mount_of,
    parse_mount_output,
    parse_mountinfo,
    read_mounts,
)

MOUNTINFO = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
31 22 0:27 / /srv/share rw,relatime shared:9 master:3 - nfs4 filer:/export rw,vers=4.2
32 22 0:28 / /srv/with\\040space rw - fuse.sshfs host:/x rw
33 22 0:29 / /srv/share/local rw - xfs /dev/vdb rw
not a mount line
"""
BSD = """\
/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)
//user@filer/share on /Volumes/my share (smbfs, nodev, nosuid)
map auto_home on /System/Volumes/Data/home (autofs, automounted)
"""


def test_mountinfo_gives_point_and_type_and_passes_over_other_lines():
    assert parse_mountinfo(MOUNTINFO) == [
        Mount("/", "ext4"),
        Mount("/srv/share", "nfs4"),
        Mount("/srv/with space", "fuse.sshfs"),
        Mount("/srv/share/local", "xfs"),
    ]


def test_the_output_of_mount_gives_point_and_type():
    assert parse_mount_output(BSD) == [
        Mount("/", "apfs"),
        Mount("/Volumes/my share", "smbfs"),
        Mount("/System/Volumes/Data/home", "autofs"),
    ]


@pytest.mark.parametrize(
    "path,point",
    [
        ("/var/lib", "/"),
        ("/srv/share", "/srv/share"),
        ("/srv/share/deep/er", "/srv/share"),
        ("/srv/shared", "/"),
        ("/srv/share/local/x", "/srv/share/local"),
        ("/srv/with space/x", "/srv/with space"),
    ],
)
def test_a_path_lies_on_the_longest_mount_point_above_it(path, point):
    found = mount_of(Path(path), parse_mountinfo(MOUNTINFO))
    assert found is not None
    assert found.point == point


def test_of_two_mounts_on_one_point_the_later_counts():
    assert mount_of(Path("/data"), [Mount("/data", "nfs"), Mount("/data", "ext4")]) == Mount("/data", "ext4")


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "fuse.sshfs", "fuse.s3fs", "smbfs"]
)
def test_network_types_are_known(kind):
    assert Mount("/x", kind).network


@pytest.mark.parametrize(
    "kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "apfs", "fuse.ntfs-3g", "virtiofs"]
)
def test_local_types_are_not_refused(kind):
    assert not Mount("/x", kind).network


def test_this_systems_own_table_holds_the_root():
    assert mount_of(Path("/"), read_mounts()) is not None
