"""Backup: one file with a ledger, its keys and its artifacts, consistent while writers run, verified before it counts.

A tar with ``ledger.db``, ``keys.db``, ``kek/``, ``artifacts/`` and, last, ``manifest.json``, which names each with its
digest. The order of copies is what makes it whole: the ledger first, in one read transaction, then the keys, then the
objects. A key is durable before the first event that names it, and an object before the event that stores it, so what
is copied later holds everything that the ledger's copy names.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import sqlite3
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from counterfoil.abc import Clock, Ids, KeyProvider
from counterfoil.adapters.sqlite import DATABASE_NAME
from counterfoil.adapters.sqlite.connect import connect
from counterfoil.adapters.sqlite.faults import primary_code, translate
from counterfoil.adapters.sqlite.keystore import SqliteKeyStore
from counterfoil.adapters.sqlite.readers import Readers
from counterfoil.archive.copying import copy_companions, copy_streams, streams_of
from counterfoil.archive.place import WORK, new_place, sync_directory, synced
from counterfoil.artifacts.given_paths import given_path
from counterfoil.client.clock import SystemClock
from counterfoil.client.copying import copy_objects
from counterfoil.client.copying_keys import copy_keys
from counterfoil.client.features import FEATURES, TABLES
from counterfoil.client.ids import UlidIds
from counterfoil.client.place import (
    ARTIFACTS_NAME,
    KEK_DIRECTORY_NAME,
    KEY_STORE_NAME,
    MEMORY,
    Parts,
    files_in,
    open_parts,
    place_of,
)
from counterfoil.core.forms import is_digest, time_ms, time_text
from counterfoil.core.ids import is_id
from counterfoil.errors import (
    ArchiveInvalid,
    ChainBroken,
    FileMissing,
    InputError,
    InvalidForm,
    KeyStoreMissing,
    KeyWithheld,
    StoreBusy,
)
from counterfoil.keys.file_provider import FileKeyProvider
from counterfoil.keys.keyring import Keyring
from counterfoil.store.standing import refusal

CTX: Final = "counterfoil/backup/v1"
MANIFEST: Final = "manifest.json"
MANIFEST_BYTES_MAX: Final = 256 * 1024 * 1024
PIECE_BYTES: Final = 1024 * 1024
PAGE: Final = 1000
MODE: Final = 0o600
KEY_COPIES_MAX: Final = 5
"""How often the keys are copied anew because a rotation came between."""
BUSY_S: Final = 30.0
"""Longest wait for a process that writes keys, or that mends the log of the ledger."""

Progress = Callable[[str, int, int | None], None]


class BackupReport(Struct, frozen=True):
    """What a backup holds. ``keks``: how many key-encryption keys; 0 where they lie elsewhere and were not handed out."""

    ledger: str
    taken_at: str
    streams: int
    events: int
    keys: int
    keks: int
    artifacts: int
    bytes: int
    sha256: str

    def to_json(self) -> dict[str, Any]:
        """The result as plain values."""
        return asdict(self)


def backup_ledger(
    place: str | Path,
    to: str | Path,
    *,
    with_keks: bool = True,
    artifacts: str | Path | None = None,
    keys: KeyProvider | None = None,
    clock: Clock | None = None,
    ids: Ids | None = None,
    progress: Progress | None = None,
) -> BackupReport:
    """Write the ledger at ``place`` into the file ``to``, which is not there yet; others may write meanwhile.

    It is verified, records and keys too, before the file has its name. ``with_keks`` puts the key-encryption keys in,
    where they are files; a backup without them opens only where they are. Raises ``ChainBroken`` where the copy does not
    verify, ``KeyStoreMissing``, ``InvalidForm`` where something is at ``to``, ``LedgerMoved``, ``CopyUnfinished`` or
    ``LossNotAccepted`` for a ledger that does not go on, and the StoreErrors of a disk.
    """
    if str(place) == MEMORY:
        raise InvalidForm("a ledger in memory ends with its process", argument="place")
    clock, ids = clock or SystemClock(), ids or UlidIds()
    told = progress or (lambda *_: None)
    target = given_path(to, "to")
    with new_place(target) as partial:
        work = partial.with_name(partial.name + WORK)
        work.mkdir(mode=0o700)
        try:
            return _backup(place, partial, work, with_keks, artifacts, keys, clock, ids, told)
        except sqlite3.Error as error:
            # What is read can be anything but full: that is the disk of the backup.
            full = primary_code(error) == sqlite3.SQLITE_FULL
            raise (
                translate(error, target, "write") if full else translate(error, Path(place), "copy")
            ) from error
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _backup(
    place: str | Path,
    partial: Path,
    work: Path,
    with_keks: bool,
    artifacts: str | Path | None,
    keys: KeyProvider | None,
    clock: Clock,
    ids: Ids,
    told: Progress,
) -> BackupReport:
    source = _source(place, artifacts, keys, clock, ids)
    try:
        taken_at = time_text(source.store.now_ms())
        if source.store.capabilities.engine == "sqlite":
            _copy_files(Path(source.place), work, told)
        else:
            _copy_rows(source, work, clock, ids, told)
        keks = _settle_keys(source, work, with_keks, clock, ids)
        objects = 0
        if source.artifacts is not None:
            objects = copy_objects(
                source.artifacts,
                lambda: files_in(work / ARTIFACTS_NAME, read_only=False),
                lambda n, _: told("artifacts", n, None),
            )
        counts = _verify(work, source.provider, clock, ids, told)
    finally:
        source.store.close()
        source.key_store.close()
    members = {
        "ledger": counts["ledger"],
        "taken_at": taken_at,
        "streams": counts["streams"],
        "events": counts["events"],
        "keys": counts["keys"],
        "keks": keks,
        "artifacts": objects,
    }
    size, sha256 = _write_tar(work, partial, members, told)
    return BackupReport(**members, bytes=size, sha256=sha256)


def _source(
    place: str | Path, artifacts: str | Path | None, keys: KeyProvider | None, clock: Clock, ids: Ids
) -> Parts:
    parts = open_parts(
        place, tables=TABLES, create=False, read_only=True, clock=clock, ids=ids, provider=keys
    )
    if parts.keys_missing:
        parts.store.close()
        raise KeyStoreMissing(
            f"the key store of {place} is not found, and a backup without keys opens nothing",
            hint="put keys.db and kek/ back first; conversations can be exported without keys",
            place=str(place),
        )
    closed = refusal(parts.store.standing(), str(place))
    if closed is not None:
        # Restored it would be a second one that goes on, so it is no backup, however well it verifies.
        parts.store.close()
        parts.key_store.close()
        raise closed
    return parts if artifacts is None else replace(parts, artifacts=place_of(artifacts, read_only=True))


# ---- what is copied --------------------------------------------------------------------------------------------------


def _copy_files(directory: Path, work: Path, told: Progress) -> None:
    """Both databases by SQLite's own backup, each in one read transaction; writers go on in the log."""
    told("copying", 0, None)
    readers = Readers(directory / DATABASE_NAME, BUSY_S)
    ledger = readers.take()
    try:
        _copy_file(ledger, work / DATABASE_NAME)
        readers.check()
    finally:
        readers.discard(ledger)
    told("copying", 0, None)
    _copy_key_file(directory, work)


