"""``counterfoil keys``: which keys there are, a new epoch for all of them, and a pair to hand keys over with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from counterfoil.cli.commanding import ledger_option, word
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face
from counterfoil.cli.render.line import Line, Span
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.times import count, plural
from counterfoil.errors import InvalidForm, StoreIO

SECRET_MODE = 0o600

_KEPT: Final[Mapping[str, str]] = {
    "not_covered": "the key-encryption key lies beside the data: a copy of the directory holds everything",
    "covered": "the key-encryption key is kept apart from the data",
}


@click.group(name="keys", short_help="Data keys and their epoch: list, rotate, hand over.")
@face_options(ledger=True)
def command() -> None:
    """Data keys lie in the key store, wrapped under the key-encryption key of the current epoch."""


@command.command(name="ls", short_help="Count the keys and name the epoch.")
@face_options(ledger=True)
@pass_face
def ls(face: Face) -> None:
    """The key store, the epoch, and how many keys lie under which key-encryption key. No key is shown.

    Key-encryption keys of former epochs that are still at hand are named too, since older copies open with them.
    """
    with face.open() as ledger:
        held = ledger.keys_held()
    if face.as_json:
        face.give(held.to_json())
        return
    face.say(Line(f"key store {held.key_store}, epoch {held.number}"))
    for kek_id, number in sorted(held.keys.items()):
        current = Span("  current", "good") if kek_id == held.epoch else Span("")
        face.say(Line(f"  {kek_id or 'not wrapped':<30} {plural(number, 'key'):>12}", current))
    for kek_id in held.former:
        face.say(Line(f"  {kek_id:<30} {plural(0, 'key'):>12}", Span("  former, still at hand", "wait")))
    if held.epoch:
        face.say(Line(Span(f"  {_KEPT[held.arrangement]}", "quiet")))
    if held.former:
        option = ledger_option(face)
        face.say(Line(Span(f"  after a backup: counterfoil keys destroy {held.former[0]}{option}", "quiet")))


@command.command(name="rotate", short_help="Wrap every key anew under a new key-encryption key.")
@face_options(ledger=True)
@pass_face
def rotate(face: Face) -> None:
    """Begin a new epoch: every key of the tenant is wrapped anew and unwrapped once to see that it opens.

    The former key-encryption key stays where it is. Back the ledger up, then destroy it: `keys destroy`.
    """
    with face.open(write=True) as ledger:
        done = ledger.rotate_keys()
    if face.as_json:
        face.give({"epoch_from": done.epoch_from, "epoch_to": done.epoch_to, "keys": done.keys})
        return
    option = ledger_option(face)
    face.say(Line(Span("✓ ", "good"), f"{count(done.keys)} keys lie under {done.epoch_to} now"))
    face.say(Line(Span(f"  next: counterfoil backup --to FILE{option}", "quiet")))
    face.say(Line(Span(f"  then: counterfoil keys destroy {done.epoch_from}{option}", "quiet")))


@command.command(name="destroy", short_help="Destroy the key-encryption key of a former epoch.")
@click.argument("kek_id", metavar="KEK")
@face_options(ledger=True)
@pass_face
def destroy(face: Face, kek_id: str) -> None:
    """Destroy KEK for good. Copies of the key store made in its epoch open nothing afterwards, also in a restoration.

    A backup that has the key-encryption key in it opens as ever. A KEK that is not at hand is refused.
    """
    with face.open(write=True) as ledger:
        ledger.destroy_kek(kek_id)
    if face.as_json:
        face.give({"kek": kek_id, "destroyed": True})
    else:
        face.say(Line(Span("✓ ", "good"), f"{marked(kek_id)} is destroyed"))


@command.command(name="recipient", short_help="Make a pair that keys are handed over with.")
@click.option("--to", "target", metavar="FILE", required=True, help="Where the private key is written.")
@face_options(ledger=False)
@pass_face
def recipient(face: Face, target: str) -> None:
    """Make an X25519 pair: the private key goes into FILE, which only you can read; the public one is printed.

    Whoever exports for you gives the public one: `counterfoil export CONVERSATION --keys recipient --recipient KEY`.
    """
    from counterfoil.archive.hpke import new_private_key, public_key

    private = new_private_key()
    path = Path(target).expanduser()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, SECRET_MODE)
        with os.fdopen(handle, "w") as file:
            file.write(private.hex() + "\n")
    except FileExistsError:
        raise InvalidForm(f"{target} is there already; nothing is written over", argument="to") from None
    except OSError as error:
        raise StoreIO(f"{target} cannot be written: {error.strerror or error}", path=target) from error
    public = public_key(private).hex()
    if face.as_json:
        face.give({"public": public, "private_in": target})
    else:
        face.say(
            [
                Line(Span("✓ ", "good"), f"private key in {word(target, 'FILE')}"),
                Line(f"  public key   {public}"),
            ]
        )