def _copy_key_file(directory: Path, work: Path) -> None:
    # Its journal is no log, and may have to be rolled back: never read without looking at it.
    with closing(connect(directory / KEY_STORE_NAME, "ro", BUSY_S)) as keys:
        _copy_file(keys, work / KEY_STORE_NAME)


def _copy_file(source: sqlite3.Connection, to: Path) -> None:
    with closing(sqlite3.connect(to)) as copy:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = WAL")


def _copy_rows(source: Parts, work: Path, clock: Clock, ids: Ids, told: Progress) -> None:
    """A ledger of another engine, from one snapshot, into a directory; its rows are made when it is restored."""
    from counterfoil.client.copying import SameLedger

    into = open_parts(
        work,
        tables=TABLES,
        create=True,
        read_only=False,
        clock=clock,
        ids=SameLedger(ids, source.store.ledger_id),
    )
    try:
        copy_streams(source.store, into.store, progress=lambda done, total: told("copying", done, total))
        copy_companions(source.store, into.store)
        copy_keys(source, replace(into, provider=source.provider))
    finally:
        into.store.close()
        into.key_store.close()


def _settle_keys(source: Parts, work: Path, with_keks: bool, clock: Clock, ids: Ids) -> int:
    """Copy the key-encryption keys; the key store anew with them if a rotation came between. How many of them.

    A key-encryption key is destroyed only after a rotation. So where the epochs are still those of the copy once the
    files have been copied, what the copy lies under is among them.
    """
    for _ in range(KEY_COPIES_MAX):
        keks = _put_keks(source.provider, work) if with_keks else 0
        if _epochs_copied(work) == dict(source.key_store.epochs()):
            return keks
        # A key that was destroyed since must not lie in a backup either.
        shutil.rmtree(work / KEK_DIRECTORY_NAME, ignore_errors=True)
        if source.store.capabilities.engine == "sqlite":
            _copy_key_file(Path(source.place), work)
        else:
            _copy_key_rows(source, work, clock, ids)
    raise StoreBusy(
        f"the keys of {source.place} were rotated {KEY_COPIES_MAX} times while they were copied; there is no backup",
        hint="try again when the rotation has ended",
        place=source.place,
    )


def _epochs_copied(work: Path) -> dict[str, str]:
    copied = SqliteKeyStore(work / KEY_STORE_NAME)
    try:
        return dict(copied.epochs())
    finally:
        copied.close()


def _copy_key_rows(source: Parts, work: Path, clock: Clock, ids: Ids) -> None:
    into = open_parts(work, tables=TABLES, create=False, read_only=False, clock=clock, ids=ids)
    try:
        copy_keys(source, replace(into, provider=source.provider))
    finally:
        into.store.close()
        into.key_store.close()


def _put_keks(provider: KeyProvider, work: Path) -> int:
    """The key-encryption keys after the key store: whatever it lies under by now is among them, or was just before."""
    if not isinstance(provider, FileKeyProvider):
        return 0
    copy = FileKeyProvider(work / KEK_DIRECTORY_NAME, UlidIds())
    for kek_id in provider.epochs():
        try:
            text = provider.hand_out(kek_id)
        except KeyWithheld:
            if kek_id in provider.epochs():
                raise
            continue  # destroyed since the names were read
        copy.take_in(kek_id, text)
    return len(copy.epochs())


def _verify(work: Path, provider: KeyProvider, clock: Clock, ids: Ids, told: Progress) -> dict[str, Any]:
    """Verify the copy as it will be restored: every event and record, and every key opened once."""
    from counterfoil.evidence.verify import verify
    from counterfoil.keys.inspection import KeyCount, inspect

    parts = open_parts(
        work, tables=TABLES, create=False, read_only=True, clock=clock, ids=ids, provider=provider
    )
    try:
        report = verify(
            parts.store,
            None,
            FEATURES,
            level="digests",
            rows=False,
            artifacts=parts.artifacts,
            progress=lambda n: told("verifying", n, None),
        )
        if report.exit_code == 1:
            raise ChainBroken(
                f"what was copied does not verify: {', '.join(report.kinds)}; there is no backup",
                hint="run `counterfoil verify` on the ledger; where its artifacts lie elsewhere, say where: --artifacts DIR",
            )
        count = KeyCount()
        keyring = Keyring(parts.key_store, provider, clock, ids)
        wrong = [fault.what for fault in inspect(keyring, count) if not fault.withheld]
        if wrong:
            raise ChainBroken(f"a key that was copied does not open: {wrong[0]}; there is no backup")
        missing = _unknown_keys(parts)
        if missing:
            raise ChainBroken(f"the copy names the key {missing}, which was not copied; there is no backup")
        streams, events = report.counts.streams, report.counts.events
        return {"ledger": parts.store.ledger_id, "streams": streams, "events": events, "keys": count.keys}
    finally:
        parts.store.close()
        parts.key_store.close()


def _unknown_keys(parts: Parts) -> str | None:
    """The stream key of a stream that the key store's copy has not and no certificate accounts for, or None."""
    from counterfoil.core.genesis import parse_genesis
    from counterfoil.evidence.content import Certificates

    for stream in streams_of(parts.store):
        genesis = parse_genesis(stream.genesis)
        if genesis.ledger != parts.store.ledger_id or parts.key_store.get(genesis.key) is not None:
            continue
        if Certificates(parts.store, stream.stream_id).cover(genesis.key) is None:
            return genesis.key
    return None


# ---- the file --------------------------------------------------------------------------------------------------------


def _files(work: Path) -> Iterator[tuple[str, Path]]:
    for name in (DATABASE_NAME, KEY_STORE_NAME):
        yield name, work / name
    for path in sorted((work / KEK_DIRECTORY_NAME).glob("kek_*")):
        yield f"{KEK_DIRECTORY_NAME}/{path.name}", path
    objects = files_in(work / ARTIFACTS_NAME, read_only=True)
    after = ""
    while names := objects.names(after, PAGE):
        after = names[-1]
        for name in names:
            yield f"{ARTIFACTS_NAME}/{name}", work / ARTIFACTS_NAME / name[:2] / name


def _write_tar(work: Path, partial: Path, members: dict[str, Any], told: Progress) -> tuple[int, str]:
    listed: dict[str, Any] = {}
    with partial.open("xb") as file:
        partial.chmod(MODE)
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for number, (name, path) in enumerate(_files(work)):
                told("writing", number, None)
                listed[name] = {"bytes": path.stat().st_size, "sha256": _digest(path)}
                info = tarfile.TarInfo(name)
                info.size, info.mode = path.stat().st_size, MODE
                with path.open("rb") as data:
                    tar.addfile(info, data)
            text = json.dumps({"ctx": CTX, **members, "files": listed}, sort_keys=True).encode() + b"\n"
            info = tarfile.TarInfo(MANIFEST)
            info.size, info.mode = len(text), MODE
            tar.addfile(info, io.BytesIO(text))
        synced(file)
    return partial.stat().st_size, _digest(partial)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Manifest(Struct, frozen=True):
    """What a backup says of itself."""

    ledger: str
    taken_at: str
    streams: int
    events: int
    files: dict[str, dict[str, Any]]


def unpack(backup: Path, into: Path) -> Manifest:
    """Write a backup's files into an empty directory, each held to its digest. Raises ArchiveInvalid or FileMissing."""
    digests: dict[str, str] = {}
    manifest: Manifest | None = None
    try:
        with tarfile.open(backup, mode="r:") as tar:
            for member in tar:
                source = tar.extractfile(member)
                if source is None or manifest is not None or not member.isreg() or member.issparse():
                    raise _invalid("it holds something that no backup holds")
                if member.name == MANIFEST:
                    manifest = _parsed(source)
                    continue
                if member.name in digests:
                    raise _invalid("it holds a file twice")
                digests[member.name] = _put(source, into, member.name)
    except FileNotFoundError as error:
        raise FileMissing(f"there is no file {backup}", path=str(backup)) from error
    except (tarfile.TarError, EOFError, ValueError, KeyError) as error:
        raise _invalid(f"it cannot be read to its end ({error})") from error
    if manifest is None:
        raise _invalid("its manifest, which stands at the end, is not there")
    if digests != {name: told["sha256"] for name, told in manifest.files.items()}:
        raise _invalid("its files are not those that its manifest names")
    if not digests.keys() >= {DATABASE_NAME, KEY_STORE_NAME}:
        raise _invalid("it holds no ledger with its keys")
    return manifest


def _parsed(source: Any) -> Manifest:
    """The manifest, every member of its form; a backup may have been made by anybody. Raises ArchiveInvalid."""
    data = source.read(MANIFEST_BYTES_MAX + 1)
    try:
        if len(data) > MANIFEST_BYTES_MAX:
            raise ValueError
        said = json.loads(data)
        of_this_version = said["ctx"] == CTX
        manifest = Manifest(
            said["ledger"], said["taken_at"], said["streams"], said["events"], dict(said["files"])
        )
        fits = (
            is_id(manifest.ledger, "ldg")
            and time_ms(manifest.taken_at) >= 0
            and all(type(number) is int and number >= 0 for number in (manifest.streams, manifest.events))
            and all(is_digest(told["sha256"]) for told in manifest.files.values())
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, InputError) as error:
        raise _invalid("its manifest is not one") from error
    if not (of_this_version and fits):
        raise _invalid("its manifest has not its form, or is of another version")
    return manifest


def _put(source: Any, into: Path, name: str) -> str:
    """Write one file; only the names of a backup are taken, so nothing lands anywhere else."""
    first, _, rest = name.partition("/")
    place = {DATABASE_NAME: into / name, KEY_STORE_NAME: into / name}.get(name)
    plain = rest.replace("_", "").isalnum() and rest.isascii()
    if place is None and first == KEK_DIRECTORY_NAME and plain:
        place = into / first / rest
    if place is None and first == ARTIFACTS_NAME and plain and len(rest) == 64:
        place = into / first / rest[:2] / rest
    if place is None:
        raise _invalid("it holds a file that no backup holds")
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with place.open("xb") as file:
        place.chmod(MODE)
        while piece := source.read(PIECE_BYTES):
            digest.update(piece)
            file.write(piece)
        synced(file)
    sync_directory(place.parent)
    return digest.hexdigest()


def _invalid(what: str) -> ArchiveInvalid:
    return ArchiveInvalid(
        f"this is no whole backup: {what}",
        hint="take another backup; nothing was restored",
        line=None,
        offset=None,
    )
